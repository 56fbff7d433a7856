/** Scheduling runs again that have ended or were interrupted: `sp.requeue()`. */
import { describe, expect, it } from "vitest";
import { type Agent, defineAgent, type Savepoint } from "../../src/index.js";
import { ALL_KINDS, codeOf, interruptIn, untilStatus, useLab, World } from "./lab.js";

/** Counts to three, one step each, and fails in the step that the test selects. */
function counter(world: World, fail: () => boolean) {
  return defineAgent({
    name: "counter",
    strategy: "everyStep",
    initial: (_input: string) => ({ n: 0 }),
    retry: { attempts: 1 },
    async step(run) {
      await run.effect("count", () => world.do("count", "counted"));
      if (run.state.n === 1 && fail()) throw new Error("the code is broken");
      run.state.n++;
      return run.state.n === 3 ? run.complete(run.state.n) : undefined;
    },
  });
}

/** Lets a worker run until the session has completed. */
async function work(sp: Savepoint, agent: Agent<never>): Promise<void> {
  const worker = sp.worker([agent], { poll: 10, signals: false });
  await worker.start();
  await untilStatus(sp, "completed");
  await worker.stop();
}

describe.each(ALL_KINDS)("a requeued run, on $name", (kind) => {
  const lab = useLab(kind);

  it("that an error has ended is resumed by a worker, without repeating recorded effects", async () => {
    const world = new World();
    let isBroken = true;
    const agent = counter(world, () => isBroken);
    const sp = await lab.open();
    expect((await sp.run(agent, { session: "s", input: "go" })).status).toBe("failed");
    isBroken = false;
    expect(await sp.requeue("s")).toBe(true);
    expect(await sp.sessions.load("s")).toMatchObject({ status: "queued", error: undefined, reason: undefined });
    expect((await sp.queue().all()).map(({ sessionId, state }) => [sessionId, state])).toEqual([["s", "queued"]]);
    expect(await sp.requeue("s")).toBe(false);
    await work(sp, agent);
    expect(world.count("count")).toBe(3);
    expect(await sp.requeue("s")).toBe(false);
  });

  it("that was cancelled is resumed by a worker", async () => {
    const world = new World();
    const agent = counter(world, () => false);
    await interruptIn(lab, await lab.open(), agent, "go", world, "count");
    const sp = await lab.open();
    expect(await sp.cancel("s", "stop")).toBe(true);
    expect((await sp.sessions.load("s"))?.status).toBe("halted");
    expect(await sp.requeue("s")).toBe(true);
    await work(sp, agent);
  });

  it("whose process has died is released and queued", async () => {
    const world = new World();
    const agent = counter(world, () => false);
    await interruptIn(lab, await lab.open(), agent, "go", world, "count");
    const sp = await lab.open();
    expect((await sp.sessions.load("s"))?.status).toBe("interrupted");
    expect(await sp.requeue("s")).toBe(true);
    expect(await sp.requeue("s")).toBe(false);
    await work(sp, agent);
  });

  it("on a branch that was rewound or forked and not run since is resumed from there", async () => {
    const world = new World();
    const agent = counter(world, () => false);
    const sp = await lab.open();
    await sp.run(agent, { session: "s", input: "go" });
    await sp.session("s").rewind({ step: 1 });
    expect((await sp.sessions.load("s"))?.status).toBe("halted");
    expect(await sp.requeue("s")).toBe(true);
    await work(sp, agent);
    expect(world.count("count")).toBe(5);
    await sp.session("s").fork({ step: 2 }, { branch: "again" });
    expect(await sp.requeue("s", { branch: "again" })).toBe(true);
    const worker = sp.worker([agent], { poll: 10, signals: false });
    await worker.start();
    for await (const event of sp.watch("s", { branch: "again" })) void event;
    await worker.stop();
    expect((await sp.sessions.load("s", { branch: "again" }))?.status).toBe("completed");
    expect(world.count("count")).toBe(6);
  });

  it("must exist, and must not be the turn of another program", async () => {
    const sp = await lab.open();
    expect(await codeOf(sp.requeue("none"))).toBe("SESSION_NOT_FOUND");
    await sp.session("saved", { agent: "x" }).save({ n: 1 });
    expect(await sp.requeue("saved")).toBe(false);
    expect(await codeOf(sp.requeue("saved", { branch: "none" }))).toBe("BRANCH_NOT_FOUND");
    const run = await sp.openRun({ session: "open", initial: () => ({}) });
    await run.tool({ id: "1", name: "read" }, () => "text");
    await run.release();
    expect(await codeOf(sp.requeue("open"))).toBe("INVALID_ARGUMENT");
  });

  it("that has failed or was cancelled must not be the turn of another program either", async () => {
    const sp = await lab.open();
    const open = () => sp.openRun({ session: "open", turn: "1", initial: () => ({}) });
    await (await open()).fail("the network is down");
    expect(await codeOf(sp.requeue("open"))).toBe("INVALID_ARGUMENT");
    await (await open()).release();
    await sp.cancel("open", "stop");
    expect((await sp.sessions.load("open"))?.status).toBe("halted");
    expect(await codeOf(sp.requeue("open"))).toBe("INVALID_ARGUMENT");
    expect(await sp.queue().all()).toEqual([]);
    const last = await open();
    await last.tool({ id: "1", name: "read" }, () => "text");
    await last.stepDone();
    await last.complete();
    expect(await sp.requeue("open")).toBe(false);
    const fork = await sp.session("open").fork({ step: 1 });
    expect(await codeOf(sp.requeue("open", { branch: fork.branch }))).toBe("INVALID_ARGUMENT");
  });

  it("that is running or waits for an answer is unchanged", async () => {
    const world = new World();
    const reached = world.hangIn("count");
    const agent = counter(world, () => false);
    const sp = await lab.open();
    const handle = await sp.start(agent, { session: "s", input: "go" });
    await reached;
    expect(await (await lab.open()).requeue("s")).toBe(false);
    void handle.result().catch(() => {});
    const asking = defineAgent({
      name: "asks",
      initial: (_input: string) => ({}),
      step: async (run) => run.complete(await run.ask("Really?")),
    });
    await sp.run(asking, { session: "ask", input: "go" });
    expect(await sp.requeue("ask")).toBe(false);
  });
});
