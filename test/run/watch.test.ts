import { describe, expect, expectTypeOf, it } from "vitest";
import { defineAgent, type RunEvent, type Savepoint, type WatchEvent } from "../../src/index.js";
import { createGate, KINDS, orHung, until, useLab, World } from "./lab.js";

const GO = { session: "s", input: "go" };

/**
 * Two steps with a tool each, which wait at a gate.
 *
 * @param seen awaited at the end of each step: what a watch has not seen of a step before it ends is not reported
 */
function worker(world: World, seen: (step: number) => Promise<unknown> = async () => {}) {
  const gate = createGate();
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
        await run.effect("pause", () => seen(run.step));
        if (run.step === 2) return run.complete("done");
        return undefined;
      },
    }),
  };
}

/** Watches a session. `ended` resolves with all that was reported. */
function watch(sp: Savepoint, options: Parameters<Savepoint["watch"]>[1] = {}) {
  const events: WatchEvent[] = [];
  const ended = (async () => {
    for await (const event of sp.watch("s", options)) events.push(event);
    return events;
  })();
  ended.catch(() => {});
  const statuses = (): string[] => events.flatMap((event) => (event.type === "status" ? [event.status] : []));
  const tools = (): string[] =>
    events.flatMap((event) =>
      event.type === "effect" && event.kind === "tool" ? [`${event.callId} ${event.phase}`] : [],
    );
  return {
    events,
    ended,
    statuses,
    tools,
    untilStatus: (status: string, times = 1) =>
      until(() => statuses().filter((each) => each === status).length >= times, `the watch to report ${status}`),
    untilTool: (tool: string) => until(() => tools().includes(tool), `the watch to report ${tool}`),
  };
}

describe.each(KINDS)("watching on $name", (kind) => {
  const lab = useLab(kind);

  it.each(["the same", "another"])("a watch follows a run of %s process to its end", async (which) => {
    const sp = await lab.open();
    const { agent, gate } = worker(new World(), (step) => watching.untilTool(`c${step} end`));
    const handle = await sp.start(agent, GO);
    const watching = watch(which === "another" ? await lab.open() : sp);
    await watching.untilTool("c1 start");
    gate.open();
    await handle.result();
    const events = await orHung(watching.ended);
    if (events === "hung") throw new Error("The watch did not end.");
    expect(watching.statuses()).toEqual(["running", "completed"]);
    const checkpoints = events.flatMap((event) => (event.type === "checkpoint" ? [event.checkpoint.trigger] : []));
    expect(checkpoints).toEqual(["start", "step", "end"]);
    const [first] = events.filter((event) => event.type === "effect" && event.kind === "tool");
    expect(first).toMatchObject({ name: "t", callId: "c1", phase: "start" });
    expect(watching.tools()).toEqual(["c1 start", "c1 end", "c2 start", "c2 end"]);
  });

  it("a watch reports the effects of steps that ended since it last looked, also of the last one", async () => {
    const sp = await lab.open();
    const { agent, gate } = worker(new World());
    const handle = await sp.start(agent, GO);
    const watching = watch(await lab.open());
    await watching.untilTool("c1 start");
    gate.open();
    await handle.result();
    expect(await orHung(watching.ended)).not.toBe("hung");
    expect(watching.tools()).toEqual(["c1 start", "c1 end", "c2 start", "c2 end"]);
  });

  it("a watch of a completed session reports its status and ends", async () => {
    const { agent, gate } = worker(new World());
    gate.open();
    const sp = await lab.open();
    await sp.run(agent, GO);
    const events = await watch(await lab.open()).ended;
    expect(events.at(-1)).toMatchObject({ type: "status", status: "completed", question: undefined });
  });

  it("a watch waits for a session that does not exist yet", async () => {
    const { agent, gate } = worker(new World());
    gate.open();
    const watching = watch(await lab.open());
    await (await lab.open()).run(agent, GO);
    const events = await orHung(watching.ended);
    expect(events.at(-1)).toMatchObject({ type: "status", status: "completed" });
  });

  it("a watch that is kept open reports questions, answers and further turns until its signal is aborted", async () => {
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
    const watching = watch(sp, { keepOpen: true, signal: stop.signal });
    await sp.run(agent, GO);
    await watching.untilStatus("waiting");
    expect(watching.events.find((event) => event.type === "status" && event.status === "waiting")).toMatchObject({
      question: { text: "Shall I?" },
      reason: "Shall I?",
    });
    await sp.answer("s", "yes");
    await watching.untilStatus("queued");
    await sp.run(agent, GO);
    await watching.untilStatus("completed");
    // It has not ended with that: it reports the next turn.
    await sp.run(agent, { session: "s", input: "again" });
    await watching.untilStatus("waiting", 2);
    stop.abort();
    expect(await orHung(watching.ended)).not.toBe("hung");
  });

  it("a watch ends when its session is deleted", async () => {
    const { agent } = worker(new World());
    const sp = await lab.open();
    await sp.start(agent, GO);
    const other = await lab.open();
    const watching = watch(other);
    await watching.untilStatus("running");
    await other.sessions.delete("s");
    expect(await orHung(watching.ended)).not.toBe("hung");
  });

  it("a watch reports the interruption of a run and its later status", async () => {
    const { agent } = worker(new World());
    await (await lab.open()).start(agent, GO);
    const other = await lab.open();
    const watching = watch(other);
    // A step that has not begun its tool would renew the expired lease before it does.
    await watching.untilTool("c1 start");
    await lab.idle();
    lab.crash();
    await watching.untilStatus("interrupted");
    await other.cancel("s", "given up");
    await orHung(watching.ended);
    expect(watching.statuses()).toEqual(["running", "interrupted", "halted"]);
  });

  it("a watch reports nothing of other branches", async () => {
    const { agent, gate } = worker(new World());
    const sp = await lab.open();
    const handle = await sp.start(agent, GO);
    const watching = watch(sp);
    await watching.untilTool("c1 start");
    const session = sp.session<{ n: number }>("s");
    const fork = await session.fork((await session.head())?.id as string, { branch: "other" });
    await fork.save({ n: 77 });
    gate.open();
    await handle.result();
    const events = await watching.ended;
    const branches = events.flatMap((event) => (event.type === "checkpoint" ? [event.checkpoint.branch] : []));
    expect(new Set(branches)).toEqual(new Set(["main"]));
  });

  it("a handle emits the events of its own run, with types, until the listener is removed", async () => {
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

  it("a Savepoint emits all events of a run in order, with session and branch", async () => {
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
