import { expect, it } from "vitest";
import { defineAgent, Savepoint } from "../../src/index.js";
import { dropSchema, newPostgresUrl } from "./schemas.js";

it.each([1, 2, 3])("works with %i connections at most, a worker included", async (connections) => {
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
    while ((await sp.sessions.load(session))?.status !== "completed") await new Promise((r) => setTimeout(r, 10));
  }
  expect(await sp.sessions.list({ status: "completed" }).all()).toHaveLength(10);
  await worker.stop();
  await sp.close();
  await dropSchema(url);
});
