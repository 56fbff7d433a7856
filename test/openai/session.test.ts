// `SavepointSession`: the SDK's session interfaces, compared with the SDK's own session in memory.
import {
  type Agent,
  type AgentInputItem,
  isSessionHistoryRewriteAwareSession,
  isSessionHistoryTransactionAwareSession,
  MemorySession,
  run,
  type SessionHistoryTransaction,
} from "@openai/agents-core";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Savepoint } from "../../src/index.js";
import { durable, SavepointSession } from "../../src/integrations/openai/index.js";
import { codeOf, openLab, World } from "../run/lab.js";
import { runs } from "../support/runs.js";
import { call, createClerk, MODES, runAgent, say, SCRIPT, serve } from "./crew.js";

const user = (content: string): AgentInputItem => ({ type: "message", role: "user", content });

const callItem = (callId: string, name: string) =>
  ({ type: "function_call", callId, name, arguments: "{}", status: "completed" }) as const;

describe("SavepointSession", () => {
  it("supports the SDK's history transactions and rewrites", async (test) => {
    const lab = await openLab(test);
    const session = new SavepointSession(await lab.open(), "chat-7");
    expect(isSessionHistoryTransactionAwareSession(session)).toBe(true);
    expect(isSessionHistoryRewriteAwareSession(session)).toBe(true);
    expect(await session.getSessionId()).toBe("chat-7");
    expect(await session.getItems()).toEqual([]);
    expect(await session.popItem()).toBe(undefined);
    await session.clearSession();
    await session.addItems([]);
    // Nothing was written.
    expect(await (await lab.open()).session("chat-7").latest()).toBe(undefined);
  });

  it.for(MODES)("keeps what the SDK's own session keeps, over several runs: %s", async (mode, test) => {
    const lab = await openLab(test);
    const sp = await lab.open();
    const [expected, session] = [new MemorySession(), new SavepointSession(sp, "chat-7")];
    for (const script of [SCRIPT, [say("Hello again.")]]) {
      for (const each of [expected, session]) {
        await runAgent(mode, createClerk(new World(), script), "Hello." as never, { session: each });
      }
    }
    const items = await new SavepointSession(await lab.open(), "chat-7").getItems();
    expect(items).toEqual(JSON.parse(JSON.stringify(await expected.getItems())));
    expect(items).toHaveLength(10);
    expect(await sp.search("hello again")).toMatchObject([{ source: "session", id: "chat-7" }]);
  });

  it("does the same as the SDK's session in memory, whatever is called", { timeout: 60_000 }, async (test) => {
    const item = fc.oneof(
      fc.string({ maxLength: 4 }).map(user),
      fc.constantFrom("a", "b").chain((id) => fc.constantFrom("f", "g").map((name) => callItem(id, name))),
    );
    const items = fc.array(item, { maxLength: 3 });
    const operation = fc.constantFrom("1", "2", "3");
    const step = fc.oneof(
      fc.record({
        do: fc.constant("get" as const),
        limit: fc.option(fc.integer({ min: -1, max: 4 }), { nil: undefined }),
      }),
      fc.record({ do: fc.constant("add" as const), items }),
      fc.record({ do: fc.constantFrom("pop" as const, "clear" as const) }),
      fc.record({ do: fc.constant("append" as const), operation, items }),
      fc.record({ do: fc.constant("replace" as const), operation, count: fc.nat(2), items, isWrong: fc.boolean() }),
      fc.record({
        do: fc.constant("mutate" as const),
        callId: fc.constantFrom("a", "b"),
        name: fc.constantFrom("x", "y"),
      }),
    );
    const lab = await openLab(test);
    const sp = await lab.open();
    let number = 0;
    const property = fc.asyncProperty(fc.array(step, { maxLength: 12 }), async (steps) => {
      const id = `random-${number++}`;
      const sessions = [new MemorySession(), new SavepointSession(sp, id)] as const;
      for (const each of steps) {
        const outcomes = [];
        const [stored] = sessions;
        const before = await stored.getItems();
        for (const session of sessions) {
          const outcome = await apply(session, each, before).then(
            (value) => ({ value }),
            () => "failed",
          );
          outcomes.push([outcome, await session.getItems()]);
        }
        expect(outcomes[1]).toEqual(outcomes[0]);
      }
    });
    type Step = typeof step extends fc.Arbitrary<infer Value> ? Value : never;
    async function apply(session: MemorySession | SavepointSession, each: Step, before: AgentInputItem[]) {
      switch (each.do) {
        case "get":
          return session.getItems(each.limit);
        case "add":
          return session.addItems(each.items);
        case "pop":
          return session.popItem();
        case "clear":
          return session.clearSession();
        case "append": {
          const transaction: SessionHistoryTransaction = { type: "append_items", items: each.items };
          return session.applyHistoryTransaction({ operationId: each.operation, transaction });
        }
        case "replace": {
          const suffix = each.count === 0 ? [] : before.slice(-each.count);
          const expectedSuffix = each.isWrong ? [...suffix, user("wrong")] : suffix;
          const transaction = { type: "replace_suffix", expectedSuffix, replacement: each.items } as const;
          return session.applyHistoryTransaction({ operationId: each.operation, transaction });
        }
        case "mutate": {
          const replacement = callItem(each.callId, each.name);
          return session.applyHistoryMutations({
            mutations: [{ type: "replace_function_call", callId: each.callId, replacement }],
          });
        }
      }
    }
    await fc.assert(property, { numRuns: runs(30) });
  });

  it("applies a history transaction once, in any process, and rejects another one with its id", async (test) => {
    const lab = await openLab(test);
    const append = (text: string) => ({ type: "append_items" as const, items: [user(text)] });
    for (let process = 0; process < 2; process++) {
      const session = new SavepointSession(await lab.open(), "chat-7");
      await session.applyHistoryTransaction({ operationId: "one", transaction: append("a") });
      expect(await session.getItems()).toEqual([user("a")]);
      const other = session.applyHistoryTransaction({ operationId: "one", transaction: append("b") });
      expect(await codeOf(other)).toBe("CONFLICT");
      const wrong = { type: "replace_suffix" as const, expectedSuffix: [user("x")], replacement: [] };
      expect(await codeOf(session.applyHistoryTransaction({ operationId: "two", transaction: wrong }))).toBe(
        "CONFLICT",
      );
      expect(await codeOf(session.applyHistoryTransaction({ operationId: "", transaction: wrong }))).toBe(
        "INVALID_ARGUMENT",
      );
      expect(await session.getItems()).toEqual([user("a")]);
    }
  });

  it("loses no item of processes that write at the same time", async (test) => {
    const lab = await openLab(test);
    const sessions = [];
    for (let process = 0; process < 4; process++) sessions.push(new SavepointSession(await lab.open(), "chat-7"));
    const added = sessions.flatMap((session, process) =>
      [0, 1, 2, 3, 4].map((index) => session.addItems([user(`${process}-${index}`)])),
    );
    await Promise.all(added);
    const texts = ((await sessions[0]?.getItems()) ?? []).map((item) => ("content" in item ? item.content : ""));
    const all = [0, 1, 2, 3].flatMap((at) => [0, 1, 2, 3, 4].map((index) => `${at}-${index}`));
    expect(new Set(texts)).toEqual(new Set(all));
    expect(texts).toHaveLength(all.length);
  });

  it("replaces the history by a compaction, and still has it in earlier checkpoints", async (test) => {
    const lab = await openLab(test);
    const sp = await lab.open();
    const session = new SavepointSession(sp, "chat-7");
    await session.addItems([user("one"), user("two")]);
    const compaction = { type: "compaction", encrypted_content: "…" } as unknown as AgentInputItem;
    await session.replaceHistoryWithCompaction([compaction, user("three")]);
    expect(await session.getItems()).toEqual([compaction, user("three")]);
    const history = await sp.session("chat-7").history().all();
    expect(history).toHaveLength(2);
    expect((await sp.session("chat-7").load(history[1]?.id ?? ""))?.state).toMatchObject({
      messages: [user("one"), user("two")],
    });
  });

  it("writes only what is added", async (test) => {
    const lab = await openLab(test);
    const sp = await lab.open();
    const session = new SavepointSession(sp, "chat-7");
    await session.addItems(Array.from({ length: 100 }, (_, index) => user(`${index}`.repeat(500))));
    const before = (await sp.stats()).bytes ?? 0;
    await session.addItems([user("more")]);
    expect(((await sp.stats()).bytes ?? 0) - before).toBeLessThan(2000);
  });

  it("shares its session with durable turns, and is rejected while one runs", async (test) => {
    const lab = await openLab(test);
    const sp = await lab.open();
    const session = new SavepointSession(sp, "s", { agent: "shop" });
    await session.addItems([user("Before.")]);
    const turn = await durable(sp, { session: "s", agent: "shop" });
    expect(await turn.session.getItems()).toEqual([user("Before.")]);
    expect(await codeOf(session.addItems([user("Between.")]))).not.toBe(undefined);
    const result = await run(turn.agent(createClerk(new World(), [say("Hello.")])), "Hello?", {
      session: turn.session,
    });
    await turn.complete(result);
    await session.addItems([user("After.")]);
    expect((await session.getItems()).map((item) => ("role" in item ? item.role : ""))).toEqual([
      "user",
      "user",
      "assistant",
      "user",
    ]);
    const { end } = await serve(sp, new World(), { script: [say("The end.")] });
    expect(end.output).toBe("The end.");
  });

  it("applies a history transaction once, also if durable turns come between its attempts", async (test) => {
    const lab = await openLab(test);
    const sp = await lab.open();
    const session = new SavepointSession(sp, "s", { agent: "shop" });
    const transaction = { type: "append_items" as const, items: [user("a")] };
    await session.applyHistoryTransaction({ operationId: "one", transaction });
    await serve(sp, new World(), { turn: "one", script: [say("Hello.")] });
    const turn = await durable(sp, { session: "s", agent: "shop", turn: "two" });
    await turn.fail(new Error("the model is down"));
    const before = await session.getItems();
    await session.applyHistoryTransaction({ operationId: "one", transaction });
    expect(await session.getItems()).toEqual(before);
  });

  it("reads and writes a fork", async (test) => {
    const lab = await openLab(test);
    const sp = await lab.open();
    const session = new SavepointSession(sp, "chat-7");
    await session.addItems([user("one")]);
    const head = await sp.session("chat-7").head();
    await sp.session("chat-7").fork(head?.id ?? "", { branch: "other" });
    const fork = new SavepointSession(sp, "chat-7", { branch: "other" });
    await fork.addItems([user("two")]);
    expect(await fork.getItems()).toHaveLength(2);
    expect(await session.getItems()).toHaveLength(1);
  });

  it("rejects invalid arguments and states of other programs", async (test) => {
    const lab = await openLab(test);
    const sp = await lab.open();
    expect(() => new SavepointSession({} as Savepoint, "x")).toThrow(/needs an open Savepoint/);
    const session = new SavepointSession(sp, "chat-7");
    await expect(session.addItems("x" as never)).rejects.toThrow(/needs an array of items/);
    await sp.session("chat-7").save({ mine: 1 });
    expect(await codeOf(session.getItems())).toBe("INVALID_STATE");
    expect(await codeOf(session.addItems([user("x")]))).toBe("INVALID_STATE");
  });

  it("keeps the history of an agent whose run waits for approval, as the SDK does", async (test) => {
    const lab = await openLab(test);
    const sp = await lab.open();
    const kept = [];
    for (const session of [new MemorySession(), new SavepointSession(sp, "chat-7")]) {
      const script = [call("c1", "charge", { amount: 1 }), say("Done.")];
      const clerk = createClerk(new World(), script);
      const [, charge] = clerk.tools;
      const agent: Agent = clerk.clone({ tools: [{ ...charge, needsApproval: async () => true } as never] });
      let result = await run(agent, "Charge.", { session });
      for (const item of result.interruptions) result.state.approve(item);
      result = await run(agent, result.state, { session });
      kept.push([result.finalOutput, JSON.parse(JSON.stringify(await session.getItems()))]);
    }
    expect(kept[1]).toEqual(kept[0]);
  });
});
