import { describe, expect, it } from "vitest";
import { defineAgent, type Savepoint } from "../../src/index.js";
import { ALL_KINDS, codeOf, createGate, type Gate, interruptIn, until, untilStatus, useLab, World } from "./lab.js";

/** Answers each input, and remembers all of them. */
function chat(world = new World(), gate?: Gate) {
  return defineAgent({
    name: "chat",
    initial: (input: string) => ({ heard: [input], said: [] as string[] }),
    receive(state, input) {
      world.log.push(`receive ${input}`);
      state.heard.push(input);
    },
    async step(run) {
      await gate?.promise;
      const last = run.state.heard.at(-1) as string;
      const reply = await run.llm(() => world.do(`model ${last}`, `re: ${last}`));
      run.state.said.push(reply);
      return run.complete(`${run.turn}: ${reply}`);
    },
  });
}

const GO = { session: "s", input: "go" };

describe.each(ALL_KINDS)("turns on $name", (kind) => {
  const lab = useLab(kind);

  it("a completed session continues with the next input", async () => {
    const sp = await lab.open();
    expect((await sp.run(chat(), { session: "s", input: "a" })).output).toBe("1: re: a");
    expect((await sp.run(chat(), { session: "s", input: "b" })).output).toBe("2: re: b");
    const third = await (await lab.open()).run(chat(), { session: "s", input: "b" });
    expect(third).toMatchObject({ output: "3: re: b", steps: 3 });
    expect(third.state).toEqual({ heard: ["a", "b", "b"], said: ["re: a", "re: b", "re: b"] });
  });

  it("a turn begins with the state that receive returns or has changed", async () => {
    const agent = defineAgent({
      name: "a",
      initial: (input: number) => ({ sum: input }),
      receive: (state, input: number) => Promise.resolve({ sum: state.sum * 10 + input }),
      step: (run) => run.complete(run.state.sum),
    });
    const sp = await lab.open();
    await sp.run(agent, { session: "s", input: 1 });
    await sp.run(agent, { session: "s", input: 2 });
    expect((await sp.run(agent, { session: "s", input: 3 })).output).toBe(123);
  });

  it("a receive function that throws changes nothing, and the input can be sent again", async () => {
    let broken = true;
    const agent = defineAgent({
      name: "a",
      initial: (input: string) => ({ heard: [input] }),
      receive(state, input) {
        state.heard.push(input);
        if (broken) throw new RangeError("not now");
      },
      step: (run) => run.complete(run.state.heard.length),
    });
    const sp = await lab.open();
    await sp.run(agent, { session: "s", input: "a" });
    await expect(sp.run(agent, { session: "s", input: "b" })).rejects.toMatchObject({ code: "AGENT_FAILED" });
    expect(await sp.sessions.load("s")).toMatchObject({ status: "completed" });
    expect((await sp.session("s").latest())?.state).toEqual({ heard: ["a"] });
    broken = false;
    expect((await sp.run(agent, { session: "s", input: "b" })).output).toBe(2);
  });

  it("an input with a key is received once: repeating the key of any turn returns the recorded result", async () => {
    const world = new World();
    const sp = await lab.open();
    const inputs = ["a", "b", "c"];
    const outputs: unknown[] = [];
    for (const input of inputs)
      outputs.push((await sp.run(chat(world), { session: "s", input, key: `k-${input}` })).output);
    const done = [...world.log];
    const other = await lab.open();
    for (const [index, input] of inputs.entries()) {
      const again = await other.run(chat(world), { session: "s", input, key: `k-${input}` });
      expect(again.output).toBe(outputs[index]);
      expect(again.state.heard).toEqual(inputs.slice(0, index + 1));
    }
    expect(world.log).toEqual(done);
    // The key counts, not the input.
    expect((await other.run(chat(world), { session: "s", input: "a", key: "new" })).output).toBe("4: re: a");
  });

  it("an interrupted turn resumes under its key", async () => {
    const world = new World();
    const first = await lab.open();
    await first.run(chat(world), { session: "s", input: "a", key: "1" });
    const reached = world.hangIn("model b");
    await first.start(chat(world), { session: "s", input: "b", key: "2" });
    await reached;
    await lab.idle();
    lab.crash();
    const sp = await lab.open();
    // The key of an older turn is still known.
    expect((await sp.run(chat(world), { session: "s", input: "a", key: "1" })).output).toBe("1: re: a");
    expect(await codeOf(sp.run(chat(world), { session: "s", input: "c", key: "3" }))).toBe("INPUT_MISMATCH");
    expect((await sp.run(chat(world), { session: "s", input: "b", key: "2" })).output).toBe("2: re: b");
    expect(world.count("receive b")).toBe(1);
  });

  describe("an input sent to a session that was enqueued and has not started", () => {
    const heardBy = async (sp: Savepoint): Promise<unknown> =>
      ((await sp.session("s").latest())?.state as { heard: string[] } | undefined)?.heard;

    it("becomes the next turn after the enqueued input, in the order in which inputs were sent", async () => {
      const [sp, other] = [await lab.open(), await lab.open()];
      await sp.enqueue("chat", { session: "s", input: "a" });
      expect(await other.send("s", "b")).toBe(true);
      expect(await sp.send("s", "c", { key: "k" })).toBe(true);
      expect(await other.send("s", "c", { key: "k" })).toBe(false);
      expect(await sp.sessions.load("s")).toMatchObject({ status: "queued" });
      const worker = other.worker([chat()], { poll: 10, signals: false });
      await worker.start();
      await until(async () => (await heardBy(sp))?.toString() === "a,b,c", "all inputs to be taken");
      await untilStatus(sp, "completed");
      expect(await sp.send("s", "c", { key: "k" })).toBe(false);
      // The key belongs to the third turn: its recorded result is returned.
      expect((await sp.run(chat(), { session: "s", input: "c", key: "k" })).output).toBe("3: re: c");
      await worker.stop();
    });

    it("does not start the session before its time", async () => {
      const sp = await lab.open();
      await sp.enqueue("chat", { session: "s", input: "a", runAt: "1h" });
      expect(await (await lab.open()).send("s", "b")).toBe(true);
      expect(await sp.recover([chat()])).toEqual([]);
      lab.advance(3_600_000);
      for (const expected of ["1: re: a", "2: re: b"]) {
        const [handle] = await sp.recover([chat()]);
        expect((await handle?.result())?.output).toBe(expected);
      }
    });

    it("is dropped with the enqueued one by a cancel, and its key is free again", async () => {
      const sp = await lab.open();
      await sp.enqueue("chat", { session: "s", input: "a" });
      await sp.send("s", "b", { key: "k" });
      expect(await sp.cancel("s")).toBe(true);
      expect(await sp.recover([chat()])).toEqual([]);
      // Another input starts the session; dropped inputs are not received.
      expect((await sp.run(chat(), { session: "s", input: "c" })).output).toBe("1: re: c");
      expect((await sp.run(chat(), { session: "s", input: "b", key: "k" })).output).toBe("2: re: b");
      expect(await heardBy(sp)).toEqual(["c", "b"]);
    });

    it("after a cancel queues the session again, and can be cancelled like it", async () => {
      const sp = await lab.open();
      await sp.enqueue("chat", { session: "s", input: "a" });
      await sp.cancel("s");
      expect(await sp.send("s", "b")).toBe(true);
      expect(await sp.sessions.load("s")).toMatchObject({ status: "queued", reason: undefined });
      expect(await sp.cancel("s")).toBe(true);
      expect(await sp.recover([chat()])).toEqual([]);
      await sp.send("s", "c");
      const [handle] = await sp.recover([chat()]);
      expect((await handle?.result())?.output).toBe("1: re: c");
    });

    it("is neither lost nor taken twice while a worker claims the session", async () => {
      const [sp, other] = [await lab.open(), await lab.open()];
      const worker = other.worker([chat()], { poll: 10, signals: false });
      await worker.start();
      const sessions = Array.from({ length: 6 }, (_, n) => `s${n}`);
      await Promise.all(
        sessions.map(async (session) => {
          await sp.enqueue("chat", { session, input: "a" });
          for (const input of ["b", "c"]) expect(await sp.send(session, input, { key: input })).toBe(true);
        }),
      );
      for (const session of sessions) {
        await until(async () => {
          const state = (await sp.session<{ said: string[] }>(session).latest())?.state;
          return state?.said.toString() === "re: a,re: b,re: c";
        }, `all inputs of ${session} to be taken`);
      }
      await worker.stop();
    });

    it("is rejected for a branch that does not exist", async () => {
      const sp = await lab.open();
      await sp.enqueue("chat", { session: "s", input: "a" });
      expect(await codeOf(sp.send("s", "b", { branch: "side" }))).toBe("BRANCH_NOT_FOUND");
    });
  });

  it("inputs that are sent are received by recover in their order", async () => {
    const world = new World();
    const sp = await lab.open();
    await sp.run(chat(world), { session: "s", input: "a" });
    const other = await lab.open();
    for (const input of ["b", "c", "d"]) expect(await other.send("s", input)).toBe(true);
    expect(world.log).toEqual(["model a"]);
    for (const [index, input] of ["b", "c", "d"].entries()) {
      const handles = await (await lab.open()).recover([chat(world)]);
      expect(handles).toHaveLength(1);
      expect(await handles[0]?.result()).toMatchObject({ output: `${index + 2}: re: ${input}` });
    }
    expect(await sp.recover([chat(world)])).toEqual([]);
  });

  it("a run receives the inputs in the inbox before its own input", async () => {
    const sp = await lab.open();
    await sp.run(chat(), { session: "s", input: "a" });
    await sp.send("s", "b");
    await sp.send("s", "c");
    const result = await sp.run(chat(), { session: "s", input: "d" });
    expect(result.output).toBe("4: re: d");
    expect(result.state.heard).toEqual(["a", "b", "c", "d"]);
  });

  it("a run receives its input even if an equal one was in the inbox", async () => {
    const sp = await lab.open();
    await sp.run(chat(), { session: "s", input: "a" });
    await sp.send("s", "b");
    const result = await sp.run(chat(), { session: "s", input: "b", key: "mine" });
    expect(result.state.heard).toEqual(["a", "b", "b"]);
  });

  it("an input with a key is sent once, even after it was received", async () => {
    const sp = await lab.open();
    await sp.run(chat(), { session: "s", input: "a", key: "first" });
    expect(await sp.send("s", "a", { key: "first" })).toBe(false);
    expect(await sp.send("s", "b", { key: "k" })).toBe(true);
    expect(await (await lab.open()).send("s", "b", { key: "k" })).toBe(false);
    // A run with its key receives it once, and returns its result each time after that.
    expect((await sp.run(chat(), { session: "s", input: "b", key: "k" })).output).toBe("2: re: b");
    expect(await sp.send("s", "b", { key: "k" })).toBe(false);
    const again = await sp.run(chat(), { session: "s", input: "b", key: "k" });
    expect(again.output).toBe("2: re: b");
    expect(again.state.heard).toEqual(["a", "b"]);
  });

  it("an input that is sent during a turn is received when that turn has ended", async () => {
    const gate = createGate();
    const world = new World();
    const sp = await lab.open();
    const running = sp.run(chat(world, gate), { session: "s", input: "a" });
    await untilStatus(sp, "running");
    expect(await (await lab.open()).send("s", "b")).toBe(true);
    expect(await sp.send("s", "c")).toBe(true);
    expect(await sp.recover([chat(world)])).toEqual([]);
    gate.open();
    expect((await running).output).toBe("1: re: a");
    const outputs: unknown[] = [];
    for (let handles = await sp.recover([chat(world)]); handles.length > 0; handles = await sp.recover([chat(world)])) {
      for (const handle of handles) outputs.push((await handle.result()).output);
    }
    expect(outputs).toEqual(["2: re: b", "3: re: c"]);
  });

  it("an input that is sent to an interrupted session is received after the interrupted turn is resumed", async () => {
    const world = new World();
    await interruptIn(lab, await lab.open(), chat(world), "a", world, "model a");
    const sp = await lab.open();
    await sp.send("s", "b");
    const [first] = await sp.recover([chat(world)]);
    expect((await first?.result())?.output).toBe("1: re: a");
    const [second] = await sp.recover([chat(world)]);
    expect((await second?.result())?.output).toBe("2: re: b");
  });

  it("inputs that many processes send at the same time are each received exactly once", async () => {
    const world = new World();
    const sp = await lab.open();
    await sp.run(chat(world), { session: "s", input: "start" });
    const inputs = Array.from({ length: 12 }, (_, index) => `i${index}`);
    const senders = [sp, await lab.open(), await lab.open()];
    await Promise.all(inputs.map((input, index) => (senders[index % 3] ?? sp).send("s", input)));
    for (let handles = await sp.recover([chat(world)]); handles.length > 0; handles = await sp.recover([chat(world)])) {
      await handles[0]?.result();
    }
    const latest = await sp.session<{ heard: string[] }>("s").latest();
    const heard = latest?.state.heard ?? [];
    expect([...heard].sort()).toEqual(["start", ...inputs].sort());
  });

  it("an input that no run would receive is rejected", async () => {
    const sp = await lab.open();
    expect(await codeOf(sp.send("nobody", "x"))).toBe("SESSION_NOT_FOUND");
    await sp.session("by hand").save({});
    expect(await codeOf(sp.send("by hand", "x"))).toBe("SESSION_NOT_FOUND");
    await sp.run(chat(), { session: "s", input: "a" });
    expect(await codeOf(sp.send("s", () => 1))).toBe("INVALID_STATE");
    expect(await sp.recover([chat()])).toEqual([]);
  });

  it("a session that is started again after its deletion does not receive inputs sent before", async () => {
    const sp = await lab.open();
    await sp.run(chat(), { session: "s", input: "a", key: "k" });
    await sp.send("s", "old");
    await sp.sessions.delete("s");
    expect(await sp.recover([chat()])).toEqual([]);
    const again = await sp.run(chat(), { session: "s", input: "a", key: "k" });
    expect(again.state.heard).toEqual(["a"]);
    const next = await sp.run(chat(), { session: "s", input: "b" });
    expect(next.state.heard).toEqual(["a", "b"]);
  });

  it("the history has the result of every turn", async () => {
    const sp = await lab.open();
    for (const input of ["a", "b", "c"]) await sp.run(chat(), { session: "s", input });
    const history = await sp.session("s").history().all();
    expect(history.map(({ status }) => status)).toEqual([
      "completed",
      "running",
      "completed",
      "running",
      "completed",
      "running",
    ]);
    expect(history.filter(({ trigger }) => trigger === "input")).toHaveLength(2);
  });

  it("a failed or halted session does not receive further inputs", async () => {
    const agent = defineAgent({
      name: "a",
      initial: (input: string) => ({ heard: [input] }),
      receive: (state, input) => void state.heard.push(input),
      step: (run) => run.halt("enough"),
    });
    const sp = await lab.open();
    const first = await sp.run(agent, { session: "s", input: "a" });
    expect(await sp.run(agent, { session: "s", input: "a" })).toEqual(first);
    expect(await codeOf(sp.run(agent, { session: "s", input: "b" }))).toBe("INPUT_MISMATCH");
    await sp.send("s", "b");
    expect(await sp.recover([agent])).toEqual([]);
    expect((await sp.session("s").latest())?.state).toEqual({ heard: ["a"] });
  });

  it("two processes can run turns alternately, and each input is received once", async () => {
    let received = 0;
    const agent = defineAgent({
      name: "a",
      initial: (input: string) => [input],
      receive(state, input) {
        received++;
        state.push(input);
      },
      step: (run) => run.complete([...run.state]),
    });
    const [a, b] = [await lab.open(), await lab.open()];
    const codes: unknown[] = [];
    for (const [index, sp] of [a, b, a, b, a, a, b, b].entries()) {
      codes.push(await codeOf(sp.run(agent, { session: "s", input: `${index}` })));
    }
    expect([new Set(codes), received]).toEqual([new Set(["none"]), 7]);
  });

  it("a turn continues from a state that another process has saved by hand", async () => {
    const [a, b] = [await lab.open(), await lab.open()];
    await a.run(chat(), { session: "s", input: "1" });
    await b.session("s").save({ heard: ["by hand"], said: [] }, { status: "completed" });
    const result = await a.run(chat(), { session: "s", input: "2" });
    expect(result.state.heard).toEqual(["by hand", "2"]);
  });

  it("a session whose input cannot be received does not keep others from being recovered", async () => {
    const world = new World();
    const agent = defineAgent({
      name: "a",
      initial: (_input: string) => ({ heard: [] as string[] }),
      receive(state, input) {
        if (input === "poison") throw new Error("poisoned");
        state.heard.push(input);
      },
      async step(run) {
        await run.effect("work", () => world.do("work"));
        return run.complete("done");
      },
    });
    const sp = await lab.open();
    await sp.run(agent, { session: "a", input: "go" });
    await sp.send("a", "poison");
    await interruptIn(lab, sp, agent, "go", world, "work", "b");
    const other = await lab.open();
    const handles = await other.recover([agent]);
    expect(handles.map(({ session }) => session)).toEqual(["b"]);
  });

  it("keys of inputs are still known after a checkpoint that was saved by hand", async () => {
    const sp = await lab.open();
    const world = new World();
    const listener = defineAgent({
      name: "chat",
      initial: (input: string) => (world.log.push(input), { heard: [input] }),
      receive(state, input: string) {
        world.log.push(input);
        state.heard.push(input);
      },
      step: (run) => run.complete(`${run.state.heard.join()}`),
    });
    const say = async (input: string): Promise<string | undefined> =>
      (await (await lab.open()).run(listener, { session: "s", input, key: `k${input}` })).output;
    const save = async (): Promise<void> => {
      const session = sp.session<{ heard: string[] }>("s");
      const state = (await session.latest())?.state as { heard: string[] };
      await session.save(state, { status: "completed" });
    };
    expect(await say("A")).toBe("A");
    await save();
    expect(await say("B")).toBe("A,B");
    expect(await say("A")).toBe("A");
    await save();
    expect(await say("C")).toBe("A,B,C");
    expect([await say("A"), await say("B"), await say("C")]).toEqual(["A", "A,B", "A,B,C"]);
    expect(world.log).toEqual(["A", "B", "C"]);
  });

  it.each([true, false])("the key of an input resumes a halted run (with the same input: %s)", async (again) => {
    const sp = await lab.open();
    const world = new World();
    let halts = true;
    const agent = defineAgent({
      name: "a",
      initial: (input: string) => ({ heard: [input] }),
      receive: (state, input: string) => void state.heard.push(input),
      async step(run) {
        await run.effect("work", () => world.do("work"));
        if (halts && run.turn === 2) return run.halt("needs attention");
        return run.complete(run.state.heard.join());
      },
    });
    await sp.run(agent, { session: "s", input: "a", key: "ka" });
    expect((await sp.run(agent, { session: "s", input: "b", key: "kb" })).status).toBe("halted");
    // Without resume it stays halted.
    expect((await sp.run(agent, { session: "s", input: "b", key: "kb" })).status).toBe("halted");
    halts = false;
    const options = { session: "s", key: "kb", resume: true, ...(again && { input: "b" }) };
    expect(await sp.run(agent, options)).toMatchObject({ status: "completed", output: "a,b" });
  });

  it("an input for a branch that does not exist is rejected", async () => {
    const agent = defineAgent({
      name: "a",
      initial: (_input: string) => ({}),
      receive: (_state, _input) => {},
      step: (run) => run.complete("done"),
    });
    const sp = await lab.open();
    await sp.run(agent, GO);
    expect(await codeOf(sp.send("s", "x", { branch: "nope" }))).toBe("BRANCH_NOT_FOUND");
  });
});
