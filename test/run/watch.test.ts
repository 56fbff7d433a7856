import { describe, expect, expectTypeOf, it } from "vitest";
import { defineAgent, type RunEvent, type Savepoint, type WatchEvent } from "../../src/index.js";
import { createGate, KINDS, orHung, until, useLab, World } from "./lab.js";

const GO = { session: "s", input: "go" };

function worker(world: World, gate = createGate()) {
  return {
    gate,
    agent: defineAgent({
      name: "worker",
      strategy: "everyStep",
      initial: (_input: string) => ({ n: 0 }),
      async step(run) {
        run.state.n++;
        await run.tool({ id: `c${run.step}`, name: "t" }, async () => {
          await gate.promise;
          return world.do(`tool ${run.step}`);
        });
        // Long enough for whoever watches to look.
        await run.effect("pause", () => new Promise((resolve) => setTimeout(resolve, 80)));
        if (run.step === 2) return run.complete("done");
        return undefined;
      },
    }),
  };
}

async function collect(sp: Savepoint, options: Parameters<Savepoint["watch"]>[1] = {}): Promise<WatchEvent[]> {
  const events: WatchEvent[] = [];
  for await (const event of sp.watch("s", options)) events.push(event);
  return events;
}

describe.each(KINDS)("watching on $name", (kind) => {
  const lab = useLab(kind);

  it.each(["the same", "another"])("follows a run of %s process to its end", async (which) => {
    const { agent, gate } = worker(new World());
    const sp = await lab.open();
    const watcher = which === "another" ? await lab.open() : sp;
    const handle = await sp.start(agent, GO);
    const watching = collect(watcher);
    await new Promise((resolve) => setTimeout(resolve, 80));
    gate.open();
    await handle.result();
    const events = await orHung(watching, 5000);
    if (events === "hung") throw new Error("The watch did not end.");
    const statuses = events.flatMap((event) => (event.type === "status" ? [event.status] : []));
    expect(statuses).toEqual(["running", "completed"]);
    const checkpoints = events.flatMap((event) => (event.type === "checkpoint" ? [event.checkpoint.trigger] : []));
    expect(checkpoints).toEqual(["start", "step", "end"]);
    const tools = events.flatMap((event) => (event.type === "effect" && event.kind === "tool" ? [event] : []));
    expect(tools[0]).toMatchObject({ name: "t", callId: "c1", phase: "start" });
    expect(tools.map(({ callId, phase }) => `${callId} ${phase}`)).toEqual([
      "c1 start",
      "c1 end",
      "c2 start",
      "c2 end",
    ]);
  });

  it("says how a session stands that is over, and ends", async () => {
    const { agent, gate } = worker(new World());
    gate.open();
    const sp = await lab.open();
    await sp.run(agent, GO);
    const events = await collect(await lab.open());
    expect(events.at(-1)).toMatchObject({ type: "status", status: "completed", question: undefined });
  });

  it("waits for a session that does not exist yet", async () => {
    const { agent, gate } = worker(new World());
    gate.open();
    const watching = collect(await lab.open());
    await (await lab.open()).run(agent, GO);
    const events = await orHung(watching, 5000);
    expect(events.at(-1)).toMatchObject({ type: "status", status: "completed" });
  });

  it("tells questions, answers and turns while it is kept open, and ends by its signal", async () => {
    const agent = defineAgent({
      name: "asker",
      initial: (_input: string) => ({}),
      receive: () => {},
      async step(run) {
        return run.complete(await run.ask("Shall I?"));
      },
    });
    const sp = await lab.open();
    const stop = new AbortController();
    const events: WatchEvent[] = [];
    const watching = (async () => {
      for await (const event of sp.watch("s", { keepOpen: true, signal: stop.signal })) events.push(event);
    })();
    const told = (): string[] => events.flatMap((event) => (event.type === "status" ? [event.status] : []));
    await sp.run(agent, GO);
    await until(() => told().includes("waiting"));
    expect(events.find((event) => event.type === "status" && event.status === "waiting")).toMatchObject({
      question: { text: "Shall I?" },
      reason: "Shall I?",
    });
    await sp.answer("s", "yes");
    await until(() => told().includes("queued"));
    await sp.run(agent, GO);
    await until(() => told().includes("completed"));
    expect(await orHung(watching, 50)).toBe("hung");
    stop.abort();
    expect(await orHung(watching, 2000)).toBeUndefined();
  });

  it("ends when the session is deleted", async () => {
    const { agent } = worker(new World());
    const sp = await lab.open();
    await sp.start(agent, GO);
    const other = await lab.open();
    const watching = collect(other);
    await new Promise((resolve) => setTimeout(resolve, 60));
    await other.sessions.delete("s");
    expect(await orHung(watching, 3000)).not.toBe("hung");
  });

  it("tells of an interruption, and of whoever goes on", async () => {
    const { agent } = worker(new World());
    await (await lab.open()).start(agent, GO);
    const other = await lab.open();
    const events: WatchEvent[] = [];
    const watching = (async () => {
      for await (const event of other.watch("s")) events.push(event);
    })();
    const told = (): string[] => events.flatMap((event) => (event.type === "status" ? [event.status] : []));
    await until(() => told().includes("running"));
    lab.crash();
    await until(() => told().includes("interrupted"));
    await other.cancel("s", "given up");
    await orHung(watching, 3000);
    expect(told()).toEqual(["running", "interrupted", "halted"]);
  });

  it("tells nothing of other branches", async () => {
    const { agent, gate } = worker(new World());
    const sp = await lab.open();
    const handle = await sp.start(agent, GO);
    const watching = collect(sp);
    await new Promise((resolve) => setTimeout(resolve, 80));
    const session = sp.session<{ n: number }>("s");
    const fork = await session.fork((await session.head())?.id as string, { branch: "other" });
    await fork.save({ n: 77 });
    gate.open();
    await handle.result();
    const events = await watching;
    const branches = events.flatMap((event) => (event.type === "checkpoint" ? [event.checkpoint.branch] : []));
    expect(new Set(branches)).toEqual(new Set(["main"]));
  });

  it("gives a handle the events of its own run, with types, until the listener is taken off", async () => {
    const { agent, gate } = worker(new World());
    const sp = await lab.open();
    const handle = await sp.start(agent, GO);
    const other = await sp.start(agent, { session: "other", input: "go" });
    const steps: number[] = [];
    const names: string[] = [];
    const statuses: string[] = [];
    handle.on("step", (event) => {
      expectTypeOf(event.step).toEqualTypeOf<number>();
      expect(event.sessionId).toBe("s");
      steps.push(event.step);
    });
    const off = handle.on("effect", (event) => void names.push(`${event.name} ${event.phase}`));
    handle.on("status", ({ status }) => void statuses.push(status));
    off();
    gate.open();
    const result = await handle.result();
    await other.result();
    expect(steps).toEqual([1, 2]);
    expect(names).toEqual([]);
    expect(statuses).toEqual(["completed"]);
    expectTypeOf(result.state).toEqualTypeOf<{ n: number }>();
    if (result.status === "completed") expectTypeOf(result.output).toEqualTypeOf<string>();
  });

  it("tells everything that happens in a run, in order, with where", async () => {
    const { agent, gate } = worker(new World());
    gate.open();
    const events: RunEvent[] = [];
    const sp = await lab.open({ on: { run: (event) => void events.push(event) } });
    await sp.run(agent, GO);
    for (const event of events) expect(event).toMatchObject({ sessionId: "s", branch: "main" });
    const step = ["effect", "effect", "effect", "effect", "checkpoint", "step"];
    expect(events.map(({ type }) => type)).toEqual(["started", ...step, ...step, "status"]);
    expect(events[0]).toMatchObject({ resumed: false, turn: 1 });
  });
});
