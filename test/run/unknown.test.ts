import { describe, expect, it } from "vitest";
import { defineAgent, type EffectOptions, type LlmOptions } from "../../src/index.js";
import { codeOf, errorOf, interruptIn, KINDS, once, orHung, until, useLab, World } from "./lab.js";

/** Reads, then charges a card, then is done. Only the charge is dangerous. */
function shop(world: World, options: EffectOptions<string> = {}) {
  return defineAgent({
    name: "shop",
    initial: (_input: string) => ({ read: "", receipt: "" }),
    retry: { attempts: 1 },
    async step(run) {
      run.state.read = await run.effect("read", () => world.do("read", "stock"));
      run.state.receipt = await run.tool(
        { id: "c1", name: "charge", arguments: { card: "42", amount: 7 } },
        ({ idempotencyKey }) => {
          world.log.push(`key ${idempotencyKey}`);
          return world.do("charge", "receipt");
        },
        options,
      );
      return run.complete(run.state.receipt);
    },
  });
}

describe.each(KINDS)("effects with an unknown outcome, on $name", (kind) => {
  const lab = useLab(kind);

  it("a run asks about an interrupted tool by default, with its call and time, and executes nothing again", async () => {
    const world = new World();
    const begunAt = lab.now();
    await interruptIn(lab, await lab.open(), shop(world), "go", world, "charge");
    const sp = await lab.open();
    const result = await sp.run(shop(world), { session: "s", input: "go" });
    expect(result).toMatchObject({
      status: "waiting",
      question: {
        kind: "unknown",
        call: { id: "c1", name: "charge", arguments: { card: "42", amount: 7 } },
        startedAt: begunAt,
      },
    });
    expect(result.question?.text).toContain("charge");
    expect(world.count("charge")).toBe(1);
    expect(await sp.sessions.load("s")).toMatchObject({ status: "waiting", questions: [result.question] });
    // Running it again changes nothing, and returns the same question.
    const again = await (await lab.open()).run(shop(world), { session: "s", input: "go" });
    expect({ ...again, steps: 0 }).toEqual({ ...result, steps: 0 });
    expect(world.count("charge")).toBe(1);
  });

  it("the answer provides the result of a tool that happened", async () => {
    const world = new World();
    await interruptIn(lab, await lab.open(), shop(world), "go", world, "charge");
    const sp = await lab.open();
    await sp.run(shop(world), { session: "s", input: "go" });
    await sp.answer("s", { happened: true, result: "from the bank" });
    const result = await sp.run(shop(world), { session: "s", input: "go" });
    expect(result).toMatchObject({ status: "completed", output: "from the bank" });
    expect([world.count("read"), world.count("charge")]).toEqual([1, 1]);
  });

  it("a tool that a person lets fail throws, and is not executed again, however often the run is resumed", async () => {
    const world = new World();
    await interruptIn(lab, await lab.open(), shop(world), "go", world, "charge");
    const sp = await lab.open();
    await sp.run(shop(world), { session: "s", input: "go" });
    await sp.answer("s", { failed: "the bank does not know" });
    expect(await sp.journal("s").all()).toMatchObject([
      { name: "read", outcome: "recorded" },
      { name: "charge", outcome: "failed", settledBy: "answer", error: { message: "the bank does not know" } },
    ]);
    for (let n = 0; n < 2; n++) {
      const result = await sp.run(shop(world), { session: "s", input: "go", resume: true });
      expect(result).toMatchObject({ status: "failed", reason: expect.stringContaining("the bank does not know") });
    }
    expect(world.count("charge")).toBe(1);
  });

  it("an answer that says both that a tool failed and that it can be repeated, or happened, is rejected", async () => {
    const world = new World();
    await interruptIn(lab, await lab.open(), shop(world), "go", world, "charge");
    const sp = await lab.open();
    await sp.run(shop(world), { session: "s", input: "go" });
    const failed = "the bank does not know";
    const answers = [{ failed, happened: false }, { failed, happened: true }, { failed, result: 1 }, { failed: true }];
    for (const answer of [...answers, { failed: "" }, { happened: false, failed: null }]) {
      expect(await codeOf(sp.answer("s", answer))).toBe("INVALID_ARGUMENT");
    }
    expect(world.count("charge")).toBe(1);
  });

  it("the journal has the idempotency key of a tool with an unknown outcome, and the id of the question about it", async () => {
    const world = new World();
    await interruptIn(lab, await lab.open(), shop(world), "go", world, "charge");
    const sp = await lab.open();
    const { question } = await sp.run(shop(world), { session: "s", input: "go" });
    const [key] = world.log.filter((entry) => entry.startsWith("key "));
    for (const options of [{}, { all: true }, { all: true, order: "newest" }] as const) {
      const entries = await sp.journal("s", options as { all: true }).all();
      const charge = entries.find((entry) => "name" in entry && entry.name === "charge") ?? expect.fail();
      expect(charge).toMatchObject({ question: question?.id, idempotencyKey: key?.slice("key ".length) });
      expect(entries.find((entry) => "name" in entry && entry.name === "read")).toMatchObject({ question: undefined });
    }
    await sp.answer("s", { happened: false });
    await sp.run(shop(world), { session: "s", input: "go" });
    const entries = await sp.journal("s", { all: true }).all();
    expect(entries.map((entry) => "idempotencyKey" in entry && entry.idempotencyKey)).toEqual([undefined, undefined]);
  });

  it("the journal has the claims of an effect that two processes have executed, with their times", async () => {
    const world = new World();
    await interruptIn(lab, await lab.open(), shop(world, { onUnknown: "retry" }), "go", world, "read");
    const interruptedAt = lab.now();
    lab.advance(1000);
    const retried = shop(world, { onUnknown: "retry" });
    const hanging = world.hangIn("charge");
    const sp = await lab.open();
    const handle = await sp.start(retried, { session: "s", input: "go" });
    await hanging;
    void handle.result().catch(() => {});
    const [read] = await sp.journal("s").all();
    expect(read?.claims).toEqual([{ epoch: expect.any(Number), worker: undefined, from: lab.now(), to: lab.now() }]);
    expect(lab.now()).toBeGreaterThan(interruptedAt);
  });

  it("the question about a tool names its arguments, of limited length", async () => {
    const world = new World();
    const agent = once((run) => {
      const args = { order: "88", note: "x".repeat(5000), amount: { cents: 500 } };
      return run.tool({ id: "1", name: "refund", arguments: args }, () => world.do("refund", "done"));
    });
    await interruptIn(lab, await lab.open(), agent, "go", world, "refund");
    const { question } = await (await lab.open()).run(agent, { session: "s" });
    expect(question?.text).toMatch(
      /^Did the tool "refund" \(order: "88", note: "x+…, amount: \{"cents":500\}\) happen\? /,
    );
    expect(question?.text.length).toBeLessThan(500);
  });

  it("a tool that did not happen is executed again with the same idempotency key, and no other effect is", async () => {
    const world = new World();
    await interruptIn(lab, await lab.open(), shop(world), "go", world, "charge");
    const sp = await lab.open();
    await sp.run(shop(world), { session: "s", input: "go" });
    await sp.answer("s", { happened: false });
    const result = await orHung(sp.run(shop(world), { session: "s", input: "go" }));
    expect(result).toMatchObject({ status: "completed", output: "receipt" });
    expect([world.count("read"), world.count("charge")]).toEqual([1, 2]);
    const keys = world.log.filter((entry) => entry.startsWith("key "));
    expect(keys).toHaveLength(2);
    expect(new Set(keys).size).toBe(1);
  });

  it("a tool that is interrupted again after the answer is asked about again", async () => {
    const world = new World();
    await interruptIn(lab, await lab.open(), shop(world), "go", world, "charge");
    const second = await lab.open();
    await second.run(shop(world), { session: "s", input: "go" });
    await second.answer("s", { happened: false });
    const reached = world.hangIn("charge");
    await second.start(shop(world), { session: "s", input: "go" });
    expect(await orHung(reached.then(() => "reached"))).toBe("reached");
    await lab.idle();
    lab.crash();
    const third = await lab.open();
    const result = await third.run(shop(world), { session: "s", input: "go" });
    expect(result).toMatchObject({ status: "waiting", question: { kind: "unknown" } });
    expect(world.count("charge")).toBe(2);
    await third.answer("s", { happened: true, result: "late" });
    expect(await third.run(shop(world), { session: "s", input: "go" })).toMatchObject({ output: "late" });
    expect(world.count("charge")).toBe(2);
  });

  it("the policy retry executes a tool again automatically, with the same idempotency key", async () => {
    const world = new World();
    const agent = shop(world, { onUnknown: "retry" });
    await interruptIn(lab, await lab.open(), agent, "go", world, "charge");
    const result = await (await lab.open()).run(agent, { session: "s", input: "go" });
    expect(result).toMatchObject({ status: "completed", output: "receipt" });
    expect([world.count("read"), world.count("charge")]).toEqual([1, 2]);
    expect(new Set(world.log.filter((entry) => entry.startsWith("key "))).size).toBe(1);
  });

  it("the policy verify executes a tool again only if its function reports that it did not happen", async () => {
    for (const happened of [true, false]) {
      const world = new World();
      const session = `verify-${happened}`;
      const keys: string[] = [];
      const agent = shop(world, {
        onUnknown: "verify",
        verify: ({ idempotencyKey }) => {
          keys.push(`key ${idempotencyKey}`);
          return happened ? { happened, result: "found" } : { happened };
        },
      });
      await interruptIn(lab, await lab.open(), agent, "go", world, "charge", session);
      expect(keys).toEqual([]);
      const result = await (await lab.open()).run(agent, { session, input: "go" });
      expect(result).toMatchObject({ status: "completed", output: happened ? "found" : "receipt" });
      expect(world.count("charge")).toBe(happened ? 1 : 2);
      expect(keys).toEqual([world.log.find((entry) => entry.startsWith("key "))]);
    }
  });

  it("a run halts if verify throws or returns no verdict, and executes nothing again", async () => {
    const broken: NonNullable<EffectOptions<string>["verify"]>[] = [
      () => {
        throw new Error("bank is down");
      },
      () => ({}) as never,
    ];
    for (const [index, verify] of broken.entries()) {
      const world = new World();
      const options: EffectOptions<string> = { onUnknown: "verify", verify };
      const session = `broken-${index}`;
      await interruptIn(lab, await lab.open(), shop(world, options), "go", world, "charge", session);
      const result = await (await lab.open()).run(shop(world, options), { session, input: "go" });
      expect(result.status).toBe("halted");
      expect(world.count("charge")).toBe(1);
      // With a function that returns a verdict the run resumes.
      const agent = shop(world, { onUnknown: "verify", verify: () => ({ happened: true, result: "ok" }) });
      const after = await (await lab.open()).run(agent, { session, input: "go", resume: true });
      expect(after).toMatchObject({ status: "completed", output: "ok" });
      expect(world.count("charge")).toBe(1);
    }
  });

  it("the step cannot catch what verify throws: the run halts, and verify is called again when it resumes", async () => {
    const world = new World();
    const agent = (verify: NonNullable<EffectOptions<string>["verify"]>) =>
      once(async (run) => {
        try {
          const call = { id: "1", name: "pay" };
          return await run.tool(call, () => world.do("pay", "paid"), { onUnknown: "verify", verify });
        } catch {
          world.log.push("caught");
          return await run.effect("fallback", () => world.do("fallback", "not paid"));
        }
      }, 3);
    const broken = agent(() => {
      world.log.push("verify");
      throw new Error("the bank is closed");
    });
    await interruptIn(lab, await lab.open(), broken, "go", world, "pay");
    const sp = await lab.open();
    const halted = await orHung(sp.run(broken, { session: "s", input: "go" }));
    expect(halted).toMatchObject({ status: "halted" });
    expect(halted).toHaveProperty("reason", expect.stringContaining("the bank is closed"));
    expect(world.count("verify")).toBeGreaterThanOrEqual(3);
    const working = agent(() => ({ happened: true, result: "verified" }));
    const result = await sp.run(working, { session: "s", input: "go", resume: true });
    expect(result).toMatchObject({ status: "completed", output: "verified" });
    expect([world.count("pay"), world.count("caught"), world.count("fallback")]).toEqual([1, 0, 0]);
  });

  it("the policy fail throws OUTCOME_UNKNOWN to the step, recorded like any error", async () => {
    const world = new World();
    const agent = defineAgent({
      name: "shop",
      initial: (_input: string) => ({ codes: [] as unknown[] }),
      async step(run) {
        try {
          await run.tool({ id: "c1", name: "charge" }, () => world.do("charge"), { onUnknown: "fail" });
        } catch (error) {
          run.state.codes.push((error as { code?: string }).code);
        }
        await run.effect("after", () => world.do("after"));
        return run.complete(run.state.codes);
      },
    });
    await interruptIn(lab, await lab.open(), agent, "go", world, "charge");
    await interruptIn(lab, await lab.open(), agent, "go", world, "after");
    const result = await (await lab.open()).run(agent, { session: "s", input: "go" });
    expect(result).toMatchObject({ status: "completed", output: ["OUTCOME_UNKNOWN"] });
    expect(world.count("charge")).toBe(1);
  });

  it("a tool with the policy fail is never executed again, also if the step does not catch its error", async () => {
    const world = new World();
    const agent = defineAgent({
      name: "shop",
      initial: (_input: string) => ({}),
      async step(run) {
        return run.complete(
          await run.tool({ id: "c1", name: "charge" }, () => world.do("charge"), { onUnknown: "fail" }),
        );
      },
    });
    await interruptIn(lab, await lab.open(), agent, "go", world, "charge");
    const sp = await lab.open();
    for (let attempt = 0; attempt < 2; attempt++) {
      const result = await sp.run(agent, { session: "s", input: "go" });
      expect(result).toMatchObject({ status: "failed", error: { name: "SavepointError" } });
      expect(world.count("charge")).toBe(1);
    }
  });

  it("an interrupted model call is repeated once by default, or follows its onUnknown", async () => {
    const chat = (world: World, options: LlmOptions<string> = {}) =>
      defineAgent({
        name: "chat",
        initial: (_input: string) => ({ reply: "" }),
        async step(run) {
          run.state.reply = await run.llm(() => world.do("model", "hello"), options);
          return run.complete(run.state.reply);
        },
      });
    const world = new World();
    await interruptIn(lab, await lab.open(), chat(world), "go", world, "model", "default");
    expect(await (await lab.open()).run(chat(world), { session: "default", input: "go" })).toMatchObject({
      status: "completed",
    });
    expect(world.count("model")).toBe(2);
    const asking = chat(world, { onUnknown: "ask" });
    await interruptIn(lab, await lab.open(), asking, "go", world, "model", "ask");
    const sp = await lab.open();
    expect(await sp.run(asking, { session: "ask", input: "go" })).toMatchObject({
      status: "waiting",
      question: { kind: "unknown", call: { name: "llm" } },
    });
    await sp.answer("ask", { happened: true, result: "from the log" });
    expect(await sp.run(asking, { session: "ask", input: "go" })).toMatchObject({ output: "from the log" });
    expect(world.count("model")).toBe(3);
  });

  it("an answer that does not state whether the tool happened is rejected, and the run keeps waiting", async () => {
    const world = new World();
    await interruptIn(lab, await lab.open(), shop(world), "go", world, "charge");
    const sp = await lab.open();
    await sp.run(shop(world), { session: "s", input: "go" });
    for (const answer of [undefined, null, true, "yes", {}, { happened: "yes" }, { happened: 1, result: "x" }]) {
      expect(await codeOf(sp.answer("s", answer)), JSON.stringify(answer)).toBe("INVALID_ARGUMENT");
    }
    // A value that no state supports.
    expect(await codeOf(sp.answer("s", { happened: true, result: () => 1 }))).toBe("INVALID_STATE");
    expect(await sp.sessions.load("s")).toMatchObject({ status: "waiting" });
    await sp.answer("s", { happened: true, result: "ok" });
    expect(await sp.run(shop(world), { session: "s", input: "go" })).toMatchObject({ output: "ok" });
  });

  it("an answer is rejected if no run waits for it", async () => {
    const world = new World();
    const sp = await lab.open();
    expect(await codeOf(sp.answer("s", 1))).toBe("SESSION_NOT_FOUND");
    await sp.run(shop(world), { session: "s", input: "go" });
    expect(await codeOf(sp.answer("s", 1))).toBe("NOT_WAITING");
    await sp.session("by hand").save({});
    expect(await codeOf(sp.answer("by hand", 1))).toBe("NOT_WAITING");
    await interruptIn(lab, sp, shop(world), "go", world, "charge", "busy");
    // Interrupted and not resumed yet: there is no question.
    expect(await codeOf(sp.answer("busy", 1))).toBe("NOT_WAITING");
    const other = await lab.open();
    await other.run(shop(world), { session: "busy", input: "go" });
    const error = await errorOf(other.answer("busy", 1, { question: "q77" }));
    expect(error.code).toBe("NOT_WAITING");
    expect(error.details).toMatchObject({ sessionId: "busy", branch: "main", questions: [{ kind: "unknown" }] });
    await other.answer("busy", { happened: true, result: "r" });
    expect(await codeOf(other.answer("busy", { happened: true, result: "r" }))).toBe("NOT_WAITING");
  });

  it("several interrupted tools are asked about at once, and each answer goes to its question in any order", async () => {
    const world = new World();
    const agent = defineAgent({
      name: "batch",
      initial: (_input: string) => ({ results: [] as string[] }),
      async step(run) {
        run.state.results = await Promise.all(
          ["a", "b", "c"].map((id) => run.tool({ id, name: id }, () => world.do(id, `did ${id}`))),
        );
        return run.complete(run.state.results);
      },
    });
    const first = await lab.open();
    const never = new Promise<never>(() => {});
    // All three hang: each has started, and none ends.
    const all = new World();
    const hung = defineAgent({
      name: "batch",
      initial: (_input: string) => ({ results: [] as string[] }),
      async step(run) {
        await Promise.all(["a", "b", "c"].map((id) => run.tool({ id, name: id }, () => (all.do(id), never))));
      },
    });
    await first.start(hung, { session: "s", input: "go" });
    await until(() => all.log.length === 3, "all three tools to begin");
    lab.crash();
    const sp = await lab.open();
    const asked = await sp.run(agent, { session: "s", input: "go" });
    expect(asked.questions?.map(({ call }) => call?.name)).toEqual(["a", "b", "c"]);
    expect(asked.question).toEqual(asked.questions?.[0]);
    const idOf = (name: string): string => asked.questions?.find(({ call }) => call?.name === name)?.id ?? "";
    await sp.answer("s", { happened: true, result: "told c" }, { question: idOf("c") });
    await sp.answer("s", { happened: false }, { question: idOf("a") });
    // Only the open questions are asked again.
    const left = await orHung(sp.run(agent, { session: "s", input: "go" }));
    expect(left).toMatchObject({ status: "waiting", questions: [{ call: { name: "b" } }] });
    await sp.answer("s", { happened: true, result: "told b" });
    const result = await orHung((await lab.open()).run(agent, { session: "s", input: "go" }));
    expect(result).toMatchObject({ status: "completed", output: ["did a", "told b", "told c"] });
    expect(world.log).toEqual(["a"]);
  });

  it("a run asks about an interrupted call whose arguments are not JSON", async () => {
    const world = new World();
    const agent = defineAgent({
      name: "exact",
      initial: (_input: string) => ({}),
      async step(run) {
        const call = {
          id: "c1",
          name: "pay",
          arguments: { amount: 10n, when: new Date(5), raw: new Uint8Array(2000) },
        };
        return run.complete(await run.tool(call, () => world.do("pay", "paid")));
      },
    });
    await interruptIn(lab, await lab.open(), agent, "go", world, "pay");
    const sp = await lab.open();
    const result = await sp.run(agent, { session: "s", input: "go" });
    expect(result).toMatchObject({ status: "waiting", question: { call: { name: "pay" } } });
    await sp.answer("s", { happened: true, result: "ok" });
    expect(await sp.run(agent, { session: "s", input: "go" })).toMatchObject({ output: "ok" });
  });

  it("idempotency keys differ between calls, steps, sessions and branches", async () => {
    const keys: string[] = [];
    const agent = defineAgent({
      name: "keys",
      initial: (_input: string) => ({ step: 0 }),
      async step(run) {
        const note = ({ idempotencyKey }: { idempotencyKey: string }) => void keys.push(idempotencyKey);
        await run.tool({ id: "same", name: "t" }, note);
        await run.tool({ id: "same", name: "t" }, note);
        await run.effect("e", note);
        run.state.step++;
        if (run.state.step === 2) return run.complete();
        return undefined;
      },
    });
    const sp = await lab.open();
    await sp.run(agent, { session: "a", input: "go" });
    await sp.run(agent, { session: "b", input: "go" });
    const session = sp.session("a");
    const start = (await session.history().all()).at(-1);
    await session.fork(start?.id as string, { branch: "other" });
    await sp.run(agent, { session: "a", branch: "other", input: "go" });
    expect(keys).toHaveLength(18);
    expect(new Set(keys).size).toBe(18);
  });
});
