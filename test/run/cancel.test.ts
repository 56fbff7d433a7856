import { describe, expect, it } from "vitest";
import { type Agent, defineAgent, type Run, Savepoint } from "../../src/index.js";
import { journalKey } from "../../src/records/index.js";
import { cancelAtRandomMoments } from "./cancel-suite.js";
import { codeOf, createGate, type Gate, intercept, KINDS, until, useLab, World } from "./lab.js";

cancelAtRandomMoments(24);

const GO = { session: "s", input: "go" };
const CANCELLED = { status: "halted", reason: "cancelled: enough" };

interface State {
  first: string;
  second: string;
}

/** An agent with two tools, one after the other; the first waits for the gate. */
function createClerk(world: World, gate?: Gate<string>): Agent<string, State, string> {
  return defineAgent({
    name: "clerk",
    initial: (_input: string): State => ({ first: "", second: "" }),
    async step(run: Run<State>) {
      run.state.first = await run.tool({ id: "1", name: "first" }, async ({ signal }) => {
        signal.addEventListener("abort", () => gate?.open("one"));
        await world.do("first");
        return gate ? gate.promise : "one";
      });
      run.state.second = await run.tool({ id: "2", name: "second" }, () => world.do("second", "two"));
      return run.complete(run.state.second);
    },
  });
}

async function outcomesOf(sp: Savepoint): Promise<string[]> {
  const outcomes: string[] = [];
  for await (const { name, outcome } of sp.journal("s")) outcomes.push(`${name} ${outcome}`);
  return outcomes;
}

describe.each(KINDS)("a cancelled run, on $name", (kind) => {
  const lab = useLab(kind);

  /** Starts a run, and cancels it from another process while its first tool is under way. */
  async function cancelElsewhere(): Promise<{
    world: World;
    gate: Gate<string>;
    runner: Savepoint;
    result: Promise<{ status: string }>;
  }> {
    const world = new World();
    const gate = createGate<string>();
    const runner = await lab.open();
    const handle = await runner.start(createClerk(world, gate), GO);
    const result = handle.result();
    result.catch(() => {});
    await until(() => world.count("first") === 1, "the first tool to begin");
    expect(await (await lab.open()).cancel("s", "enough")).toBe(true);
    return { world, gate, runner, result };
  }

  it("records the result of a tool that ends because it is aborted, while the cancel is being read", async () => {
    const world = new World();
    const gate = createGate<string>();
    await lab.open();
    // If the result could be written during this read, it would be: there are many turns of the event loop for it.
    const slow = intercept(lab.store(), {
      get: async (keys) => {
        if (keys.length === 1 && keys[0] === journalKey("s", "main"))
          for (let turn = 0; turn < 20; turn++) await new Promise(setImmediate);
      },
    });
    const runner = await Savepoint.open(slow, { now: lab.now });
    const handle = await runner.start(createClerk(world, gate), GO);
    await until(() => world.count("first") === 1, "the first tool to begin");
    expect(await runner.cancel("s", "enough")).toBe(true);
    expect(await handle.result()).toMatchObject(CANCELLED);
    expect(await runner.sessions.load("s")).toMatchObject(CANCELLED);
    expect(await outcomesOf(runner)).toEqual(["first recorded"]);
    expect(world.count("second")).toBe(0);
  });

  it("records that a tool has not started if the cancel came before its start", async () => {
    const world = new World();
    const other = await lab.open();
    let isArmed = false;
    const slow = intercept(lab.store(), {
      commit: async ({ items = [] }) => {
        if (!isArmed || !items.some((run) => "first" in run && run.items.some(({ json }) => json.includes('"second"'))))
          return;
        isArmed = false;
        expect(await other.cancel("s", "enough")).toBe(true);
      },
    });
    const runner = await Savepoint.open(slow, { now: lab.now });
    isArmed = true;
    expect(await runner.run(createClerk(world), GO)).toMatchObject(CANCELLED);
    expect(world.log).toEqual(["first"]);
    expect(await outcomesOf(runner)).toEqual(["first recorded", "second again"]);
    const result = await runner.run(createClerk(world), { ...GO, resume: true });
    expect(result).toMatchObject({ status: "completed", output: "two" });
    expect(world.log).toEqual(["first", "second"]);
  });

  it("is halted by the next process that claims it, if its own process died before halting it", async () => {
    const { world } = await cancelElsewhere();
    lab.crash();
    const sp = await lab.open();
    expect(await sp.run(createClerk(world), GO)).toMatchObject(CANCELLED);
    expect(await sp.sessions.load("s")).toMatchObject(CANCELLED);
    expect(await sp.recover([createClerk(world)])).toEqual([]);
    expect(world.log).toEqual(["first"]);
  });

  it("is halted by a worker that finds it, if its own process died before halting it", async () => {
    const { world } = await cancelElsewhere();
    lab.crash();
    const sp = await lab.open();
    const worker = sp.worker([createClerk(world)]);
    await worker.start();
    await until(async () => (await sp.sessions.load("s"))?.status === "halted", "the session to be halted");
    await worker.stop();
    expect(await sp.sessions.load("s")).toMatchObject(CANCELLED);
    expect(world.log).toEqual(["first"]);
  });

  it("is halted with the result of its tool when its store is closed before the run noticed the cancel", async () => {
    const { world, gate, runner, result } = await cancelElsewhere();
    const closing = runner.close();
    // The run waits for its tool, and starts nothing more.
    await lab.idle();
    gate.open("one");
    await closing;
    expect(await result).toMatchObject(CANCELLED);
    const sp = await lab.open();
    expect(await sp.sessions.load("s")).toMatchObject(CANCELLED);
    expect(await outcomesOf(sp)).toEqual(["first recorded"]);
    expect(await sp.recover([createClerk(world)])).toEqual([]);
  });

  it("is halted with the reason of the cancel, and not with a later error of its agent", async () => {
    const world = new World();
    const gate = createGate();
    const runner = await lab.open();
    const agent = defineAgent({
      name: "clerk",
      initial: (_input: string): { value: unknown } => ({ value: 1 }),
      async step(run) {
        world.log.push("step");
        await gate.promise;
        run.state.value = () => {};
        return run.complete();
      },
    });
    const handle = await runner.start(agent, GO);
    await until(() => world.log.length === 1, "the tool to begin");
    expect(await (await lab.open()).cancel("s", "enough")).toBe(true);
    gate.open();
    expect(await handle.result()).toMatchObject(CANCELLED);
    expect(await runner.sessions.load("s")).toMatchObject(CANCELLED);
  });

  it("keeps the reason of the first cancel", async () => {
    const { gate, result } = await cancelElsewhere();
    expect(await (await lab.open()).cancel("s", "too late")).toBe(true);
    gate.open("one");
    expect(await result).toMatchObject(CANCELLED);
  });

  it("keeps the reason of the first cancel if its process has died since", async () => {
    await cancelElsewhere();
    lab.crash();
    const sp = await lab.open();
    expect(await sp.cancel("s", "too late")).toBe(true);
    expect(await sp.sessions.load("s")).toMatchObject(CANCELLED);
    expect(await sp.cancel("s", "again")).toBe(false);
  });

  it("is completed, and not cancelled, if it completes while the cancel reads its owner", async () => {
    const world = new World();
    const gate = createGate<string>();
    const runner = await lab.open();
    const handle = await runner.start(createClerk(world, gate), GO);
    await until(() => world.count("first") === 1, "the first tool to begin");
    let isArmed = true;
    const slow = intercept(lab.store(), {
      get: async (keys) => {
        // The owner's record is read after those of the branch.
        if (!isArmed || !keys[0]?.startsWith("h")) return;
        isArmed = false;
        gate.open("one");
        await handle.result();
      },
    });
    const other = await Savepoint.open(slow, { now: lab.now });
    expect(await other.cancel("s", "enough")).toBe(false);
    expect(await handle.result()).toMatchObject({ status: "completed" });
    expect(await other.sessions.load("s")).toMatchObject({ status: "completed" });
  });

  it("is halted, and not resumed, if its process had released it before the cancel", async () => {
    const world = new World();
    const gate = createGate<string>();
    const runner = await lab.open();
    await runner.start(createClerk(world, gate), GO);
    await until(() => world.count("first") === 1, "the first tool to begin");
    const closing = runner.close();
    gate.open("one");
    await closing;
    const sp = await lab.open();
    expect(await sp.sessions.load("s")).toMatchObject({ status: "interrupted" });
    expect(await sp.cancel("s", "enough")).toBe(true);
    expect(await sp.sessions.load("s")).toMatchObject(CANCELLED);
    expect(await sp.recover([createClerk(world)])).toEqual([]);
    expect(await sp.cancel("s", "again")).toBe(false);
    expect(await sp.run(createClerk(world), { session: "s", resume: true })).toMatchObject({ status: "completed" });
    expect(world.log).toEqual(["first", "second"]);
  });

  it("is halted, and not resumed, if its branch was rewound while an input was queued", async () => {
    const sp = await lab.open();
    const clerk = createClerk(new World());
    expect(await sp.run(clerk, GO)).toMatchObject({ status: "completed" });
    await sp.send("s", "next");
    await sp.session("s").rewind("s#0");
    expect(await sp.sessions.load("s")).toMatchObject({ status: "interrupted" });
    expect(await sp.cancel("s", "enough")).toBe(true);
    expect(await sp.sessions.load("s")).toMatchObject(CANCELLED);
    expect(await sp.recover([clerk])).toEqual([]);
  });

  it("that is an open run is halted if its process died before halting it", async () => {
    const holder = await lab.open();
    const options = { session: "s", turn: "t", initial: () => ({}) };
    const run = await holder.openRun(options);
    await run.tool({ id: "1", name: "first" }, () => 1);
    expect(await (await lab.open()).cancel("s", "enough")).toBe(true);
    lab.crash();
    const sp = await lab.open();
    expect(await sp.cancel("s", "again")).toBe(true);
    expect(await sp.sessions.load("s")).toMatchObject(CANCELLED);
    expect(await codeOf(run.complete())).toBe("LEASE_LOST");
  });
});
