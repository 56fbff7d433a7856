/** Every tool, through real clients of both generations. */
import { describe, expect, it } from "vitest";
import { message } from "../../src/index.js";
import { GENERATIONS } from "./clients.js";
import { useLab } from "./lab.js";

interface Listed {
  readonly id: string;
  readonly seq: number;
  readonly label?: string;
}

const READING = [
  "agent_list",
  "agent_load",
  "checkpoint_diff",
  "checkpoint_list",
  "conversation_list",
  "conversation_load",
  "conversation_search",
  "persistence_stats",
  "session_list",
  "session_resume",
  "session_search",
];
const WRITING = [
  "agent_delete",
  "agent_save",
  "checkpoint_create",
  "checkpoint_delete",
  "checkpoint_fork",
  "checkpoint_restore",
  "conversation_delete",
  "conversation_save",
  "run_answer",
  "session_save",
];

describe.each(GENERATIONS)("the tools for $name", (generation) => {
  const lab = useLab(generation);

  it("every tool is listed with its schemas and annotations", async () => {
    const client = await lab.connect();
    const tools = await client.tools();
    expect(tools.map(({ name }) => name).sort()).toEqual([...READING, ...WRITING].sort());
    for (const { name, title, description, inputSchema, outputSchema, annotations } of tools) {
      expect(title, name).toBeTruthy();
      expect(description?.length, name).toBeGreaterThan(60);
      expect(inputSchema.type, name).toBe("object");
      expect(outputSchema?.type, name).toBe("object");
      expect(annotations?.["readOnlyHint"], name).toBe(READING.includes(name));
      // Both have no meaning for a tool that only reads.
      const type = READING.includes(name) ? "undefined" : "boolean";
      expect(typeof annotations?.["destructiveHint"], name).toBe(type);
      expect(typeof annotations?.["idempotentHint"], name).toBe(type);
      if (name.endsWith("_list")) expect(Object.keys(inputSchema.properties ?? {})).toContain("cursor");
    }
    const destructive = tools.filter(({ annotations }) => annotations?.["destructiveHint"]).map(({ name }) => name);
    expect(destructive).toEqual(
      expect.arrayContaining(["agent_delete", "conversation_delete", "checkpoint_restore", "run_answer"]),
    );
    expect(destructive).not.toContain("session_save");
  });

  it("a session is saved step by step and resumed with everything that is needed to continue", async () => {
    const client = await lab.connect();
    const call = { id: "call-1", name: "refund", arguments: { order: "88" } };
    await client.call("session_save", { session: "order-88", agent: "shop", state: { messages: [], step: 0 } });
    const { checkpoint } = await client.call<{ checkpoint: Listed }>("session_save", {
      session: "order-88",
      changes: [
        { op: "add", path: "/messages/-", value: { role: "assistant", content: "", toolCalls: [call] } },
        { op: "replace", path: "/step", value: 1 },
      ],
      label: "before the refund",
      status: "waiting",
      reason: "the till is closed",
      resumeHint: "Refund order 88, then tell the customer.",
      tasksCompleted: 2,
      metadata: { who: "me" },
      pinned: true,
    });
    const resumed = await client.call("session_resume", { session: "order-88" });
    expect(resumed).toMatchObject({
      session: "order-88",
      agent: "shop",
      status: "waiting",
      reason: "the till is closed",
      step: 1,
      label: "before the refund",
      resumeHint: "Refund order 88, then tell the customer.",
      checkpoint: { id: checkpoint.id, pinned: true, tasksCompleted: 2, metadata: { who: "me" } },
      state: { step: 1, messages: [{ toolCalls: [call] }] },
      pendingToolCalls: [call],
      questions: [],
      skipped: [],
      branches: ["main"],
    });
    // Without `session`, the session that was saved last.
    expect(await client.call("session_resume")).toEqual(resumed);
    for (const ref of [{ seq: 0 }, { step: 0 }, "order-88#0"]) {
      const { state } = await client.call("session_resume", { session: "order-88", checkpoint: ref });
      expect(state).toEqual({ messages: [], step: 0 });
    }
    const { label } = await client.call("session_resume", {
      session: "order-88",
      checkpoint: { label: "before the refund" },
    });
    expect(label).toBe("before the refund");
  });

  it("session_resume shows the questions that a run of a program waits for", async () => {
    const sp = await lab.open();
    const { defineAgent } = await import("../../src/index.js");
    const asker = defineAgent({
      name: "asker",
      initial: () => ({ answer: "" }),
      async step(run) {
        run.state.answer = await run.ask<string>("Shall I?");
        return run.complete(run.state.answer);
      },
    });
    await sp.run(asker, { session: "s", input: undefined });
    const client = await lab.connect();
    const { status, questions } = await client.call("session_resume", { session: "s" });
    expect(status).toBe("waiting");
    expect(questions).toMatchObject([{ kind: "ask", text: "Shall I?" }]);
  });

  it("session_save with `after` rejects a save on top of a newer checkpoint", async () => {
    const client = await lab.connect();
    const first = await client.call<{ checkpoint: Listed }>("session_save", { session: "s", state: 1 });
    await client.call("session_save", { session: "s", state: 2, after: first.checkpoint.id });
    const { code, text } = await client.fail("session_save", { session: "s", state: 3, after: first.checkpoint.id });
    expect(code).toBe("CONFLICT");
    expect(text).toContain("session_resume");
    expect((await client.call("session_resume", { session: "s" })).state).toBe(2);
  });

  it("two checkpoints can be compared, and a branch starts from one of them", async () => {
    const client = await lab.connect();
    await client.call("session_save", { session: "s", state: { city: "Lisbon", days: [1] } });
    await client.call("session_save", { session: "s", state: { city: "Porto", days: [1, 2] } });
    const { changes, changeCount } = await client.call("checkpoint_diff", { session: "s", from: { seq: 0 } });
    expect(changeCount).toBe(2);
    expect(changes).toEqual([
      { op: "replace", path: "/city", before: "Lisbon", value: "Porto" },
      { op: "add", path: "/days/1", value: 2 },
    ]);
    const plain = await client.call("checkpoint_fork", { session: "s", checkpoint: { seq: 0 }, branch: "again" });
    expect(plain).toMatchObject({ session: "s", branch: "again", checkpoint: { seq: 0 } });
    const edited = await client.call<{ branch: string }>("checkpoint_fork", {
      session: "s",
      checkpoint: { seq: 0 },
      changes: [{ op: "replace", path: "/city", value: "Faro" }],
      label: "what if",
    });
    const { branch } = edited;
    expect(await client.call("session_resume", { session: "s", branch })).toMatchObject({
      state: { city: "Faro", days: [1] },
      label: "what if",
    });
    const given = await client.call<{ branch: string }>("checkpoint_fork", {
      session: "s",
      checkpoint: { seq: 1 },
      state: 7,
    });
    await client.call("session_save", { session: "s", branch: given.branch, state: 8 });
    expect((await client.call("session_resume", { session: "s", branch: given.branch })).state).toBe(8);
    expect((await client.call("session_resume", { session: "s" })).state).toEqual({ city: "Porto", days: [1, 2] });
  });

  it("checkpoint_restore restores a session after a dry run and can be undone", async () => {
    const client = await lab.connect();
    for (const state of [{ n: 1 }, { n: 2 }]) await client.call("session_save", { session: "s", state });
    const plan = await client.call("checkpoint_restore", { id: "s#0", dryRun: true });
    expect(plan).toMatchObject({
      dryRun: true,
      session: "s",
      changeCount: 1,
      changes: [{ path: "/n", before: 2, value: 1 }],
    });
    expect((await client.call("session_resume", { session: "s" })).state).toEqual({ n: 2 });
    const { before } = await client.call<{ before: Listed }>("checkpoint_restore", { id: "s#0" });
    expect((await client.call("session_resume", { session: "s" })).state).toEqual({ n: 1 });
    await client.call("checkpoint_restore", { id: before.id });
    expect((await client.call("session_resume", { session: "s" })).state).toEqual({ n: 2 });
  });

  it("agent_save changes single fields and checks the expected version", async () => {
    const client = await lab.connect();
    await client.call("agent_save", {
      id: "a",
      systemPrompt: "Be kind.",
      type: "gpt",
      config: { t: 1 },
      capabilities: ["x"],
    });
    const { agent } = await client.call("agent_save", { id: "a", state: { solved: 1 }, type: null });
    expect(agent).toMatchObject({ id: "a", name: "a", version: 2, capabilities: ["x"] });
    expect(agent).not.toHaveProperty("type");
    const loaded = await client.call("agent_load", { id: "a" });
    expect(loaded["content"]).toEqual({ systemPrompt: "Be kind.", config: { t: 1 }, state: { solved: 1 } });
    expect((await client.fail("agent_save", { id: "a", expectedVersion: 1, name: "b" })).code).toBe("CONFLICT");
    expect((await client.fail("agent_save", { id: "a", expectedVersion: 0, name: "b" })).code).toBe("CONFLICT");
    expect((await client.fail("agent_save", { id: "b", expectedVersion: 3, name: "b" })).code).toMatch(
      /CONFLICT|AGENT_NOT_FOUND/,
    );
    await client.call("agent_save", { id: "a", expectedVersion: 2, name: "A" });
    await client.call("agent_save", { id: "b", expectedVersion: 0 });
    const { agents } = await client.call("agent_list");
    expect(agents).toMatchObject([{ id: "a", name: "A", version: 3 }, { id: "b" }]);
  });

  it("conversation_save appends, replaces and changes fields", async () => {
    const client = await lab.connect();
    const made = await client.call("conversation_save", { messages: [message.user("Where is my order?")], agent: "a" });
    const { conversation, created } = made as { conversation: { id: string }; created: boolean };
    const { id } = conversation;
    expect(created).toBe(true);
    expect(conversation).toMatchObject({ title: "Where is my order?", agent: "a", messageCount: 1 });
    await client.call("conversation_save", { id, messages: [message.assistant("On its way.")], tags: ["orders"] });
    await client.call("conversation_save", { id, title: "Order 88", metadata: { n: 1 }, archived: true });
    const loaded = await client.call<{ messages: { message: unknown; index: number }[] }>("conversation_load", { id });
    expect(loaded.messages.map(({ message: said }) => said)).toEqual([
      message.user("Where is my order?"),
      message.assistant("On its way."),
    ]);
    expect(loaded).toMatchObject({
      conversation: { title: "Order 88", tags: ["orders"], archived: true, metadata: { n: 1 }, messageCount: 2 },
      first: 0,
    });
    expect(
      await client.fail("conversation_save", { id, mode: "replace", messages: [], expectedMessages: 1 }),
    ).toMatchObject({
      code: "CONFLICT",
    });
    await client.call("conversation_save", {
      id,
      mode: "replace",
      messages: [message.user("Anew")],
      expectedMessages: 2,
    });
    const anew = await client.call<{ messages: unknown[] }>("conversation_load", { id });
    expect(anew.messages).toMatchObject([{ index: 0, role: "user", message: message.user("Anew") }]);
    expect(anew).toMatchObject({ conversation: { title: "Order 88", tags: ["orders"], archived: true, agent: "a" } });
    expect((await client.call("conversation_save", { id: "own", messages: [] }))["created"]).toBe(true);
    const { conversations } = await client.call<{ conversations: Listed[] }>("conversation_list", { archived: false });
    expect(conversations.map((each) => each.id)).toEqual(["own"]);
  });

  it("a conversation is shown as of a checkpoint of its agent and can be restored", async () => {
    const client = await lab.connect();
    await client.call("agent_save", { id: "a" });
    await client.call("conversation_save", { id: "c", agent: "a", messages: [message.user("one")] });
    const { checkpoint } = await client.call<{ checkpoint: Listed }>("checkpoint_create", {
      agent: "a",
      label: "then",
    });
    await client.call("conversation_save", { id: "c", messages: [message.user("two")] });
    await client.call("conversation_save", { id: "newer", agent: "a" });
    const then = await client.call<{ messages: unknown[] }>("conversation_load", { id: "c", at: checkpoint.id });
    expect(then.messages).toHaveLength(1);
    const plan = await client.call("checkpoint_restore", { id: checkpoint.id, dryRun: true });
    expect(plan).toMatchObject({
      agent: "a",
      removed: ["newer"],
      restored: [{ id: "c", messagesBefore: 2, messagesAfter: 1 }],
    });
    await client.call("checkpoint_restore", { id: checkpoint.id });
    expect((await client.call<{ messages: unknown[] }>("conversation_load", { id: "c" })).messages).toHaveLength(1);
    const { conversations } = await client.call<{ conversations: Listed[] }>("conversation_list", {});
    expect(conversations.map(({ id }) => id)).toEqual(["c"]);
  });

  it("many concurrent calls are answered, and nothing they save is lost", async () => {
    const client = await lab.connect();
    const numbers = Array.from({ length: 40 }, (_, n) => n);
    await client.call("conversation_save", { id: "c" });
    await Promise.all(
      numbers.flatMap((n) => [
        client.call("session_save", { session: "s", state: { n } }),
        client.call("conversation_save", { id: "c", messages: [message.user(`m${n}`)] }),
        client.call("session_resume", { session: "s" }).catch(() => undefined),
      ]),
    );
    const { checkpoints } = await client.call<{ checkpoints: Listed[] }>("checkpoint_list", {
      session: "s",
      limit: 200,
    });
    expect(checkpoints.map(({ seq }) => seq)).toEqual(numbers.slice().reverse());
    const { messages } = await client.call<{ messages: { message: { content: string } }[] }>("conversation_load", {
      id: "c",
      limit: 200,
    });
    expect(new Set(messages.map((each) => each.message.content))).toEqual(new Set(numbers.map((n) => `m${n}`)));
  });
});
