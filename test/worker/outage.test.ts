import { setTimeout as sleep } from "node:timers/promises";
import { expect, it } from "vitest";
import { defineAgent, Savepoint } from "../../src/index.js";
import { startProxy } from "../postgres/proxy.js";
import { dropSchema, newPostgresUrl } from "../postgres/schemas.js";

it("goes on when the database is back, also after longer than anything waits for it", async () => {
  const url = newPostgresUrl();
  const proxy = await startProxy(url);
  const done: string[] = [];
  const agent = defineAgent({
    name: "agent",
    initial: () => ({ steps: 0 }),
    async step(run) {
      const key = await run.tool(
        { id: `${run.step}`, name: "work" },
        async ({ idempotencyKey }) => {
          done.push(idempotencyKey);
          await sleep(50);
          return idempotencyKey;
        },
        { onUnknown: "retry" },
      );
      expect(done).toContain(key);
      run.state.steps++;
      return run.state.steps === 40 ? run.complete("done") : undefined;
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
  while (done.length < 20) await sleep(10);
  await proxy.away(3000);
  expect(failures).not.toEqual([]);
  const direct = await Savepoint.open(url, { durability: "process" });
  for (let n = 0; n < 5; n++) {
    while ((await direct.sessions.load(`s${n}`))?.status !== "completed") await sleep(20);
    expect(await direct.session(`s${n}`).latest()).toMatchObject({ state: { steps: 40 } });
  }
  expect(new Set(done).size).toBe(200);
  await worker.stop();
  await sp.close();
  await direct.close();
  await proxy.close();
  await dropSchema(url);
});
