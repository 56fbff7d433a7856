import { describe, expect, it } from "vitest";
import { defineAgent, type Run, type RunEvent, SavepointError } from "../../src/index.js";
import { codeOf, createGate, interruptIn, KINDS, orHung, settle, until, useLab, World } from "./lab.js";

/** An agent of one step that completes with what it returns. */
function once<Output>(step: (run: Run<{ notes: unknown[] }>) => Promise<Output>) {
  return defineAgent({
    name: "once",
    initial: (_input: string) => ({ notes: [] as unknown[] }),
    retry: { attempts: 1 },
    step: async (run) => run.complete(await step(run)),
  });
}

/** Where a state has something. */
type Place = "a list that is stored as items" | "an empty list" | "a property";

const GO = { session: "s", input: "go" };

describe.each(KINDS)("effects on $name", (kind) => {
  const lab = useLab(kind);

  it("gives recorded effects back after an interruption, and does none of them again", async () => {
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

  it("tells only what is really done", async () => {
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

  it("replays parallel effects in the order in which they ended, whatever that was", async () => {
    for (const order of [
      [0, 1, 2],
      [2, 1, 0],
      [1, 2, 0],
    ]) {
      const world = new World();
      const gates = [createGate<string>(), createGate<string>(), createGate<string>()];
      const session = order.join("");
      const agent = once(async (run) => {
        const ended: string[] = [];
        await Promise.all(
          gates.map(async (gate, index) => {
            const tool = { id: `${index}`, name: "t" };
            const result = await run.tool(tool, () => (world.log.push(`t${index}`), gate.promise));
            ended.push(result);
            // What follows depends on the order in which they ended.
            ended.push(await run.effect(`after ${index}`, () => world.do(`after ${index}`, `after ${index}`)));
          }),
        );
        await run.effect("last", () => world.do("last"));
        return ended;
      });
      const reached = world.hangIn("last");
      await (await lab.open()).start(agent, { session, input: "go" });
      await until(() => world.log.length === 3);
      for (const index of order) {
        gates[index]?.open(`r${index}`);
        await until(() => world.log.includes(`after ${index}`));
      }
      await reached;
      await settle();
      lab.crash();
      const result = await (await lab.open()).run(agent, { session, input: "go" });
      expect(result.output).toEqual(order.flatMap((index) => [`r${index}`, `after ${index}`]));
      expect(world.log).toHaveLength(8);
    }
  });

  it("lets the same one win a race when it is replayed", async () => {
    const world = new World();
    const [slow, fast] = [createGate<string>(), createGate<string>()];
    const agent = once(async (run) => {
      const winner = await Promise.race([
        run.effect("slow", () => (world.log.push("slow"), slow.promise)),
        run.effect("fast", () => (world.log.push("fast"), fast.promise)),
      ]);
      const after = await run.effect("after", () => world.do("after", `after ${winner}`));
      await run.effect("last", () => world.do("last"));
      return after;
    });
    const reached = world.hangIn("last");
    await (await lab.open()).start(agent, GO);
    await until(() => world.log.length === 2);
    fast.open("fast");
    await until(() => world.log.includes("after"));
    slow.open("slow");
    await reached;
    await settle();
    lab.crash();
    expect((await (await lab.open()).run(agent, GO)).output).toBe("after fast");
    expect(world.log).toEqual(["slow", "fast", "after", "last", "last"]);
  });

  it("goes on with the rest of a parallel batch that was interrupted half way", async () => {
    const world = new World();
    const agent = once((run) =>
      Promise.all(
        ["a", "b", "c"].map((id) =>
          run.tool({ id, name: id }, () => world.do(id, `did ${id}`), { onUnknown: "retry" }),
        ),
      ),
    );
    await interruptIn(lab, await lab.open(), agent, "go", world, "b");
    expect((await (await lab.open()).run(agent, GO)).output).toEqual(["did a", "did b", "did c"]);
    expect(world.log).toEqual(["a", "b", "c", "b"]);
  });

  it("records what is thrown, and throws it again with name, message, code and cause", async () => {
    const world = new World();
    class OddError extends Error {
      override readonly name = "OddError";
      readonly code = "E_ODD";
    }
    const cause = Object.assign(new TypeError("deep"), { code: 7 });
    const thrown: unknown[] = [
      new OddError("odd", { cause }),
      new RangeError("range"),
      "a text",
      { plain: 1 },
      undefined,
      new SavepointError("BUSY", "later"),
    ];
    const agent = once(async (run) => {
      const seen: unknown[] = [];
      for (const [index, error] of thrown.entries()) {
        try {
          await run.effect(`e${index}`, () => {
            world.log.push(`e${index}`);
            throw error;
          });
        } catch (caught) {
          const { name, message, code, cause: why } = caught as Error & { code?: unknown };
          const { name: whyName, message: whyMessage, code: whyCode } = (why ?? {}) as Error & { code?: unknown };
          seen.push([
            caught instanceof Error,
            caught instanceof RangeError,
            name,
            message,
            code,
            whyName,
            whyMessage,
            whyCode,
          ]);
        }
      }
      run.state.notes.push(seen);
      await run.effect("last", () => world.do("last"));
      return seen;
    });
    const [live, replayed]: unknown[][] = [[], []];
    const sp = await lab.open();
    live?.push((await sp.run(agent, { session: "live", input: "go" })).output);
    await interruptIn(lab, sp, agent, "go", world, "last");
    replayed?.push((await (await lab.open()).run(agent, GO)).output);
    expect(replayed).toEqual(live);
    const none = undefined;
    expect(live?.[0]).toEqual([
      [true, false, "OddError", "odd", "E_ODD", "TypeError", "deep", 7],
      [true, true, "RangeError", "range", none, none, none, none],
      [true, false, "Error", "a text", none, none, none, none],
      [true, false, "Error", '{"plain":1}', none, none, none, none],
      [true, false, "Error", "undefined", none, none, none, none],
      [true, false, "SavepointError", "later", "BUSY", none, none, none],
    ]);
    expect(world.count("e0")).toBe(2);
  });

  it("records a result that cannot be stored as an error, and never does it again", async () => {
    const world = new World();
    const agent = once(async (run) => {
      let code: unknown;
      try {
        await run.tool({ id: "1", name: "t" }, () => world.do("tool", { f: () => 1 }) as never);
      } catch (error) {
        ({ code } = error as { code: unknown });
      }
      await run.effect("last", () => world.do("last"));
      return code;
    });
    await interruptIn(lab, await lab.open(), agent, "go", world, "last");
    const result = await (await lab.open()).run(agent, GO);
    expect(result.output).toBe("INVALID_STATE");
    expect(world.count("tool")).toBe(1);
  });

  it("throws errors of Savepoint's own as such: isSavepointError tells them", async () => {
    const agent = once((run) => codeOf(run.effect("slow", () => new Promise(() => {}), { timeout: 5 })));
    expect((await (await lab.open()).run(agent, GO)).output).toBe("TIMEOUT");
  });

  it("records a result as it was, whatever is done to it afterwards", async () => {
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

  it("gives the same time, chance and uuid again", async () => {
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

  it("tells the parts of a streamed reply as they come, and records it whole", async () => {
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

  it("asks again once if a stream was interrupted, and records the error of one that breaks", async () => {
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

  it("ends an effect that takes too long with TIMEOUT, aborts its signal, and records that", async () => {
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

  it("tries errors again that say they will pass, and no others", async () => {
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

  it("accumulates usage over steps, and has it again after an interruption, counted once", async () => {
    const world = new World();
    const usages = [
      { inputTokens: 3, outputTokens: 4 },
      { total_tokens: 10, cost: 0.5 },
      { promptTokens: 1, completionTokens: 1, cost: 0.25 },
    ];
    const agent = defineAgent({
      name: "a",
      initial: (_input: string) => ({ n: 0, seen: [] as unknown[] }),
      async step(run) {
        const usage = usages[run.state.n++];
        if (!usage) return run.complete(run.usage);
        await run.llm(() => world.do(`model ${run.state.n}`, { usage }));
        run.state.seen.push(run.usage.tokens);
        await run.effect("pause", () => world.do(`pause ${run.state.n}`));
        return undefined;
      },
    });
    await interruptIn(lab, await lab.open(), agent, "go", world, "pause 2");
    const sp = await lab.open();
    const result = await sp.run(agent, GO);
    expect(result.usage).toEqual({ tokens: 19, cost: 0.75 });
    expect(result.output).toEqual({ tokens: 19, cost: 0.75 });
    expect(result.state.seen).toEqual([7, 17, 19]);
    expect((await sp.session("s").head())?.usage).toEqual({ tokens: 19, cost: 0.75 });
    expect((await (await lab.open()).run(agent, GO)).usage).toEqual({ tokens: 19, cost: 0.75 });
    expect(world.count("model 2")).toBe(1);
  });

  it("takes usage from the function it is given", async () => {
    const agent = once(async (run) => {
      await run.llm(() => ({ price: 3 }), { usage: ({ price }) => ({ cost: price, tokens: 1 }) });
      return run.usage;
    });
    const result = await (await lab.open()).run(agent, GO);
    expect(result).toMatchObject({ output: { tokens: 1, cost: 3 }, usage: { tokens: 1, cost: 3 } });
  });

  it("waits for effects that nobody awaits before the step ends, and records them", async () => {
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
    await until(() => world.log.length === 1);
    expect(await orHung(running, 30)).toBe("hung");
    gate.open("late");
    expect(await running).toMatchObject({ status: "completed", output: "done", steps: 2 });
  });

  it("gives the step bytes and large results back as they were", async () => {
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

  it("writes a large result once: the state's list refers to what was recorded", async () => {
    expect(await measure("a list that is stored as items", false, true)).toBeLessThan(20_000);
    expect(await measure("a list that is stored as items", true, true)).toBeLessThan(20_000);
  });

  it("writes a large result once, also where the checkpoint goes with it", async () => {
    expect(await measure("a list that is stored as items", false, false)).toBeLessThan(20_000);
  });

  it("writes a large result once, also as the first element of a list", async () => {
    expect(await measure("an empty list", false, true)).toBeLessThan(20_000);
  });

  it("writes a large result once, also as a property", async () => {
    expect(await measure("a property", false, true)).toBeLessThan(20_000);
  });

  /** Runs a step with a result of 1 MB in the state, and looks what that took. */
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
        // By then it is recorded.
        if (pause) await settle();
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

  it("refuses calls without an id or a name", async () => {
    for (const call of [undefined, {}, { id: "", name: "t" }, { id: "1", name: "" }, { id: 1, name: "t" }]) {
      const agent = once((run) => codeOf(run.tool(call as never, () => 1)));
      const session = JSON.stringify(call) ?? "none";
      expect((await (await lab.open()).run(agent, { session, input: "go" })).output).toBe("INVALID_ARGUMENT");
    }
  });

  it("changes nothing when the step's promise outlives it", async () => {
    let late: Run<{ notes: unknown[] }> | undefined;
    const agent = once((run) => Promise.resolve((late = run)).then(() => 1));
    const sp = await lab.open();
    const result = await sp.run(agent, GO);
    expect(() => late?.now()).toThrow(expect.objectContaining({ code: "CLOSED" }));
    expect(await orHung(late?.effect("late", () => 1) as Promise<number>, 30)).toBe("hung");
    expect((await sp.session("s").latest())?.state).toEqual(result.state);
  });

  it("does not do the rest of a batch again in which one has failed", async () => {
    const world = new World();
    const gate = createGate();
    const agent = defineAgent({
      name: "a",
      retry: { delay: 0 },
      initial: (_input: string) => ({}),
      async step(run) {
        const results = await Promise.all([
          run.tool({ id: "1", name: "ok" }, () => gate.promise.then(() => world.do("ok", "ok"))),
          run.tool({ id: "2", name: "bad" }, () => {
            world.log.push("bad");
            if (world.count("bad") === 1) {
              setTimeout(() => gate.open(), 20);
              throw new Error("once");
            }
            return "good";
          }),
        ]);
        return run.complete(results);
      },
    });
    expect(await (await lab.open()).run(agent, GO)).toMatchObject({ status: "completed", output: ["ok", "good"] });
    expect(world.count("ok")).toBe(1);
  });
});

/** A text that does not compress well. */
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
