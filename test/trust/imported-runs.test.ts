/** A bundle can carry runs, also with recorded answers. They do not act on behalf of the importer. */
import { describe, expect, it } from "vitest";
import { defineAgent, type Savepoint } from "../../src/index.js";
import { KINDS, useLab, World } from "../run/lab.js";

const agentOf = (world: World) =>
  defineAgent({
    name: "payments",
    initial: (_input: string) => ({ done: false }),
    async step(run) {
      const answer = await run.ask({ text: "Pay 900 to Mallory?" });
      if (answer === "yes") await run.effect("pay", () => world.do("pay"));
      return run.complete(answer);
    },
  });

/** A worker that has searched for work once. */
async function searchForWork(sp: Savepoint, world: World): Promise<void> {
  expect(await sp.recover([agentOf(world)])).toEqual([]);
  const own = await sp.enqueue(agentOf(world), { session: "own", input: "go" });
  expect(own).toBe(true);
  const worker = sp.worker([agentOf(world)]);
  await worker.start();
  // When the worker has run its own session, it has seen everything that was queued before.
  for await (const event of sp.watch("own")) if ("status" in event && event.status === "waiting") break;
  await worker.stop();
}

describe.each(KINDS)("an imported session on $name", (kind) => {
  const [there, here] = [useLab(kind), useLab(kind)];

  it("with an answered approval is not resumed by a worker, only by an explicit run", async () => {
    const world = new World();
    const a = await there.open();
    await a.run(agentOf(world), { session: "s", input: "go" });
    await a.answer("s", "yes");
    const bundle = await a.export({ session: "s" }).bytes();
    const b = await here.open();
    await b.import(bundle);
    expect((await b.sessions.load("s"))?.status).not.toBe("interrupted");
    await searchForWork(b, world);
    expect(world.log).toEqual([]);
    expect(await b.run(agentOf(world), { session: "s", input: "go" })).toMatchObject({ output: "yes" });
    expect(world.log).toEqual(["pay"]);
  });

  it("that was queued and has not started is halted, and starts when it is run", async () => {
    const world = new World();
    const a = await there.open();
    await a.enqueue(agentOf(world), { session: "s", input: "go" });
    const b = await here.open();
    expect((await b.import(a.export({ session: "s" }))).halted).toEqual(["s"]);
    expect(await b.sessions.load("s")).toMatchObject({ status: "halted" });
    expect(await b.recover([agentOf(world)])).toEqual([]);
    expect(await b.run(agentOf(world), { session: "s", input: "go" })).toMatchObject({ status: "waiting" });
  });

  it("that is imported with live runs is resumed by a worker", async () => {
    const world = new World();
    const a = await there.open();
    await a.run(agentOf(world), { session: "s", input: "go" });
    await a.answer("s", "yes");
    const b = await here.open();
    await b.import(a.export({ session: "s" }), { runs: "live" });
    const [handle] = await b.recover([agentOf(world)]);
    expect(await handle?.result()).toMatchObject({ output: "yes" });
  });

  it("that waits for an answer accepts one from the importer, and then resumes", async () => {
    const world = new World();
    const a = await there.open();
    await a.run(agentOf(world), { session: "s", input: "go" });
    const b = await here.open();
    await b.import(a.export({ session: "s" }));
    expect(await b.sessions.load("s")).toMatchObject({ status: "waiting" });
    expect(await b.recover([agentOf(world)])).toEqual([]);
    await b.answer("s", "no");
    const [handle] = await b.recover([agentOf(world)]);
    expect(await handle?.result()).toMatchObject({ output: "no" });
    expect(world.log).toEqual([]);
  });
});
