/** Tool calls that a crash has left without a result. */
import { describe, expect, it } from "vitest";
import { Savepoint } from "../../src/index.js";

type Messages = readonly object[];

/** A history of each SDK that ends with a call without a result, with its result, and without the call. */
const HISTORIES: Record<string, { before: Messages; answered: Messages; dropped: Messages }> = {
  "Savepoint's messages": {
    before: [
      { role: "user", content: "Refund" },
      {
        role: "assistant",
        content: "",
        toolCalls: [
          { id: "c1", name: "look" },
          { id: "c2", name: "pay" },
        ],
      },
      { role: "tool", toolCallId: "c1", content: "found" },
      { role: "user", content: "Hello?" },
    ],
    answered: [
      { role: "user", content: "Refund" },
      {
        role: "assistant",
        content: "",
        toolCalls: [
          { id: "c1", name: "look" },
          { id: "c2", name: "pay" },
        ],
      },
      { role: "tool", toolCallId: "c1", content: "found" },
      { role: "tool", toolCallId: "c2", content: '{"paid":true}' },
      { role: "user", content: "Hello?" },
    ],
    dropped: [
      { role: "user", content: "Refund" },
      { role: "assistant", content: "", toolCalls: [{ id: "c1", name: "look" }] },
      { role: "tool", toolCallId: "c1", content: "found" },
      { role: "user", content: "Hello?" },
    ],
  },
  "OpenAI's chat completions": {
    before: [
      { role: "assistant", content: null, tool_calls: [{ id: "c2", function: { name: "pay", arguments: "{}" } }] },
    ],
    answered: [
      { role: "assistant", content: null, tool_calls: [{ id: "c2", function: { name: "pay", arguments: "{}" } }] },
      { role: "tool", tool_call_id: "c2", content: '{"paid":true}' },
    ],
    dropped: [],
  },
  "Anthropic's messages": {
    before: [
      {
        role: "assistant",
        content: [
          { type: "text", text: "So." },
          { type: "tool_use", id: "c2", name: "pay", input: {} },
        ],
      },
    ],
    answered: [
      {
        role: "assistant",
        content: [
          { type: "text", text: "So." },
          { type: "tool_use", id: "c2", name: "pay", input: {} },
        ],
      },
      { role: "user", content: [{ type: "tool_result", tool_use_id: "c2", content: '{"paid":true}' }] },
    ],
    dropped: [{ role: "assistant", content: [{ type: "text", text: "So." }] }],
  },
  "the AI SDK's model messages": {
    before: [{ role: "assistant", content: [{ type: "tool-call", toolCallId: "c2", toolName: "pay", input: {} }] }],
    answered: [
      { role: "assistant", content: [{ type: "tool-call", toolCallId: "c2", toolName: "pay", input: {} }] },
      {
        role: "tool",
        content: [
          { type: "tool-result", toolCallId: "c2", toolName: "pay", output: { type: "json", value: { paid: true } } },
        ],
      },
    ],
    dropped: [],
  },
  "the AI SDK's UI messages": {
    before: [
      { role: "assistant", parts: [{ type: "tool-pay", toolCallId: "c2", state: "input-available", input: {} }] },
    ],
    answered: [
      {
        role: "assistant",
        parts: [{ type: "tool-pay", toolCallId: "c2", state: "output-available", input: {}, output: { paid: true } }],
      },
    ],
    dropped: [],
  },
  "OpenAI's responses": {
    before: [
      { type: "function_call", call_id: "c2", name: "pay", arguments: "{}" },
      { role: "user", content: "Hello?" },
    ],
    answered: [
      { type: "function_call", call_id: "c2", name: "pay", arguments: "{}" },
      { type: "function_call_output", call_id: "c2", output: '{"paid":true}' },
      { role: "user", content: "Hello?" },
    ],
    dropped: [{ role: "user", content: "Hello?" }],
  },
  "the OpenAI Agents SDK": {
    before: [{ type: "function_call", callId: "c2", name: "pay", arguments: "{}" }],
    answered: [
      { type: "function_call", callId: "c2", name: "pay", arguments: "{}" },
      {
        type: "function_call_result",
        callId: "c2",
        name: "pay",
        status: "completed",
        output: { type: "text", text: '{"paid":true}' },
      },
    ],
    dropped: [],
  },
};

describe.each(Object.entries(HISTORIES))("a tool call without a result in %s", (_, { before, answered, dropped }) => {
  it("is pending, can be given its result, and can be dropped", async () => {
    await using sp = await Savepoint.open("memory:");
    const session = sp.session<{ messages: Messages; other: number }>("s");
    await session.save({ messages: before, other: 1 });
    expect((await session.latest())?.pendingToolCalls).toMatchObject([{ id: "c2", name: "pay" }]);
    const side = await session.fork({ seq: 0 }, { branch: "side" });
    expect(await session.resolveToolCalls({ c2: { paid: true } })).toMatchObject({
      seq: 1,
      trigger: "resolveToolCalls",
    });
    expect(await session.latest()).toMatchObject({ state: { other: 1 }, pendingToolCalls: [] });
    expect((await session.latest())?.state.messages).toStrictEqual(answered);
    await side.resolveToolCalls("drop");
    expect((await side.latest())?.pendingToolCalls).toEqual([]);
    expect((await side.latest())?.state.messages).toStrictEqual(dropped);
    // Nothing is left to do.
    expect((await side.resolveToolCalls("drop")).id).toBe((await side.head())?.id);
  });
});

it("only pending calls can be answered, and a session without a checkpoint has none", async () => {
  await using sp = await Savepoint.open("memory:");
  const session = sp.session("s");
  await expect(session.resolveToolCalls("drop")).rejects.toMatchObject({ code: "CHECKPOINT_NOT_FOUND" });
  await session.save({ messages: [{ role: "assistant", content: "", toolCalls: [{ id: "c1", name: "pay" }] }] });
  await expect(session.resolveToolCalls({ c2: "paid" })).rejects.toThrow('no pending tool call "c2". Pending are "c1"');
  await expect(session.resolveToolCalls("remove" as "drop")).rejects.toMatchObject({ code: "INVALID_ARGUMENT" });
});
