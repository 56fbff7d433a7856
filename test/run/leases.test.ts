import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import { defineAgent, type RunEvent } from "../../src/index.js";
import {
  codeOf,
  createGate,
  errorOf,
  type Gate,
  KINDS,
  LEASE,
  orHung,
  transient,
  until,
  useLab,
  World,
} from "./lab.js";

/** Two effects; the first one waits at a gate, if it has one. */
function worker(world: World, gate?: Gate<string>, note?: (signal: AbortSignal) => void) {
  return defineAgent({
    name: "worker",
    initial: (_input: string) => ({ first: "", second: "" }),
    async step(run) {
      run.state.first = await run.effect("first", ({ signal }) => {
        note?.(signal);
        world.log.push("first");
        return gate ? gate.promise : "fresh";
      });
      run.state.second = await run.effect("second", () => world.do("second", "two"));
      return run.complete(run.state.first);
    },
  });
}

const GO = { session: "s", input: "go" };

describe.each(KINDS)("leases on $name", (kind) => {
  const lab = useLab(kind);

  it("a second process is rejected with the owner of the run and the end of its lease", async () => {
    const world = new World();
    const gate = createGate<string>();
    const first = await lab.open();
    const handle = await first.start(worker(world, gate), { session: "s", input: "go" });
    const sp = await lab.open();
    expect(await sp.sessions.load("s")).toMatchObject({ status: "running" });
    const error = await errorOf(sp.run(worker(world), { session: "s", input: "go" }));
    expect(error.code).toBe("ALREADY_RUNNING");
    expect(error.details).toMatchObject({ sessionId: "s", branch: "main", until: lab.now() + LEASE });
    expect(JSON.stringify(error.details?.["owner"])).toContain(String(process.pid));
    expect(await sp.recover([worker(world)])).toEqual([]);
    gate.open("one");
    expect(await handle.result()).toMatchObject({ status: "completed", output: "one" });
    expect(await sp.run(worker(world), { session: "s", input: "go" })).toMatchObject({ output: "one" });
  });

  it("sessions that start at the same time call their initial state once each", async () => {
    const begun: string[] = [];
    const counter = defineAgent({
      name: "counter",
      initial: (name: string) => (begun.push(name), { name }),
      step: (run) => run.complete(run.state.name),
    });
    const sp = await lab.open();
    const names = ["a", "b", "c", "d", "e"];
    const results = await Promise.all(names.map((name) => sp.run(counter, { session: name, input: name })));
    expect(results.map(({ status }) => status)).toEqual(names.map(() => "completed"));
    expect(begun.sort()).toEqual(names);
  });

  it("a branch can be taken over when its lease has expired by the store's clock, and not a millisecond before", async () => {
    const world = new World();
    const gate = createGate<string>();
    await (await lab.open()).start(worker(world, gate), { session: "s", input: "go" });
    await world.reached("first");
    const sp = await lab.open();
    lab.advance(LEASE - 1);
    expect(await codeOf(sp.run(worker(world), { session: "s", input: "go" }))).toBe("ALREADY_RUNNING");
    lab.advance(1);
    expect(await sp.sessions.load("s")).toMatchObject({ status: "interrupted" });
    expect(await sp.run(worker(world), { session: "s", input: "go" })).toMatchObject({ output: "fresh" });
  });

  it("a process that has lost its lease fails at its next write, and its signal is aborted", async () => {
    const world = new World();
    const gate = createGate<string>();
    let signal: AbortSignal | undefined;
    const events: RunEvent[] = [];
    const zombie = await lab.open();
    zombie.on("run", (event) => void events.push(event));
    const handle = await zombie.start(
      worker(world, gate, (given) => (signal = given)),
      { session: "s", input: "go" },
    );
    await until(() => signal !== undefined, "the effect to begin");
    lab.crash();
    const sp = await lab.open();
    const result = await sp.run(worker(world), { session: "s", input: "go" });
    expect(result).toMatchObject({ status: "completed", output: "fresh" });
    gate.open("from the grave");
    expect(await codeOf(handle.result())).toBe("LEASE_LOST");
    expect(signal?.aborted).toBe(true);
    expect(events.filter(({ type }) => type === "leaseLost")).toEqual([
      { type: "leaseLost", sessionId: "s", branch: "main" },
    ]);
    expect((await sp.session("s").latest())?.state).toEqual({ first: "fresh", second: "two" });
    expect(world.count("second")).toBe(1);
  });

  it("a process that has lost its lease cannot write while another one works", async () => {
    const world = new World();
    const gate = createGate<string>();
    const zombie = await lab.open();
    const handle = await zombie.start(worker(world, gate), { session: "s", input: "go" });
    await world.reached("first");
    lab.crash();
    const reached = world.hangIn("second");
    const sp = await lab.open();
    await sp.start(worker(world), { session: "s", input: "go" });
    await reached;
    gate.open("from the grave");
    expect(await codeOf(handle.result())).toBe("LEASE_LOST");
    lab.crash();
    const third = await lab.open();
    expect(await third.run(worker(world), { session: "s", input: "go" })).toMatchObject({ output: "fresh" });
    expect(world.count("first")).toBe(2);
  });

  it("a process notices that it was taken over although its effect never ends", async () => {
    const world = new World();
    let signal: AbortSignal | undefined;
    const zombie = await lab.open();
    await zombie.start(
      worker(world, createGate<string>(), (given) => (signal = given)),
      { session: "s", input: "go" },
    );
    await until(() => signal !== undefined, "the effect to begin");
    lab.crash();
    await (await lab.open()).run(worker(world), { session: "s", input: "go" });
    await until(() => signal?.aborted === true, "the signal to be aborted");
    expect(signal?.reason).toMatchObject({ code: "LEASE_LOST" });
  });

  it("a save with another parent that a running branch rejects does not change where the run continues", async () => {
    const gate = createGate<string>();
    let isWaiting = false;
    const sp = await lab.open();
    const counter = defineAgent({
      name: "counter",
      initial: () => ({ n: 0 }),
      async step(run) {
        run.state.n++;
        if (run.state.n === 3) await run.effect("wait", () => ((isWaiting = true), gate.promise));
        return run.state.n === 4 ? run.complete() : undefined;
      },
    });
    const handle = await sp.start(counter, { session: "s", input: {} });
    await until(() => isWaiting, "the third step to wait");
    const before = await sp.session("s").history().all();
    const session = sp.session("s", { agent: "counter" });
    for (const parent of [before.at(-1)?.id as string, null]) {
      expect(await codeOf(session.save({ n: 100 }, { parent, resetBranch: true }))).toBe("ALREADY_RUNNING");
    }
    gate.open("on");
    await handle.result();
    const ids = (await sp.session("s").history().all()).map(({ id }) => id);
    expect(ids.slice(-before.length + 1)).toEqual(before.slice(1).map(({ id }) => id));
  });

  it("a running branch rejects plain writes, but can be read, and other branches can be written", async () => {
    const world = new World();
    const gate = createGate<string>();
    const first = await lab.open();
    const handle = await first.start(worker(world, gate), { session: "s", input: "go" });
    for (const sp of [first, await lab.open()]) {
      const session = sp.session<Record<string, unknown>>("s");
      const head = await session.latest();
      expect(head?.state).toEqual({ first: "", second: "" });
      expect(await codeOf(session.save({ x: 1 }))).toBe("ALREADY_RUNNING");
      expect(await codeOf(session.rewind(head?.id as string))).toBe("ALREADY_RUNNING");
      expect(await codeOf(session.append("/list", [1]))).toBe("ALREADY_RUNNING");
      expect(await codeOf(session.update(() => ({})))).toBe("ALREADY_RUNNING");
      const branch = await session.fork(head?.id as string);
      await branch.save({ other: true });
      await session.label(head?.id as string, "seen");
    }
    gate.open("one");
    expect(await handle.result()).toMatchObject({ status: "completed", output: "one" });
    await first.session("s").save({ over: true });
  });

  it.each(["save", "append", "rewind"] as const)(
    "%s is allowed on an interrupted branch, and the interrupted process can no longer write",
    async (how) => {
      const world = new World();
      const gate = createGate<string>();
      const zombie = await lab.open();
      const handle = await zombie.start(worker(world, gate), { session: "s", input: "go" });
      await world.reached("first");
      lab.crash();
      const sp = await lab.open();
      const session = sp.session<{ first: string; second: string; list?: unknown[] }>("s");
      const head = await session.latest();
      if (how === "rewind") await session.rewind(head?.id as string);
      else if (how === "append") {
        await session.save({ first: "", second: "", list: [] });
        await session.append("/list", [1]);
      } else await session.save({ first: "by hand", second: "" });
      const after = await session.latest();
      gate.open("from the grave");
      expect(await codeOf(handle.result())).toBe("LEASE_LOST");
      expect((await session.latest())?.id).toBe(after?.id);
      expect(await sp.run(worker(world), { session: "s", input: "go" })).toMatchObject({ output: "fresh" });
    },
  );

  it("a run whose session was deleted ends, and leaves nothing of it", async () => {
    const world = new World();
    const gate = createGate<string>();
    const runner = await lab.open();
    const handle = await runner.start(worker(world, gate), { session: "s", input: "go" });
    await world.reached("first");
    const sp = await lab.open();
    expect(await sp.sessions.delete("s")).toBe(true);
    gate.open("late");
    expect(await codeOf(handle.result())).toBe("SESSION_DELETED");
    expect(await sp.sessions.load("s")).toBeUndefined();
    expect(await sp.recover([worker(world)])).toEqual([]);
    expect(world.count("second")).toBe(0);
    expect(await sp.run(worker(world), { session: "s", input: "go" })).toMatchObject({ output: "fresh" });
  });

  it("a run whose session was deleted and begun again by another process cannot write", async () => {
    const world = new World();
    const gate = createGate<string>();
    const runner = await lab.open();
    const handle = await runner.start(worker(world, gate), { session: "s", input: "go" });
    await world.reached("first");
    const sp = await lab.open();
    await sp.sessions.delete("s");
    await sp.run(worker(world), { session: "s", input: "go" });
    gate.open("late");
    expect(await codeOf(handle.result())).toBe("SESSION_DELETED");
    expect((await sp.session("s").latest())?.state).toEqual({ first: "fresh", second: "two" });
  });

  it("cancelling a run of the same Savepoint halts it with the reason and aborts its signal", async () => {
    const world = new World();
    let signal: AbortSignal | undefined;
    const sp = await lab.open();
    const stoppable = defineAgent({
      name: "worker",
      initial: (_input: string) => ({ first: "" }),
      async step(run) {
        run.state.first = await run.effect("first", (context) => {
          ({ signal } = context);
          return new Promise<string>((_, reject) =>
            context.signal.addEventListener("abort", () => reject(new Error("stopped"))),
          );
        });
      },
    });
    const handle = await sp.start(stoppable, { session: "s", input: "go" });
    await until(() => signal !== undefined, "the effect to begin");
    await handle.cancel("too dear");
    expect(signal?.aborted).toBe(true);
    expect(await handle.result()).toMatchObject({ status: "halted", reason: "cancelled: too dear" });
    expect(await sp.sessions.load("s")).toMatchObject({ status: "halted", reason: "cancelled: too dear" });
    expect(await sp.session("s").head()).toMatchObject({ status: "halted", reason: "cancelled: too dear" });
    // It is not resumed automatically, only with `resume`.
    expect(await (await lab.open()).recover([worker(world)])).toEqual([]);
    expect(await sp.run(worker(world), { session: "s", input: "go" })).toMatchObject({ status: "halted" });
    expect(await sp.run(worker(world), { session: "s", input: "go", resume: true })).toMatchObject({
      status: "completed",
    });
  });

  it("cancelling a run of another Savepoint halts it and keeps what was recorded", async () => {
    const world = new World();
    const gate = createGate<string>();
    const runner = await lab.open();
    const handle = await runner.start(worker(world, gate), { session: "s", input: "go" });
    await world.reached("first");
    expect(await (await lab.open()).cancel("s", "enough")).toBe(true);
    gate.open("one");
    expect(await handle.result()).toMatchObject({ status: "halted", reason: "cancelled: enough" });
    expect(world.count("second")).toBe(0);
    const sp = await lab.open();
    expect(await sp.sessions.load("s")).toMatchObject({ status: "halted", reason: "cancelled: enough" });
    // Effects that were recorded before the cancel stay recorded.
    const result = await sp.run(worker(world), { session: "s", input: "go", resume: true });
    expect(result).toMatchObject({ status: "completed", output: "one" });
    expect(world.count("first")).toBe(1);
  });

  it("a waiting, sleeping or interrupted run can be cancelled, and one that has ended or never ran cannot", async () => {
    const world = new World();
    const asker = defineAgent({
      name: "asker",
      initial: (how: "ask" | "sleep" | "done") => ({ how }),
      async step(run) {
        if (run.state.how === "ask") await run.ask("well?");
        if (run.state.how === "sleep") await run.sleep("1h");
        return run.complete();
      },
    });
    const sp = await lab.open();
    for (const how of ["ask", "sleep"] as const) {
      await sp.run(asker, { session: how, input: how });
      expect(await sp.cancel(how, "no more")).toBe(true);
      expect(await sp.sessions.load(how)).toMatchObject({
        status: "halted",
        reason: "cancelled: no more",
        questions: [],
      });
      expect(await codeOf(sp.answer(how, 1))).toBe("NOT_WAITING");
      expect(await sp.cancel(how)).toBe(false);
    }
    lab.advance(2 * 3_600_000);
    expect(await sp.recover([asker])).toEqual([]);
    await (await lab.open()).start(worker(world, createGate<string>()), { session: "lost", input: "go" });
    await world.reached("first");
    lab.crash();
    expect(await sp.cancel("lost")).toBe(true);
    expect(await sp.sessions.load("lost")).toMatchObject({ status: "halted", reason: "cancelled: cancelled" });
    expect(await sp.recover([worker(world)])).toEqual([]);
    await sp.run(asker, { session: "done", input: "done" });
    expect(await sp.cancel("done")).toBe(false);
    expect(await sp.cancel("nobody")).toBe(false);
    await sp.session("by hand").save({});
    expect(await sp.cancel("by hand")).toBe(false);
    expect(await sp.sessions.load("done")).toMatchObject({ status: "completed" });
  });

  it("closing records effects that are under way, and another process resumes the run at once", async () => {
    const world = new World();
    const gate = createGate<string>();
    const first = await lab.open();
    const handle = await first.start(worker(world, gate), { session: "s", input: "go" });
    await world.reached("first");
    const closing = first.close();
    gate.open("one");
    await closing;
    expect(await codeOf(handle.result())).toBe("CLOSED");
    expect(world.count("second")).toBe(0);
    const sp = await lab.open();
    expect(await sp.sessions.load("s")).toMatchObject({ status: "interrupted" });
    const [recovered] = await sp.recover([worker(world)]);
    expect(await recovered?.result()).toMatchObject({ status: "completed", output: "one" });
    expect(world.count("first")).toBe(1);
  });

  it("a session that has ended holds no lease", async () => {
    const world = new World();
    const first = await lab.open();
    await first.run(worker(world), { session: "s", input: "go" });
    await (await lab.open()).session("s").save({ mine: true });
    expect((await first.session("s").latest())?.state).toEqual({ mine: true });
  });

  it("a branch that a run could not resume can be run again by its own process", async () => {
    let broken = true;
    const agent = defineAgent({
      name: "a",
      initial: (_input: string) => ({ n: 0 }),
      migrations: [
        (state: { n: number }) => {
          if (broken) throw new Error("not yet");
          return { n: state.n + 100 };
        },
      ],
      step: (run) => run.complete(run.state.n),
    });
    const older = defineAgent({
      name: "a",
      initial: (_input: string) => ({ n: 0 }),
      async step(run) {
        await run.ask("?");
      },
    });
    const sp = await lab.open();
    await sp.run(older, { session: "s", input: "x" });
    await sp.answer("s", 1);
    expect(await codeOf(sp.run(agent, { session: "s", input: "x" }))).not.toBe("none");
    broken = false;
    const result = await orHung(sp.run(agent, { session: "s", input: "x", restartStep: true }));
    expect(result).toMatchObject({ status: "completed", output: 100 });
  });

  it("neither a lease of months nor a timeout of weeks expires at once", async ({ onTestFinished }) => {
    const warnings: string[] = [];
    const listener = ({ name }: Error): void => void warnings.push(name);
    process.on("warning", listener);
    onTestFinished(() => void process.off("warning", listener));
    const sp = await lab.open({ lease: "90d" });
    const gate = createGate();
    const agent = defineAgent({
      name: "patient",
      initial: (_input: string) => ({}),
      async step(run) {
        // Timers end in the order of their times: one that is too long for a timer would end after a millisecond, before this one.
        const inTime = (): Promise<string> => gate.promise.then(() => sleep(20, "in time"));
        return run.complete(await run.tool({ id: "1", name: "t" }, inTime, { timeout: "30d" }));
      },
    });
    const handle = await sp.start(agent, GO);
    lab.advance(80 * 86_400_000);
    expect(await codeOf((await lab.open()).run(agent, GO))).toBe("ALREADY_RUNNING");
    gate.open();
    expect(await handle.result()).toMatchObject({ status: "completed", output: "in time" });
    await lab.idle();
    expect(warnings).not.toContain("TimeoutOverflowWarning");
  });

  it("leases that are too short are rejected", async () => {
    expect(await codeOf(lab.open({ lease: 50 }))).toBe("INVALID_ARGUMENT");
    expect(await codeOf(lab.open({ lease: "soon" as never }))).toBe("INVALID_ARGUMENT");
  });

  it("closing does not wait for the pause before the next attempt of a step", async () => {
    const world = new World();
    const agent = defineAgent({
      name: "a",
      retry: { delay: "1h" },
      initial: (_input: string) => ({}),
      step() {
        world.log.push("try");
        throw transient("no");
      },
    });
    const sp = await lab.open();
    const retried = createGate();
    sp.on("run", ({ type }) => type === "retry" && retried.open());
    await sp.start(agent, GO);
    await retried.promise;
    expect(await orHung(sp.close())).toBeUndefined();
    expect(world.count("try")).toBe(1);
  });

  it("a session that runs cannot be cleared", async () => {
    const gate = createGate();
    const agent = defineAgent({
      name: "a",
      initial: (_input: string) => ({}),
      async step(run) {
        await run.effect("w", () => gate.promise);
        return run.complete("done");
      },
    });
    const sp = await lab.open();
    const handle = await sp.start(agent, GO);
    await lab.idle();
    const code = await codeOf((await lab.open()).session("s").clear());
    gate.open();
    const result = await orHung(codeOf(handle.result()));
    expect([code, result]).toEqual(["ALREADY_RUNNING", "none"]);
  });

  it("the usage of a cancelled step is counted", async () => {
    const world = new World();
    const agent = defineAgent({
      name: "a",
      initial: (_input: string) => ({}),
      async step(run) {
        await run.llm(() => ({ usage: { tokens: 10 } }));
        await run.effect("wait", ({ signal }) => {
          world.log.push("wait");
          return new Promise((_, reject) => signal.addEventListener("abort", () => reject(new Error("x"))));
        });
      },
    });
    const sp = await lab.open();
    const handle = await sp.start(agent, GO);
    await world.reached("wait");
    await handle.cancel();
    expect((await handle.result()).usage).toEqual({ tokens: 10, cost: 0 });
  });
});
