import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { describe, expect, it } from "vitest";
import { defineAgent, type RunEvent, Savepoint, type Store } from "../../src/index.js";
import {
  ALL_KINDS,
  codeOf,
  createGate,
  interruptIn,
  once,
  orHung,
  until,
  untilStatus,
  useLab,
  watchEnd,
  World,
} from "./lab.js";

const HOUR = 3_600_000;

function sleeper(world: World) {
  return defineAgent({
    name: "sleeper",
    initial: (_input: string) => ({ woke: 0 }),
    async step(run) {
      await run.effect("before", () => world.do("before"));
      await run.sleep("1h");
      await run.effect("after", () => world.do("after"));
      return run.complete("rested");
    },
  });
}

function asker(world: World) {
  return defineAgent({
    name: "asker",
    initial: (_input: string) => ({ answer: undefined as unknown }),
    async step(run) {
      await run.effect("before", () => world.do("before"));
      run.state.answer = await run.ask({ text: "May I?", data: { amount: 7 } });
      await run.effect("after", () => world.do("after"));
      return run.complete(run.state.answer);
    },
  });
}

const GO = { session: "s", input: "go" };

describe.each(ALL_KINDS)("waiting on $name", (kind) => {
  const lab = useLab(kind);

  it("a run sleeps without a process, and resumes when its time has come", async () => {
    const world = new World();
    const begun = lab.now();
    const sp = await lab.open();
    const result = await sp.run(sleeper(world), GO);
    expect(result).toMatchObject({ status: "waiting", wakeAt: begun + HOUR, questions: [], question: undefined });
    const info = { status: "waiting", reason: "asleep", wakeAt: begun + HOUR, questions: [] };
    expect(await sp.sessions.load("s")).toMatchObject(info);
    expect(await sp.sessions.list({ status: "waiting" }).all()).toMatchObject([info]);
    await sp.close();
    const other = await lab.open();
    lab.advance(HOUR - 1);
    expect(await other.recover([sleeper(world)])).toEqual([]);
    expect(await other.run(sleeper(world), GO)).toMatchObject({ status: "waiting", wakeAt: begun + HOUR });
    lab.advance(1);
    const [handle] = await other.recover([sleeper(world)]);
    expect(await handle?.result()).toMatchObject({ status: "completed", output: "rested" });
    expect(world.log).toEqual(["before", "after"]);
    expect(await other.recover([sleeper(world)])).toEqual([]);
    expect(await other.sessions.load("s")).toMatchObject({ status: "completed", wakeAt: undefined });
  });

  it("a run can sleep until a date, even a past one, and longer than timers can", async () => {
    const agent = (when: Date | "100d") =>
      defineAgent({
        name: "a",
        initial: (_input: string) => ({}),
        async step(run) {
          await run.sleep(when);
          return run.complete("awake");
        },
      });
    const sp = await lab.open();
    expect(await sp.run(agent(new Date(lab.now() - 5)), { session: "past", input: "" })).toMatchObject({
      output: "awake",
    });
    const later = new Date(lab.now() + HOUR);
    expect(await sp.run(agent(later), { session: "later", input: "" })).toMatchObject({ wakeAt: later.getTime() });
    const far = await sp.run(agent("100d"), { session: "far", input: "" });
    expect(far).toMatchObject({ status: "waiting", wakeAt: lab.now() + 100 * 24 * HOUR });
    lab.advance(100 * 24 * HOUR);
    expect(await sp.recover([agent(later)])).toHaveLength(2);
  });

  it("an interruption does not prolong a sleep", async () => {
    const world = new World();
    const agent = defineAgent({
      name: "a",
      initial: (_input: string) => ({}),
      async step(run) {
        await run.sleep("1h");
        await run.effect("after", () => world.do("after"));
        await run.sleep("1h");
        return run.complete(run.now());
      },
    });
    const begun = lab.now();
    const sp = await lab.open();
    await sp.run(agent, GO);
    lab.advance(HOUR);
    const reached = world.hangIn("after");
    await sp.start(agent, GO);
    await reached;
    await lab.idle();
    lab.crash();
    const other = await lab.open();
    const asleep = await other.run(agent, GO);
    expect(asleep).toMatchObject({ status: "waiting", wakeAt: lab.now() + HOUR });
    lab.advance(HOUR);
    expect((await other.run(agent, GO)).output).toBe(lab.now());
    expect(lab.now() - begun).toBeLessThan(2 * HOUR + 60_000);
  });

  it("invalid times for a sleep are rejected", async () => {
    const agent = defineAgent({
      name: "a",
      initial: (_input: string) => ({}),
      async step(run) {
        const codes = [];
        for (const time of [new Date(NaN), "soon", -5, NaN]) codes.push(await codeOf(run.sleep(time as never)));
        return run.complete(codes);
      },
    });
    const { output } = await (await lab.open()).run(agent, GO);
    expect(new Set(output)).toEqual(new Set(["INVALID_ARGUMENT"]));
  });

  it("a run that asks resumes with the answer in another process, days later", async () => {
    const world = new World();
    const sp = await lab.open();
    const result = await sp.run(asker(world), GO);
    expect(result).toMatchObject({ status: "waiting", wakeAt: undefined });
    expect(result.question).toMatchObject({ kind: "ask", text: "May I?", data: { amount: 7 } });
    expect(result.questions).toEqual([result.question]);
    const info = { status: "waiting", reason: "May I?", questions: result.questions, wakeAt: undefined };
    expect(await sp.sessions.load("s")).toMatchObject(info);
    expect(await sp.sessions.list().all()).toMatchObject([info]);
    expect(await sp.session("s").head()).toMatchObject({ status: "waiting", reason: "May I?", trigger: "ask" });
    await sp.close();
    lab.advance(72 * HOUR);
    const teller = await lab.open();
    expect(await teller.recover([asker(world)])).toEqual([]);
    await teller.answer("s", { yes: [1, new Date(5)] });
    // The answer is only recorded: the next run resumes with it.
    expect(world.log).toEqual(["before"]);
    expect(await teller.sessions.load("s")).toMatchObject({ status: "queued", questions: [], reason: undefined });
    const [handle] = await (await lab.open()).recover([asker(world)]);
    expect(await handle?.result()).toMatchObject({ status: "completed", output: { yes: [1, new Date(5)] } });
    expect(world.log).toEqual(["before", "after"]);
  });

  it.each([undefined, null, false, "", { happened: false }, "x".repeat(100_000), new Uint8Array(5000)])(
    "%o is accepted as an answer",
    async (answer) => {
      const sp = await lab.open();
      await sp.run(asker(new World()), GO);
      await sp.answer("s", answer);
      const { output } = await sp.run(asker(new World()), GO);
      expect(output).toStrictEqual(answer);
      expect((await (await lab.open()).run(asker(new World()), GO)).output).toStrictEqual(answer);
    },
  );

  it("an answer with an unsupported value is rejected, and the run keeps waiting", async () => {
    const sp = await lab.open();
    await sp.run(asker(new World()), GO);
    expect(await codeOf(sp.answer("s", () => 1))).toBe("INVALID_STATE");
    expect(await sp.sessions.load("s")).toMatchObject({ status: "waiting" });
    await sp.answer("s", 1);
    expect((await sp.run(asker(new World()), GO)).output).toBe(1);
  });

  it("only one of several simultaneous answers is accepted", async () => {
    const sp = await lab.open();
    await sp.run(asker(new World()), GO);
    const tellers = [sp, await lab.open(), await lab.open()];
    const codes = await Promise.all(tellers.map((teller, index) => codeOf(teller.answer("s", index))));
    expect([...codes].sort()).toEqual(["NOT_WAITING", "NOT_WAITING", "none"]);
    expect((await sp.run(asker(new World()), GO)).output).toBe(codes.indexOf("none"));
  });

  it("an answer is replayed after an interruption", async () => {
    const world = new World();
    const sp = await lab.open();
    await sp.run(asker(world), GO);
    await sp.answer("s", "yes");
    await interruptIn(lab, sp, asker(world), "go", world, "after");
    expect((await (await lab.open()).run(asker(world), GO)).output).toBe("yes");
    expect(world.log).toEqual(["before", "after", "after"]);
  });

  it("a question keeps the data that was passed with it, of any supported type", async () => {
    const data = { big: 10n, when: new Date(5) };
    const agent = defineAgent({
      name: "a",
      initial: (_input: string) => ({}),
      async step(run) {
        return run.complete(await run.ask({ text: "?", data }));
      },
    });
    const sp = await lab.open();
    const result = await sp.run(agent, GO);
    expect(result.question?.data).toStrictEqual(data);
    expect((await (await lab.open()).sessions.load("s"))?.questions[0]?.data).toStrictEqual(data);
  });

  it("questions without a text are rejected", async () => {
    const agent = defineAgent({
      name: "a",
      initial: (_input: string) => ({}),
      async step(run) {
        return run.complete([await codeOf(run.ask("")), await codeOf(run.ask({ text: 5 } as never))]);
      },
    });
    expect((await (await lab.open()).run(agent, GO)).output).toEqual(["INVALID_ARGUMENT", "INVALID_ARGUMENT"]);
  });

  it("a fork of a waiting checkpoint asks again, and resumes with its own answer", async () => {
    const world = new World();
    const sp = await lab.open();
    await sp.run(asker(world), GO);
    const session = sp.session("s");
    await session.fork((await session.head())?.id as string, { branch: "fork" });
    const asked = await sp.run(asker(world), { ...GO, branch: "fork" });
    expect(asked).toMatchObject({ status: "waiting", question: { text: "May I?" } });
    await sp.answer("s", "in the fork", { branch: "fork" });
    expect((await sp.run(asker(world), { ...GO, branch: "fork" })).output).toBe("in the fork");
    await sp.answer("s", "in main");
    expect((await sp.run(asker(world), GO)).output).toBe("in main");
    // Effects that were recorded before the fork are not executed again in it.
    expect(world.count("before")).toBe(1);
  });

  it("a session that is rewound to a waiting checkpoint asks again", async () => {
    const world = new World();
    const sp = await lab.open();
    await sp.run(asker(world), GO);
    const session = sp.session("s");
    const waiting = await session.head();
    await sp.answer("s", "first");
    expect((await sp.run(asker(world), GO)).output).toBe("first");
    await session.head();
    await session.rewind(waiting?.id as string);
    expect(await sp.run(asker(world), GO)).toMatchObject({ status: "waiting", question: { text: "May I?" } });
    await sp.answer("s", "second");
    expect((await sp.run(asker(world), GO)).output).toBe("second");
    expect(world.count("before")).toBe(1);
  });

  it("a waiting run holds no lease: any process may save, rewind or resume it", async () => {
    const world = new World();
    const sp = await lab.open();
    await sp.run(asker(world), GO);
    const other = await lab.open();
    const session = other.session<{ answer: unknown }>("s");
    const before = await session.latest();
    expect(before?.state).toEqual({ answer: undefined });
    await session.save({ answer: "by hand" });
    expect(await codeOf(other.answer("s", 1))).toBe("NOT_WAITING");
    // The step is executed anew from the saved state.
    expect(await other.run(asker(world), GO)).toMatchObject({ status: "waiting", state: { answer: "by hand" } });
    expect(world.count("before")).toBe(2);
  });

  it("a run that asks while a tool runs waits for the answer once the tool has ended", async () => {
    const world = new World();
    const gate = createGate<string>();
    const agent = defineAgent({
      name: "a",
      initial: (_input: string) => ({}),
      async step(run) {
        const [tool, answer] = await Promise.all([
          run.tool({ id: "1", name: "t" }, () => (world.log.push("tool"), gate.promise)),
          run.ask<string>("beside it?"),
        ]);
        return run.complete([tool, answer]);
      },
    });
    const sp = await lab.open();
    const running = sp.run(agent, GO);
    const end = watchEnd(running);
    await world.reached("tool");
    await lab.idle();
    expect(end.isOver).toBe(false);
    expect(await sp.sessions.load("s")).toMatchObject({ status: "running" });
    gate.open("tooled");
    expect(await running).toMatchObject({ status: "waiting", question: { text: "beside it?" } });
    await sp.answer("s", "told");
    expect((await (await lab.open()).run(agent, GO)).output).toEqual(["tooled", "told"]);
    expect(world.log).toEqual(["tool"]);
  });

  it("a run can wait for an answer or a time, whichever comes first", async () => {
    const agent = defineAgent({
      name: "a",
      initial: (_input: string) => ({}),
      async step(run) {
        const first = await Promise.race([run.ask<string>("in time?"), run.sleep("1h").then(() => "too late")]);
        return run.complete(first);
      },
    });
    const sp = await lab.open();
    const asked = await sp.run(agent, { session: "answered", input: "" });
    expect(asked).toMatchObject({ status: "waiting", wakeAt: lab.now() + HOUR, question: { text: "in time?" } });
    await sp.run(agent, { session: "late", input: "" });
    await sp.answer("answered", "yes");
    const [answered] = await sp.recover([agent]);
    expect(await answered?.result()).toMatchObject({ status: "completed", output: "yes" });
    lab.advance(HOUR);
    const [late] = await sp.recover([agent]);
    expect(await late?.result()).toMatchObject({ status: "completed", output: "too late" });
  });

  it("a run with wait ends when its question is answered", async () => {
    const world = new World();
    const sp = await lab.open();
    const running = sp.run(asker(world), { ...GO, wait: true });
    await untilStatus(sp, "waiting");
    await (await lab.open()).answer("s", "at last");
    expect(await orHung(running)).toMatchObject({ status: "completed", output: "at last" });
  });

  it("a run with wait ends when its sleep is over", async () => {
    const agent = defineAgent({
      name: "a",
      initial: (_input: string) => ({}),
      async step(run) {
        await run.sleep(60);
        return run.complete("awake");
      },
    });
    const sp = await lab.open();
    const running = sp.run(agent, { ...GO, wait: true });
    await untilStatus(sp, "waiting");
    lab.advance(60);
    expect(await orHung(running)).toMatchObject({ status: "completed", output: "awake" });
  });

  it("a run with wait notices an answer that comes before it has begun to wait", async () => {
    const plain = await lab.open();
    const store = lab.store();
    let told = false;
    // The answer arrives between the last write of the run and the first check of the caller that waits.
    const slow = new Proxy(store, {
      get(target, name) {
        const value: unknown = Reflect.get(target, name, target);
        if (typeof value !== "function") return value;
        if (name !== "get") return value.bind(target) as unknown;
        return async (keys: readonly string[]) => {
          if (!told && keys.length === 1 && (await plain.sessions.load("s"))?.status === "waiting") {
            told = true;
            await plain.answer("s", "quick");
          }
          return target.get(keys);
        };
      },
    }) as Store;
    const sp = await Savepoint.open(slow, { now: lab.now });
    const result = await orHung(sp.run(asker(new World()), { ...GO, wait: true }));
    expect(told).toBe(true);
    expect(result).toMatchObject({ status: "completed", output: "quick" });
  });

  /** Counts how often the run has begun to wait. */
  function countWaits(): { count: number; onEvent: (event: RunEvent) => void } {
    const waits = {
      count: 0,
      onEvent: (event: RunEvent) => void (event.type === "status" && event.status === "waiting" && waits.count++),
    };
    return waits;
  }

  it("a run with wait and restartStep restarts its step once, and not again after the answer", async () => {
    const world = new World();
    const agent = (name: string) =>
      once(async (run) => {
        const tool = await run.tool({ id: "1", name: "tool" }, () => world.do("tool", "answer"));
        await run.effect(name, () => world.do(name));
        return [tool, await run.ask<string>("which colour?")];
      });
    await interruptIn(lab, await lab.open(), agent("old"), "go", world, "old");
    const waits = countWaits();
    const sp = await lab.open();
    const running = sp.run(agent("new"), { ...GO, restartStep: true, wait: true, onEvent: waits.onEvent });
    running.catch(() => {});
    await until(() => waits.count === 1, "the run to wait");
    await (await lab.open()).answer("s", "blue");
    expect(await orHung(running)).toMatchObject({ status: "completed", output: ["answer", "blue"] });
    expect(waits.count).toBe(1);
    expect(world.log).toEqual(["tool", "old", "new"]);
  });

  it("a run with wait and resume is resumed once, and not again after it was cancelled", async () => {
    const agent = once(async (run) => run.ask<string>("which colour?"));
    const sp = await lab.open();
    await sp.run(agent, GO);
    await sp.cancel("s", "first");
    const waits = countWaits();
    const running = sp.run(agent, { ...GO, resume: true, wait: true, onEvent: waits.onEvent });
    running.catch(() => {});
    await until(() => waits.count === 1, "the run to wait");
    expect(await (await lab.open()).cancel("s", "second")).toBe(true);
    const result = await orHung(running);
    expect(result).toMatchObject({ status: "halted" });
    expect(result).toHaveProperty("reason", expect.stringContaining("second"));
    expect(waits.count).toBe(1);
  });

  it("running a waiting session returns the same result in every process", async () => {
    const sp = await lab.open();
    const result = await sp.run(asker(new World()), GO);
    expect(await (await lab.open()).run(asker(new World()), GO)).toEqual(result);
  });

  it("a run with wait ends when its session is deleted, and does not start it again", async () => {
    const world = new World();
    const agent = defineAgent({
      name: "a",
      initial: (_input: string) => {
        world.log.push("initial");
        return {};
      },
      async step(run) {
        return run.complete(await run.ask("?"));
      },
    });
    const sp = await lab.open();
    const running = sp.run(agent, { ...GO, wait: true });
    running.catch(() => {});
    await untilStatus(sp, "waiting");
    await (await lab.open()).sessions.delete("s");
    const result = await orHung(codeOf(running));
    expect([world.log, result, await sp.sessions.load("s")]).toEqual([["initial"], "SESSION_DELETED", undefined]);
  });
});

describe.each(ALL_KINDS.slice(0, 1))("steps that wait for an answer, on $name", (kind) => {
  const lab = useLab(kind);

  it("are not kept in memory", async () => {
    setFlagsFromString("--expose-gc");
    const collect = runInNewContext("gc") as () => void;
    const kept: WeakRef<object>[] = [];
    const agent = once(async (run) => {
      const local = { notes: "of the step" };
      kept.push(new WeakRef(local));
      await run.ask("May I?");
      return local.notes;
    });
    const sp = await lab.open();
    for (const session of ["a", "b", "c"]) await sp.run(agent, { session, input: "go" });
    await until(
      () => {
        collect();
        return kept.every((ref) => ref.deref() === undefined);
      },
      () => `3 steps to be collected: ${kept.filter((ref) => ref.deref()).length} are kept`,
    );
  });
});
