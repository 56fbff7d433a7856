import { setImmediate as nextTurn } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import { defineAgent, type Run, type RunEvent } from "../../src/index.js";
import { codeOf, createGate, interruptIn, KINDS, type Notes, once, orHung, useLab, watchEnd, World } from "./lab.js";

/** Where in a state a value is. */
type Place = "a list that is stored as items" | "an empty list" | "a property";

const GO = { session: "s", input: "go" };

describe.each(KINDS)("effects on $name", (kind) => {
  const lab = useLab(kind);

  it("recorded effects are replayed after an interruption, and none of them is executed again", async () => {
    const world = new World();
    const agent = once(async (run) => {
      const reply = await run.llm(() => world.do("model", { content: "call it", toolCalls: [{ id: "1", name: "t" }] }));
      const tool = await run.tool({ id: "1", name: "t", arguments: { a: 1 } }, () => world.do("tool", 42));
      const effect = await run.effect("e", () => world.do("effect", [new Date(5), 7n, undefined]));
      await run.effect("last", () => world.do("last"));
      return { reply, tool, effect };
    });
    await interruptIn(lab, await lab.open(), agent, "go", world, "last");
    await interruptIn(lab, await lab.open(), agent, "go", world, "last");
    const result = await (await lab.open()).run(agent, GO);
    expect(result.output).toStrictEqual({
      reply: { content: "call it", toolCalls: [{ id: "1", name: "t" }] },
      tool: 42,
      effect: [new Date(5), 7n, undefined],
    });
    expect(world.log).toEqual(["model", "tool", "effect", "last", "last", "last"]);
  });

  it("events are emitted only for effects that are executed, not for replayed ones", async () => {
    const world = new World();
    const agent = once(async (run) => {
      await run.effect("a", () => world.do("a"));
      await run.tool({ id: "1", name: "b" }, () => world.do("b"), { onUnknown: "retry" });
    });
    await interruptIn(lab, await lab.open(), agent, "go", world, "b");
    const events: RunEvent[] = [];
    const sp = await lab.open();
    sp.on("run", (event) => void events.push(event));
    await sp.run(agent, GO);
    const told = events.flatMap((event) => (event.type === "effect" ? [[event.name, event.callId, event.phase]] : []));
    expect(told).toEqual([
      ["b", "1", "start"],
      ["b", "1", "end"],
    ]);
    expect(events[0]).toMatchObject({ type: "started", resumed: true });
  });

  it("a recorded result is not affected by later changes of the object", async () => {
    const world = new World();
    const agent = once(async (run) => {
      const list = await run.effect("list", () => world.do("list", [1, { deep: [2] }] as unknown[]));
      const before = structuredClone(list);
      list.push("changed");
      (list[1] as { deep: unknown[] }).deep.push("changed");
      await run.effect("last", () => world.do("last"));
      return before;
    });
    await interruptIn(lab, await lab.open(), agent, "go", world, "last");
    expect((await (await lab.open()).run(agent, GO)).output).toEqual([1, { deep: [2] }]);
  });

  it("the time, random numbers and uuids are replayed", async () => {
    const world = new World();
    const seen: unknown[][] = [];
    const agent = once(async (run) => {
      const values = [run.now(), run.random(), run.uuid(), run.uuid(), run.now()];
      await run.effect("middle", () => world.do("middle"));
      values.push(run.random());
      seen.push(values);
      await run.effect("last", () => world.do("last"));
      return values;
    });
    const at = lab.now();
    await interruptIn(lab, await lab.open(), agent, "go", world, "last");
    const result = await (await lab.open()).run(agent, GO);
    expect(seen[1]).toEqual(seen[0]);
    expect(result.output).toEqual(seen[0]);
    const [time, chance, uuid, other] = seen[0] as [number, number, string, string];
    expect(time).toBe(at);
    expect(chance).toBeGreaterThanOrEqual(0);
    expect(chance).toBeLessThan(1);
    expect(uuid).toMatch(/^[0-9a-f-]{36}$/);
    expect(other).not.toBe(uuid);
  });

  it("the parts of a streamed reply are emitted as they arrive, and the complete reply is recorded", async () => {
    const world = new World();
    const agent = once(async (run) => {
      const text = await run.llm(async function* () {
        world.log.push("texts");
        yield "Hel";
        yield "lo";
      });
      const returned = await run.llm(async function* () {
        world.log.push("returns");
        yield { part: 1 };
        return { content: "whole", usage: { totalTokens: 5 } };
      });
      const parts = await run.llm(async function* () {
        yield { part: 1 };
        yield { part: 2 };
      });
      const emitted = await run.llm(
        (context) => {
          context.emit("by hand");
          return "plain";
        },
        { name: "plain" },
      );
      const empty = await run.llm(async function* (): AsyncGenerator<string> {});
      await run.effect("last", () => world.do("last"));
      return [text, returned, parts, emitted, empty];
    });
    const deltas: unknown[] = [];
    const first = await lab.open();
    first.on("run", (event) => event.type === "delta" && deltas.push([event.name, event.delta]));
    await interruptIn(lab, first, agent, "go", world, "last");
    expect(deltas).toEqual([
      ["llm", "Hel"],
      ["llm", "lo"],
      ["llm", { part: 1 }],
      ["llm", { part: 1 }],
      ["llm", { part: 2 }],
      ["plain", "by hand"],
    ]);
    const sp = await lab.open();
    sp.on("run", (event) => event.type === "delta" && deltas.push("again"));
    const result = await sp.run(agent, GO);
    expect(result.output).toEqual([
      "Hello",
      { content: "whole", usage: { totalTokens: 5 } },
      [{ part: 1 }, { part: 2 }],
      "plain",
      [],
    ]);
    expect(deltas).toHaveLength(6);
    expect(world.log).toEqual(["texts", "returns", "last", "last"]);
  });

  it("an interrupted stream is requested again once, and the error of a broken stream is recorded", async () => {
    const world = new World();
    const agent = once((run) =>
      run.llm(async function* () {
        yield "a";
        await world.do("middle");
        yield "b";
      }),
    );
    await interruptIn(lab, await lab.open(), agent, "go", world, "middle");
    expect((await (await lab.open()).run(agent, GO)).output).toBe("ab");
    expect(world.count("middle")).toBe(2);
    const breaks = once(async (run) => {
      try {
        return await run.llm(async function* (): AsyncGenerator<string> {
          yield "a";
          throw new RangeError("cut off");
        });
      } catch (error) {
        return (error as Error).message;
      }
    });
    expect((await (await lab.open()).run(breaks, { session: "breaks", input: "go" })).output).toBe("cut off");
  });

  it("an effect that takes too long ends with TIMEOUT, which aborts its signal and is recorded", async () => {
    const world = new World();
    let signal: AbortSignal | undefined;
    const agent = once(async (run) => {
      let code: unknown;
      try {
        await run.tool(
          { id: "1", name: "slow" },
          (context) => {
            world.log.push("slow");
            ({ signal } = context);
            return new Promise(() => {});
          },
          { timeout: 20 },
        );
      } catch (error) {
        ({ code } = error as { code: unknown });
      }
      const quick = await run.effect("quick", () => "in time", { timeout: "10s" });
      await run.effect("last", () => world.do("last"));
      return [code, quick, run.signal.aborted];
    });
    await interruptIn(lab, await lab.open(), agent, "go", world, "last");
    expect(signal?.aborted).toBe(true);
    expect((await (await lab.open()).run(agent, GO)).output).toEqual(["TIMEOUT", "in time", false]);
    expect(world.count("slow")).toBe(1);
  });

  it("effects with a retry option are retried after transient errors, and after no others", async () => {
    const attempts: Record<string, number[]> = {};
    const keys = new Set<string>();
    const failing =
      (name: string, error: Error, times: number) => (context: { attempt: number; idempotencyKey: string }) => {
        (attempts[name] ??= []).push(context.attempt);
        keys.add(`${name} ${context.idempotencyKey}`);
        if (context.attempt <= times) throw error;
        return `${name} done`;
      };
    const transient = Object.assign(new Error("busy"), { status: 429 });
    const retry = { attempts: 3, delay: 0 };
    const agent = once(async (run) => [
      await run.llm(failing("llm", Object.assign(new Error("reset"), { code: "ECONNRESET" }), 2), { retry }),
      await run.effect("wrapped", failing("wrapped", new Error("outer", { cause: transient }), 1), { retry }),
      await codeOfMessage(run.tool({ id: "1", name: "t" }, failing("no retry", transient, 9))),
      await codeOfMessage(run.effect("wrong", failing("wrong", new Error("wrong"), 9), { retry })),
      await codeOfMessage(
        run.effect("said", failing("said", Object.assign(new Error("no"), { status: 503, retryable: false }), 9), {
          retry,
        }),
      ),
      await codeOfMessage(run.effect("always", failing("always", transient, 9), { retry })),
    ]);
    const events: RunEvent[] = [];
    const sp = await lab.open();
    sp.on("run", (event) => void events.push(event));
    expect((await sp.run(agent, GO)).output).toEqual(["llm done", "wrapped done", "busy", "wrong", "no", "busy"]);
    expect(attempts).toEqual({
      llm: [1, 2, 3],
      wrapped: [1, 2],
      "no retry": [1],
      wrong: [1],
      said: [1],
      always: [1, 2, 3],
    });
    expect(keys.size).toBe(6);
    expect(events.filter(({ type }) => type === "retry")).toHaveLength(5);
  });

  it("a step does not end before an effect that it does not await has ended", async () => {
    const world = new World();
    const gate = createGate<string>();
    const agent = defineAgent({
      name: "a",
      initial: (_input: string) => ({ n: 0 }),
      async step(run) {
        if (run.state.n++ === 1) return run.complete("done");
        void run.effect("unawaited", () => (world.log.push("unawaited"), gate.promise));
        return undefined;
      },
    });
    const sp = await lab.open();
    const running = sp.run(agent, GO);
    const end = watchEnd(running);
    await world.reached("unawaited");
    await lab.idle();
    expect(end.isOver).toBe(false);
    gate.open("late");
    expect(await running).toMatchObject({ status: "completed", output: "done", steps: 2 });
  });

  it("bytes and large results are replayed unchanged", async () => {
    const world = new World();
    const bytes = Uint8Array.from({ length: 200_000 }, (_, index) => index % 251);
    const text = Array.from({ length: 20_000 }, (_, index) => `line ${index} of something long\n`).join("");
    const agent = once(async (run) => {
      const got = await run.tool({ id: "1", name: "t" }, () =>
        world.do("tool", { bytes, text, list: [text, { text }] }),
      );
      const tiny = await run.effect("tiny", () => world.do("tiny", new Uint8Array(3)));
      run.state.notes.push(got);
      await run.effect("last", () => world.do("last"));
      return [got.bytes.length, got.text === text, tiny];
    });
    await interruptIn(lab, await lab.open(), agent, "go", world, "last");
    const result = await (await lab.open()).run(agent, GO);
    expect(result.output).toEqual([200_000, true, new Uint8Array(3)]);
    expect(result.state.notes).toStrictEqual([{ bytes, text, list: [text, { text }] }]);
    expect((await (await lab.open()).session("s").latest())?.state).toStrictEqual(result.state);
    expect(world.count("tool")).toBe(1);
  });

  it("a large result is written once, and the state's list refers to what was recorded", async () => {
    expect(await measure("a list that is stored as items", false, true)).toBeLessThan(20_000);
    expect(await measure("a list that is stored as items", true, true)).toBeLessThan(20_000);
  });

  it("a large result is written once where the checkpoint is written with it", async () => {
    expect(await measure("a list that is stored as items", false, false)).toBeLessThan(20_000);
  });

  it("a large result is written once as the first element of a list", async () => {
    expect(await measure("an empty list", false, true)).toBeLessThan(20_000);
  });

  it("a large result is written once as a property", async () => {
    expect(await measure("a property", false, true)).toBeLessThan(20_000);
  });

  /** Runs a step with a result of 1 MB in the state, and measures what was written. */
  async function measure(place: Place, interrupted: boolean, pause: boolean): Promise<number> {
    const size = 1_000_000;
    const world = new World();
    const session = `big-${interrupted}-${pause}`;
    const before =
      place === "a list that is stored as items" ? Array.from({ length: 50 }, (_, n) => `note ${n} `.repeat(9)) : [];
    const agent = defineAgent({
      name: "big",
      initial: (_input: string) => ({ notes: before as unknown[], one: undefined as unknown }),
      async step(run) {
        const result = await run.tool({ id: "1", name: "t" }, () => world.do("tool", { content: noise(size) }));
        // Until it is recorded.
        if (pause) await lab.idle();
        if (place === "a property") run.state.one = result;
        else run.state.notes.push(result);
        await run.effect("last", () => world.do("last"));
        return run.complete();
      },
    });
    const first = await lab.open();
    if (interrupted) await interruptIn(lab, first, agent, "go", world, "last", session);
    const sp = await lab.open();
    await sp.run(agent, { session, input: "go" });
    const result = { content: noise(size) };
    const expected =
      place === "a property" ? { notes: [], one: result } : { notes: [...before, result], one: undefined };
    expect((await sp.session(session).latest())?.state).toEqual(expected);
    const history = await sp.session(session).history().all();
    await sp.compact();
    expect((await (await lab.open()).session(session).latest())?.state).toEqual(expected);
    return history.map(({ storedBytes }) => storedBytes).reduce((sum, bytes) => sum + bytes, 0);
  }

  const wrong: { what: string; options: object }[] = [
    { what: "a timeout without a unit", options: { timeout: "5x" } },
    { what: "no attempts", options: { retry: { attempts: 0 } } },
    { what: "verify without a function", options: { onUnknown: "verify" } },
    { what: "an unknown policy", options: { onUnknown: "asks" } },
  ];

  it.each(wrong)("a tool with invalid options is rejected before anything is written: $what", async ({ options }) => {
    const world = new World();
    const codes: string[] = [];
    const agent = (given: object) =>
      once(async (run) => {
        const tool = run.tool({ id: "1", name: "tool" }, () => world.do("tool", "answer"), given);
        codes.push(await codeOf(tool));
        return tool;
      });
    expect((await (await lab.open()).run(agent(options), GO)).status).toBe("failed");
    expect(codes).toEqual(["INVALID_ARGUMENT"]);
    expect(world.count("tool")).toBe(0);
    const result = await (await lab.open()).run(agent({}), GO);
    expect(result).toMatchObject({ status: "completed", output: "answer" });
    expect(world.count("tool")).toBe(1);
  });

  it.each(["returns nothing", "completes"])(
    "the result of a tool stays recorded when its step puts a function into the state and %s",
    async (how) => {
      const world = new World();
      const agent = (broken: boolean) =>
        defineAgent({
          name: "a",
          initial: (_input: string): Notes => ({ notes: [] }),
          async step(run) {
            if (run.step > 1) return run.complete(run.state.notes);
            run.state.notes.push(await run.tool({ id: "1", name: "tool" }, () => world.do("tool", "answer")));
            if (broken) run.state.notes.push(() => {});
            return how === "completes" ? run.complete(run.state.notes.slice(0, 1)) : undefined;
          },
        });
      expect(await (await lab.open()).run(agent(true), GO)).toMatchObject({ status: "failed" });
      const result = await (await lab.open()).run(agent(false), GO);
      expect(result).toMatchObject({ status: "completed", output: ["answer"] });
      expect(world.count("tool")).toBe(1);
    },
  );

  it.each(["effect", "tool", "llm"] as const)(
    "other effects are rejected inside the function of run.%s()",
    async (outer) => {
      const sp = await lab.open();
      const world = new World();
      const codes: string[] = [];
      const agent = once(async (run) => {
        const tryAll = async (): Promise<void> => {
          const inner = () => world.do("inner");
          codes.push(await codeOf((async () => run.now())()));
          codes.push(await codeOf(run.effect("inner", inner)));
          codes.push(await codeOf(run.tool({ id: "2", name: "inner" }, inner)));
          codes.push(await codeOf(run.llm(inner)));
        };
        const body = async (): Promise<string> => {
          await tryAll();
          await nextTurn();
          await tryAll();
          return "done";
        };
        const done =
          outer === "effect"
            ? await run.effect("outer", body)
            : outer === "tool"
              ? await run.tool({ id: "1", name: "outer" }, body)
              : await run.llm(body);
        // After the effect all these calls are allowed.
        return [done, typeof run.now(), await run.effect("after", () => "after")];
      });
      const result = await orHung(sp.run(agent, GO));
      expect(result).toMatchObject({ status: "completed", output: ["done", "number", "after"] });
      expect(codes).toEqual(Array.from({ length: 8 }, () => "INVALID_ARGUMENT"));
      expect(world.log).toEqual([]);
    },
  );

  it("another session can be run inside the function of an effect", async () => {
    const sp = await lab.open();
    const inner = once(async (run) => {
      const now = run.now();
      const tool = await run.tool({ id: "1", name: "inner" }, () => "inner");
      return [typeof now, tool, await run.effect("e", async () => nextTurn("effect"))];
    });
    const agent = once((run) =>
      run.tool({ id: "1", name: "outer" }, async () => {
        await nextTurn();
        return (await sp.run(inner, { session: "other", input: "go" })).output;
      }),
    );
    const result = await orHung(sp.run(agent, GO));
    expect(result).toMatchObject({ status: "completed", output: ["number", "inner", "effect"] });
  });

  it("calls without an id or a name are rejected", async () => {
    for (const call of [undefined, {}, { id: "", name: "t" }, { id: "1", name: "" }, { id: 1, name: "t" }]) {
      const agent = once((run) => codeOf(run.tool(call as never, () => 1)));
      const session = JSON.stringify(call) ?? "none";
      expect((await (await lab.open()).run(agent, { session, input: "go" })).output).toBe("INVALID_ARGUMENT");
    }
  });

  it("an effect that is started after the end of its step is not executed, and never settles", async () => {
    let late: Run<{ notes: unknown[] }> | undefined;
    const agent = once((run) => Promise.resolve((late = run)).then(() => 1));
    const sp = await lab.open();
    const result = await sp.run(agent, GO);
    expect(() => late?.now()).toThrow(expect.objectContaining({ code: "CLOSED" }));
    const world = new World();
    const end = watchEnd(late?.effect("late", () => world.do("late")) as Promise<unknown>);
    // Any consequence would have shown by the time another run has ended and the store is idle.
    await sp.run(agent, { session: "other", input: "go" });
    await lab.idle();
    expect([end.isOver, world.log]).toEqual([false, []]);
    expect((await sp.session("s").latest())?.state).toEqual(result.state);
  });
});

/** A string that does not compress well. */
function noise(size: number): string {
  let [text, seed] = ["", 12_345];
  while (text.length < size) text += (seed = (seed * 48_271) % 2_147_483_647).toString(36);
  return text;
}

async function codeOfMessage(work: Promise<unknown>): Promise<string> {
  try {
    await work;
    return "none";
  } catch (error) {
    return (error as Error).message;
  }
}
