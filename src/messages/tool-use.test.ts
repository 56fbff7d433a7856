import { describe, expect, it } from "vitest";
import { message } from "./message.js";
import { describeToolUse } from "./tool-use.js";

const CALL = { id: "c1", name: "refund", arguments: { order: "88" } };

describe("the calls of a message are found in the form of", () => {
  const forms: Readonly<Record<string, unknown>> = {
    Savepoint: message.assistant("Let me see.", [CALL]),
    OpenAI: {
      role: "assistant",
      content: "Let me see.",
      tool_calls: [{ id: "c1", type: "function", function: { name: "refund", arguments: '{"order":"88"}' } }],
    },
    Anthropic: {
      role: "assistant",
      content: [
        { type: "text", text: "Let me see." },
        { type: "tool_use", id: "c1", name: "refund", input: { order: "88" } },
      ],
    },
    "the AI SDK": {
      role: "assistant",
      content: [
        { type: "text", text: "Let me see." },
        { type: "tool-call", toolCallId: "c1", toolName: "refund", input: { order: "88" } },
      ],
    },
    LangChain: {
      type: "constructor",
      id: ["langchain_core", "messages", "AIMessage"],
      kwargs: {
        content: "Let me see.",
        tool_calls: [{ id: "c1", name: "refund", args: { order: "88" }, type: "tool_call" }],
      },
    },
    "a line of the Claude Agent SDK": {
      type: "assistant",
      uuid: "u1",
      message: {
        role: "assistant",
        content: [
          { type: "text", text: "Let me see." },
          { type: "tool_use", id: "c1", name: "refund", input: { order: "88" } },
        ],
      },
    },
  };
  it.each(Object.keys(forms))("%s", (name) => {
    expect(describeToolUse(forms[name])).toEqual({ text: "Let me see.", calls: [CALL], results: [] });
  });

  it("UI messages of the AI SDK, with the result in the same part", () => {
    const part = {
      type: "tool-refund",
      toolCallId: "c1",
      state: "output-available",
      input: { order: "88" },
      output: "ok",
    };
    expect(describeToolUse({ role: "assistant", parts: [{ type: "text", text: "Hm." }, part] })).toEqual({
      text: "Hm.",
      calls: [{ ...CALL, status: "completed" }],
      results: [{ callId: "c1", text: "ok", path: "/parts/1/output", isError: false }],
    });
  });

  it("items of OpenAI's Responses API, and Google", () => {
    const item = { type: "function_call", call_id: "c1", name: "refund", arguments: '{"order":"88"}' };
    expect(describeToolUse(item)).toEqual({ text: "", calls: [CALL], results: [] });
    const google = { role: "model", parts: [{ functionCall: { name: "refund", args: { order: "88" } } }] };
    expect(describeToolUse(google).calls).toEqual([{ ...CALL, id: "refund" }]);
  });
});

describe("the results of a message are found in the form of", () => {
  const forms: Readonly<Record<string, readonly [message: unknown, path: string]>> = {
    Savepoint: [message.toolResult("c1", "done"), ""],
    OpenAI: [{ role: "tool", tool_call_id: "c1", content: "done" }, ""],
    Anthropic: [{ role: "user", content: [{ type: "tool_result", tool_use_id: "c1", content: "done" }] }, "/content/0"],
    "the AI SDK": [
      { role: "tool", content: [{ type: "tool-result", toolCallId: "c1", output: { type: "text", value: "done" } }] },
      "/content/0",
    ],
    "OpenAI's Responses API": [{ type: "function_call_output", call_id: "c1", output: "done" }, ""],
  };
  it.each(Object.keys(forms))("%s", (name) => {
    const [value, path] = forms[name] ?? expect.fail();
    const results = [{ callId: "c1", text: "done", path, isError: false }];
    expect(describeToolUse(value)).toEqual({ text: "", calls: [], results });
  });
});

it("a value that is not a message has neither text nor calls", () => {
  for (const value of [undefined, 7, "text", {}, [], { role: "assistant" }, { toolCalls: [CALL] }]) {
    const { text, results } = describeToolUse(value);
    expect([text, results]).toEqual(["", []]);
  }
});
