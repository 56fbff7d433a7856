import { describe, expect, it } from "vitest";
import { defineAgent, type Limits } from "../../src/index.js";
import { codeOf, KINDS, until, useLab, World, interruptIn } from "./lab.js";

const GO = { session: "s", input: "go" } as const;

/** An agent that completes at a given step, or never. */
const runaway = (limits?: Limits, world = new World(), end = Number.POSITIVE_INFINITY) =>
  defineAgent({
    name: "a",
    strategy: "never",
    ...(limits && { limits }),
    initial: (_input: string) => ({ n: 0 }),
    receive: (state) => state,
    async step(run) {
      run.state.n++;
      await run.effect("e", () => world.do(`step ${run.step}`));
      return run.state.n % end === 0 ? run.complete(run.state.n) : undefined;
    },
  });

describe.each(KINDS)("limits.stepsPerTurn, on $name", (kind) => {
  const lab = useLab(kind);

  it("halts a turn that reaches it, with a reason that names the limit and what to do", async () => {
    const sp = await lab.open();
    const result = await sp.run(runaway({ stepsPerTurn: 5 }), GO);
    expect(result).toMatchObject({ status: "halted", steps: 5, needsResume: true });
    expect(result.reason).toMatch(/limit of 5 steps in one turn.*limits\.stepsPerTurn.*\{ resume: true \}/);
    expect(await sp.run(runaway({ stepsPerTurn: 5 }), GO)).toMatchObject({ status: "halted", steps: 5 });
  });

  it("starts a new count when the session is resumed, and with each turn", async () => {
    const sp = await lab.open();
    const agent = runaway({ stepsPerTurn: 5 }, new World(), 8);
    await sp.run(agent, GO);
    const other = await lab.open();
    expect(await other.run(agent, { session: "s", resume: true })).toMatchObject({ status: "completed", steps: 8 });
    expect(await other.run(agent, { session: "s", input: "more" })).toMatchObject({ status: "halted", steps: 13 });
    expect(await other.run(agent, { session: "s", resume: true })).toMatchObject({ status: "completed", steps: 16 });
  });

  it("keeps its count when the process dies in the middle of the turn", async () => {
    const world = new World();
    const agent = runaway({ stepsPerTurn: 5 }, world);
    await interruptIn(lab, await lab.open(), agent, "go", world, "step 4");
    expect(await (await lab.open()).run(agent, { session: "s" })).toMatchObject({ status: "halted", steps: 5 });
  });

  it("is beside limits.steps, which is the total over all turns", async () => {
    const sp = await lab.open();
    const agent = runaway({ stepsPerTurn: 5, steps: 8 });
    await sp.run(agent, GO);
    const result = await sp.run(agent, { session: "s", resume: true });
    expect(result).toMatchObject({ status: "halted", steps: 8, reason: "the limit of 8 steps is reached" });
  });

  it("can be replaced for one call", async () => {
    const result = await (await lab.open()).run(runaway(), { ...GO, limits: { stepsPerTurn: 3 } });
    expect(result).toMatchObject({ status: "halted", steps: 3 });
  });
});

describe("the default of limits.stepsPerTurn", () => {
  const lab = useLab(KINDS[0] as (typeof KINDS)[number]);
  const empty = (limits?: Limits) =>
    defineAgent({
      name: "a",
      strategy: "never",
      ...(limits && { limits }),
      initial: (_input: string) => ({ n: 0 }),
      step: (run) => (++run.state.n === 1001 ? run.complete("done") : undefined),
    });

  it("is 1,000, and Infinity turns it off", async () => {
    const sp = await lab.open();
    const halted = await sp.run(empty(), GO);
    expect(halted).toMatchObject({ status: "halted", steps: 1000 });
    expect(halted.reason).toContain("1,000 steps");
    expect(
      await sp.run(empty({ stepsPerTurn: Number.POSITIVE_INFINITY }), { session: "t", input: "go" }),
    ).toMatchObject({
      status: "completed",
      steps: 1001,
    });
    expect(await codeOf((async () => empty({ stepsPerTurn: 0 }))())).toBe("INVALID_ARGUMENT");
  });

  it("does not apply to an external loop", async () => {
    const sp = await lab.open();
    const run = await sp.openRun({ session: "s", initial: () => ({}) });
    for (let step = 0; step < 1002; step++) await run.stepDone();
    expect(await run.complete("done")).toMatchObject({ status: "completed" });
  });
});

describe("a worker", () => {
  const lab = useLab(KINDS[0] as (typeof KINDS)[number]);

  it("has started when start() resolves, and has stopped when run() resolves", async () => {
    const sp = await lab.open();
    const worker = sp.worker([runaway({}, new World(), 1)], { poll: 10, signals: false });
    let isOver = false;
    const run = worker.run().then(() => (isOver = true));
    await sp.enqueue("a", GO);
    await until(async () => (await sp.sessions.load("s"))?.status === "completed", "the session to complete");
    await worker.start();
    expect(isOver).toBe(false);
    await worker.stop();
    await run;
    await worker.run();
    expect(worker.running).toBe(0);
  });

  it("stops run() when the store is closed", async () => {
    const sp = await lab.open();
    const worker = sp.worker([runaway()], { poll: 10, signals: false });
    await worker.start();
    const run = worker.run();
    await sp.close();
    await run;
  });
});
