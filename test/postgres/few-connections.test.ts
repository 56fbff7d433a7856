import { expect, it } from "vitest";
import { defineAgent, Savepoint } from "../../src/index.js";
import { until } from "../support/until.mjs";
import { dropSchema, newPostgresUrl } from "./schemas.js";

it.each([1, 2, 3])("a worker and its store work with %i connections at most", async (connections) => {
  const url = newPostgresUrl();
  const sp = await Savepoint.open(url, { durability: "process", connections, patience: "5s" });
  const agent = defineAgent({
    name: "agent",
    initial: (n: number) => ({ n }),
    async step(run) {
      await run.effect("work", () => run.state.n);
      return run.complete("done");
    },
  });
  const worker = sp.worker([agent], { poll: 50, signals: false });
  await worker.start();
  const sessions = Array.from({ length: 10 }, (_, n) => `s${n}`);
  await Promise.all(sessions.map((session, n) => sp.enqueue(agent, { session, input: n })));
  for (const session of sessions) {
    await until(async () => (await sp.sessions.load(session))?.status === "completed", `${session} to be completed`);
  }
  expect(await sp.sessions.list({ status: "completed" }).all()).toHaveLength(10);
  await worker.stop();
  await sp.close();
  await dropSchema(url);
});
