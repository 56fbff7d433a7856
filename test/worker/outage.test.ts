import { expect, it } from "vitest";
import { defineAgent, Savepoint } from "../../src/index.js";
import { startProxy } from "../postgres/proxy.js";
import { dropSchema, newPostgresUrl } from "../postgres/schemas.js";
import { createGate } from "../support/gate.js";
import { until } from "../support/until.mjs";

it("a worker resumes when the database is back after an outage longer than its patience", async () => {
  const url = newPostgresUrl();
  const proxy = await startProxy(url);
  const done: string[] = [];
  const cutOff = createGate();
  const agent = defineAgent({
    name: "agent",
    initial: () => ({ steps: 0 }),
    async step(run) {
      const key = await run.tool(
        { id: `${run.step}`, name: "work" },
        async ({ idempotencyKey }) => {
          done.push(idempotencyKey);
          // The database goes away while all of them work.
          if (run.state.steps === 4) await cutOff.promise;
          return idempotencyKey;
        },
        { onUnknown: "retry" },
      );
      expect(done).toContain(key);
      run.state.steps++;
      return run.state.steps === 12 ? run.complete("done") : undefined;
    },
  });
  const sp = await Savepoint.open(proxy.url, {
    durability: "process",
    patience: "500ms",
    lease: "1s",
    on: { backgroundFailure: () => {} },
  });
  const worker = sp.worker([agent], { poll: 50, signals: false });
  const failures: unknown[] = [];
  worker.on("failure", ({ error }) => failures.push(error));
  await worker.start();
  for (let n = 0; n < 5; n++) await sp.enqueue(agent, { session: `s${n}`, input: undefined });
  await until(() => done.length === 25, "all sessions to be in their fifth step");
  proxy.away();
  cutOff.open();
  // Longer than any call waits for the database.
  await until(() => failures.length > 0 && worker.running === 0, "the worker to give all of them up");
  proxy.back();
  const direct = await Savepoint.open(url, { durability: "process" });
  for (let n = 0; n < 5; n++) {
    await until(async () => (await direct.sessions.load(`s${n}`))?.status === "completed", `s${n} to be completed`);
    expect(await direct.session(`s${n}`).latest()).toMatchObject({ state: { steps: 12 } });
  }
  expect(new Set(done).size).toBe(60);
  await worker.stop();
  await sp.close();
  await direct.close();
  await proxy.close();
  await dropSchema(url);
});
