import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { defineAgent, type RunEvent } from "../../src/index.js";
import { makeFolder, removeFolder } from "../store/temporary-folder.js";
import { codeOf, createGate, errorOf, type Gate, KINDS, LEASE, orHung, settle, until, useLab, World } from "./lab.js";

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

  it("refuses a second process, and says who runs it and until when", async () => {
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

  it("begins each of several at once with one call of its initial state", async () => {
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

  it("takes over when the lease is over by the store's clock, and not a millisecond before", async () => {
    const world = new World();
    const gate = createGate<string>();
    await (await lab.open()).start(worker(world, gate), { session: "s", input: "go" });
    await settle();
    const sp = await lab.open();
    lab.advance(LEASE - 1);
    expect(await codeOf(sp.run(worker(world), { session: "s", input: "go" }))).toBe("ALREADY_RUNNING");
    lab.advance(1);
    expect(await sp.sessions.load("s")).toMatchObject({ status: "interrupted" });
    expect(await sp.run(worker(world), { session: "s", input: "go" })).toMatchObject({ output: "fresh" });
  });

  it("refuses a zombie at its next write, aborts its signal and tells it", async () => {
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
    await until(() => signal !== undefined);
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

  it("refuses a zombie also while the one that took over is still at work", async () => {
    const world = new World();
    const gate = createGate<string>();
    const zombie = await lab.open();
    const handle = await zombie.start(worker(world, gate), { session: "s", input: "go" });
    await settle();
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

  it("notices by itself that it was taken over, though its effect never ends", async () => {
    const world = new World();
    let signal: AbortSignal | undefined;
    const zombie = await lab.open();
    await zombie.start(
      worker(world, createGate<string>(), (given) => (signal = given)),
      { session: "s", input: "go" },
    );
    await until(() => signal !== undefined);
    lab.crash();
    await (await lab.open()).run(worker(world), { session: "s", input: "go" });
    await until(() => signal?.aborted === true);
    expect(signal?.reason).toMatchObject({ code: "LEASE_LOST" });
  });

  it("refuses plain writes to a branch that runs, and allows reading it and writing others", async () => {
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
    "allows %s on an interrupted branch, and the zombie is refused",
    async (how) => {
      const world = new World();
      const gate = createGate<string>();
      const zombie = await lab.open();
      const handle = await zombie.start(worker(world, gate), { session: "s", input: "go" });
      await settle();
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

  it("ends a run whose session was deleted, and leaves nothing of it", async () => {
    const world = new World();
    const gate = createGate<string>();
    const runner = await lab.open();
    const handle = await runner.start(worker(world, gate), { session: "s", input: "go" });
    await settle();
    const sp = await lab.open();
    expect(await sp.sessions.delete("s")).toBe(true);
    gate.open("late");
    expect(["SESSION_DELETED", "LEASE_LOST"]).toContain(await codeOf(handle.result()));
    expect(await sp.sessions.load("s")).toBeUndefined();
    expect(await sp.recover([worker(world)])).toEqual([]);
    expect(world.count("second")).toBe(0);
    expect(await sp.run(worker(world), { session: "s", input: "go" })).toMatchObject({ output: "fresh" });
  });

  it("refuses a run whose session was deleted and begun again by somebody", async () => {
    const world = new World();
    const gate = createGate<string>();
    const runner = await lab.open();
    const handle = await runner.start(worker(world, gate), { session: "s", input: "go" });
    await settle();
    const sp = await lab.open();
    await sp.sessions.delete("s");
    await sp.run(worker(world), { session: "s", input: "go" });
    gate.open("late");
    expect(["SESSION_DELETED", "LEASE_LOST"]).toContain(await codeOf(handle.result()));
    expect((await sp.session("s").latest())?.state).toEqual({ first: "fresh", second: "two" });
  });

  it("cancels a run of the same Savepoint: it is halted with the reason, its signal aborted", async () => {
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
    await until(() => signal !== undefined);
    await handle.cancel("too dear");
    expect(signal?.aborted).toBe(true);
    expect(await handle.result()).toMatchObject({ status: "halted", reason: "cancelled: too dear" });
    expect(await sp.sessions.load("s")).toMatchObject({ status: "halted", reason: "cancelled: too dear" });
    expect(await sp.session("s").head()).toMatchObject({ status: "halted", reason: "cancelled: too dear" });
    // Not gone on with by itself, but if it is said.
    expect(await (await lab.open()).recover([worker(world)])).toEqual([]);
    expect(await sp.run(worker(world), { session: "s", input: "go" })).toMatchObject({ status: "halted" });
    expect(await sp.run(worker(world), { session: "s", input: "go", resume: true })).toMatchObject({
      status: "completed",
    });
  });

  it("cancels a run of another Savepoint", async () => {
    const world = new World();
    const gate = createGate<string>();
    const runner = await lab.open();
    const handle = await runner.start(worker(world, gate), { session: "s", input: "go" });
    await settle();
    expect(await (await lab.open()).cancel("s", "enough")).toBe(true);
    gate.open("one");
    expect(await handle.result()).toMatchObject({ status: "halted", reason: "cancelled: enough" });
    expect(world.count("second")).toBe(0);
    const sp = await lab.open();
    expect(await sp.sessions.load("s")).toMatchObject({ status: "halted", reason: "cancelled: enough" });
    // What was recorded before stays recorded.
    const result = await sp.run(worker(world), { session: "s", input: "go", resume: true });
    expect(result).toMatchObject({ status: "completed", output: "one" });
    expect(world.count("first")).toBe(1);
  });

  it("cancels what waits, is asleep, or was interrupted; and nothing that is over or was never run", async () => {
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
    await settle();
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

  it("lets another go on at once when it is closed, with what was under way recorded", async () => {
    const world = new World();
    const gate = createGate<string>();
    const first = await lab.open();
    const handle = await first.start(worker(world, gate), { session: "s", input: "go" });
    await until(() => world.count("first") === 1);
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

  it("holds no lease for a session that is over", async () => {
    const world = new World();
    const first = await lab.open();
    await first.run(worker(world), { session: "s", input: "go" });
    await (await lab.open()).session("s").save({ mine: true });
    expect((await first.session("s").latest())?.state).toEqual({ mine: true });
  });

  it("gives a branch that a run could not go on with back to its own process", async () => {
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

  it("refuses leases that are too short", async () => {
    expect(await codeOf(lab.open({ lease: 50 }))).toBe("INVALID_ARGUMENT");
    expect(await codeOf(lab.open({ lease: "soon" as never }))).toBe("INVALID_ARGUMENT");
  });

  it("closes at once while a step pauses before its next attempt", async () => {
    const world = new World();
    const agent = defineAgent({
      name: "a",
      retry: { delay: "20s" },
      initial: (_input: string) => ({}),
      step() {
        world.log.push("try");
        throw new Error("no");
      },
    });
    const sp = await lab.open();
    await sp.start(agent, GO);
    await until(() => world.log.length === 1);
    await settle();
    expect(
      await orHung(
        sp.close().then(() => "closed"),
        1000,
      ),
    ).toBe("closed");
  });

  it("refuses to clear a session that runs", async () => {
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
    await settle();
    const code = await codeOf((await lab.open()).session("s").clear());
    gate.open();
    const result = await orHung(codeOf(handle.result()));
    expect([code, result]).toEqual(["ALREADY_RUNNING", "none"]);
  });

  it("counts what a cancelled step had used", async () => {
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
    await until(() => world.log.length === 1);
    await handle.cancel();
    expect((await handle.result()).usage).toEqual({ tokens: 10, cost: 0 });
  });
});

describe("the heartbeat of a busy process", () => {
  const dist = fileURLToPath(new URL("../../dist/index.js", import.meta.url));

  it.skipIf(!existsSync(dist))("keeps its lease while the main thread computes", async () => {
    const folder = await makeFolder();
    try {
      const url = `sqlite:${join(folder, "store.db")}`;
      const program = fileURLToPath(new URL("./busy-child.mjs", import.meta.url));
      const run = (role: string): Promise<string[]> =>
        new Promise((resolve, reject) => {
          const child = spawn(process.execPath, [program, role, url, dist], { stdio: ["ignore", "pipe", "inherit"] });
          let said = "";
          child.stdout.on("data", (part: Buffer) => (said += part.toString()));
          child.on("error", reject);
          child.on("exit", (code) =>
            code === 0 ? resolve(said.trim().split("\n")) : reject(new Error(`${role} ended with ${code}: ${said}`)),
          );
        });
      const [busy, rival] = await Promise.all([run("busy"), run("rival")]);
      expect(busy).toEqual(["busy", "completed done"]);
      expect(new Set(rival.slice(0, -1))).toEqual(new Set(["ALREADY_RUNNING"]));
      expect(rival.length).toBeGreaterThan(5);
      expect(rival.at(-1)).toBe("completed done");
    } finally {
      await removeFolder(folder);
    }
  });
});
