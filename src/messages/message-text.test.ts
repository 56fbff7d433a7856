import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { message } from "./message.js";
import { describeMessage, findMessages, findSubagentMessages } from "./message-text.js";
import { runs } from "../../test/support/runs.js";

const DATA_URL = "data:image/png;base64,AAAA";

/** The role and the text of a message. */
function roleAndText(value: unknown): [string, string] | undefined {
  const description = describeMessage(value);
  return description && [description.role, description.text];
}

describe("lines of the Claude Agent SDK", () => {
  const line = (message: object, more: object = {}): object => ({ type: "user", uuid: "u1", message, ...more });

  it("have their message one level down, and their own id and time", () => {
    const timestamp = "2026-11-17T00:00:00.000Z";
    const message = { id: "msg_1", role: "assistant", content: [{ type: "text", text: "Refunded." }] };
    expect(describeMessage(line(message, { type: "assistant", timestamp }))).toEqual({
      role: "assistant",
      text: "Refunded.",
      id: "u1",
      timestamp: Date.parse(timestamp),
    });
    const results = [{ type: "tool_result", tool_use_id: "t1", content: "done" }];
    expect(roleAndText(line({ role: "user", content: results }))).toEqual(["tool", "done"]);
  });

  it("are not messages if they contain none", () => {
    for (const other of [{ type: "tag", tag: "a" }, { type: "user", message: "text" }, line({ content: "x" })])
      expect(describeMessage(other)).toBeUndefined();
  });

  it("are found in the transcripts of subagents", () => {
    const found = findSubagentMessages({
      subagents: { "a/b": [line({ role: "user", content: "x" }), { type: "tag" }], c: 1 },
    });
    expect(found).toEqual([{ index: 0, path: "/subagents/a~1b/0", message: line({ role: "user", content: "x" }) }]);
    for (const none of [undefined, [], {}, { subagents: [] }, { subagents: "x" }])
      expect(findSubagentMessages(none)).toEqual([]);
  });
});

describe("messages of Savepoint", () => {
  it("have their content as text", () => {
    expect(describeMessage(message.user("Hello"))).toEqual({
      role: "user",
      text: "Hello",
      id: undefined,
      timestamp: undefined,
    });
    expect(roleAndText(message.system("Be kind"))).toEqual(["system", "Be kind"]);
    expect(roleAndText(message.toolResult("c1", { hits: 2 }))).toEqual(["tool", '{"hits":2}']);
  });

  it("have their tool calls and attachments in their text", () => {
    const calls = [
      { id: "c1", name: "search", arguments: { q: "x" } },
      { id: "c2", name: "now" },
    ];
    expect(roleAndText(message.assistant("Let me see", calls))).toEqual([
      "assistant",
      'Let me see\nsearch({"q":"x"})\nnow()',
    ]);
    expect(roleAndText(message.assistant("", calls))?.[1]).toBe('search({"q":"x"})\nnow()');
    const attachments = [{ name: "cat.png", data: "AAAA" }, "notes.pdf", "iVBORw0KGgo", DATA_URL, "https://x.test/a"];
    expect(roleAndText({ role: "user", content: "See", attachments })?.[1]).toBe(
      "See\ncat.png\nnotes.pdf\nhttps://x.test/a",
    );
  });

  it("may use other names of roles", () => {
    const roles = ["human", "User", "ai", "model", "ASSISTANT", "developer", "function", "tool", "toolResult"];
    expect(roles.map((role) => describeMessage({ role, content: "x" })?.role)).toEqual([
      "user",
      "user",
      "assistant",
      "assistant",
      "assistant",
      "system",
      "tool",
      "tool",
      "tool",
    ]);
  });

  it("have an id and a timestamp, in any common field", () => {
    const at = Date.UTC(2026, 0, 2, 3, 4, 5);
    const times = [
      { timestamp: at },
      { timestamp: at / 1000 },
      { createdAt: new Date(at) },
      { created_at: "2026-01-02T03:04:05Z" },
      { date: "2026-01-02T03:04:05.000Z" },
      { metadata: { createdAt: at } },
    ];
    for (const time of times) {
      expect(describeMessage({ role: "user", content: "x", id: "m1", ...time })).toMatchObject({
        id: "m1",
        timestamp: at,
      });
    }
    for (const timestamp of [Number.NaN, 1e300, "yesterday", "2026-99-99", new Date(Number.NaN), {}, true, null]) {
      expect(describeMessage({ role: "user", content: "x", id: "", timestamp })).toMatchObject({
        id: undefined,
        timestamp: undefined,
      });
    }
  });
});

describe("a value that is not a message", () => {
  it("has no known role or no content", () => {
    const values = [
      undefined,
      null,
      1,
      "user",
      [],
      {},
      new Map(),
      { role: "user" },
      { role: "user", content: null },
      { role: "user", content: 5 },
      { role: "king", content: "x" },
      { content: "x" },
      { type: "text", text: "x" },
      { role: "assistant", content: null, tool_calls: [] },
      { type: "function_call" },
      { type: "human" },

      { lc: 1, type: "constructor", id: ["langchain_core", "prompts", "PromptTemplate"], kwargs: { content: "x" } },

      { type: "remove", data: { id: "x", content: [] } },
      { type: "system", subtype: "init" },
    ];
    expect(values.filter((value) => describeMessage(value) !== undefined)).toEqual([]);
  });

  it("is distinguished from an empty message", () => {
    for (const value of [{ content: "" }, { content: [] }, { parts: [] }]) {
      expect(roleAndText({ role: "assistant", ...value })).toEqual(["assistant", ""]);
    }
  });
});

describe("messages of OpenAI", () => {
  it("are described in the form of chat completions", () => {
    const tool_calls = [
      { id: "c1", type: "function", function: { name: "search", arguments: '{"q": "a  \\"b"}' } },
      { id: "c2", type: "custom", custom: { name: "run", input: "ls  -l" } },
    ];
    expect(roleAndText({ role: "assistant", content: null, refusal: null, tool_calls })).toEqual([
      "assistant",
      'search({"q":"a  \\"b"})\nrun(ls  -l)',
    ]);
    expect(roleAndText({ role: "tool", tool_call_id: "c1", content: "found" })).toEqual(["tool", "found"]);
    expect(roleAndText({ role: "assistant", content: null, refusal: "No." })).toEqual(["assistant", "No."]);
    expect(roleAndText({ role: "assistant", content: [{ type: "refusal", refusal: "No." }] })).toEqual([
      "assistant",
      "No.",
    ]);
    expect(roleAndText({ role: "assistant", content: null, function_call: { name: "f", arguments: "{}" } })?.[1]).toBe(
      "f({})",
    );
    const content = [
      { type: "text", text: "What is this?" },
      { type: "image_url", image_url: { url: "https://x.test/cat.png" } },
      { type: "image_url", image_url: { url: DATA_URL } },
      { type: "input_audio", input_audio: { data: "AAAA", format: "wav" } },
      { type: "file", file: { filename: "a.pdf", file_data: "data:application/pdf;base64,AAAA" } },
    ];
    expect(roleAndText({ role: "user", content })).toEqual(["user", "What is this?\nhttps://x.test/cat.png\na.pdf"]);
  });

  it("are described in the form of the Responses API", () => {
    const items = [
      { type: "message", role: "user", content: [{ type: "input_text", text: "hi" }] },
      { id: "rs_1", type: "reasoning", summary: [{ type: "summary_text", text: "think" }], encrypted_content: "AAAA" },
      { id: "fc_1", type: "function_call", call_id: "c1", name: "search", arguments: '{"q":"x"}', status: "completed" },
      { type: "function_call_output", call_id: "c1", output: '{"hits":["a"]}' },
      { type: "function_call_output", call_id: "c1", output: [{ type: "input_text", text: "a" }] },
      { id: "ws_1", type: "web_search_call", status: "completed", action: { type: "search", query: "x" } },
      { type: "computer_call_output", call_id: "c2", output: { type: "computer_screenshot", image_url: DATA_URL } },
      {
        id: "msg_1",
        type: "message",
        role: "assistant",
        content: [{ type: "output_text", text: "Found", annotations: [] }],
      },
    ];
    expect(items.map(roleAndText)).toEqual([
      ["user", "hi"],
      ["assistant", "think"],
      ["assistant", 'search({"q":"x"})'],
      ["tool", '{"hits":["a"]}'],
      ["tool", "a"],
      ["assistant", 'web_search({"type":"search","query":"x"})'],
      ["tool", ""],
      ["assistant", "Found"],
    ]);
    expect(items.map((item) => describeMessage(item)?.id)).toEqual([
      undefined,
      "rs_1",
      "fc_1",
      undefined,
      undefined,
      "ws_1",
      undefined,
      "msg_1",
    ]);
  });

  it("are described in the form of the agents SDK", () => {
    const history = [
      { type: "message", role: "system", content: "be kind" },
      {
        type: "reasoning",
        id: "rs_1",
        content: [{ type: "input_text", text: "think" }],
        rawContent: [{ type: "reasoning_text", text: "raw" }],
      },
      { type: "function_call", id: "fc_1", callId: "c1", name: "search", arguments: '{"q":"x"}', status: "completed" },
      {
        type: "function_call_result",
        name: "search",
        callId: "c1",
        status: "completed",
        output: { type: "text", text: '{"hits":["a"]}' },
      },
    ];
    expect(history.map(roleAndText)).toEqual([
      ["system", "be kind"],
      ["assistant", "think\nraw"],
      ["assistant", 'search({"q":"x"})'],
      ["tool", '{"hits":["a"]}'],
    ]);
  });
});

describe("messages of Anthropic", () => {
  it("have the text of all their blocks", () => {
    const content = [
      { type: "thinking", thinking: "Hm.", signature: "AAAA" },
      { type: "redacted_thinking", data: "AAAA" },
      { type: "text", text: "Let me see.", citations: null },
      { type: "tool_use", id: "toolu_1", name: "search", input: { q: "x" } },
      { type: "server_tool_use", id: "srvtoolu_1", name: "web_search", input: { query: "y" } },
      {
        type: "web_search_tool_result",
        tool_use_id: "srvtoolu_1",
        content: [{ type: "web_search_result", title: "A page", url: "https://x.test/a", encrypted_content: "AAAA" }],
      },
    ];
    const answer = {
      id: "msg_1",
      type: "message",
      role: "assistant",
      model: "claude",
      content,
      stop_reason: "tool_use",
    };
    expect(describeMessage(answer)).toMatchObject({ id: "msg_1", role: "assistant" });
    expect(roleAndText(answer)?.[1]).toBe(
      'Hm.\nLet me see.\nsearch({"q":"x"})\nweb_search({"query":"y"})\nA page\nhttps://x.test/a',
    );
  });

  it("have the role tool if they contain only tool results", () => {
    const image = { type: "image", source: { type: "base64", media_type: "image/png", data: "AAAA" } };
    const results = [
      { type: "tool_result", tool_use_id: "toolu_1", content: "found" },
      { type: "tool_result", tool_use_id: "toolu_2", content: [{ type: "text", text: "a cat" }, image] },
      { type: "tool_result", tool_use_id: "toolu_3", content: { type: "code_execution_result", stdout: "1" } },
      { type: "tool_result", tool_use_id: "toolu_4" },
    ];
    const text = 'found\na cat\n{"type":"code_execution_result","stdout":"1"}';
    expect(roleAndText({ role: "user", content: results })).toEqual(["tool", text]);
    expect(roleAndText({ role: "user", content: [results[0], { type: "text", text: "Go on" }] })).toEqual([
      "user",
      "found\nGo on",
    ]);
  });

  it("show the names of documents and the URLs of images", () => {
    const content = [
      { type: "document", title: "Report", source: { type: "base64", media_type: "application/pdf", data: "AAAA" } },
      { type: "image", source: { type: "url", url: "https://x.test/cat.png" } },
    ];
    expect(roleAndText({ role: "user", content })?.[1]).toBe("Report\nhttps://x.test/cat.png");
  });
});

describe("messages of the AI SDK", () => {
  it("are described in the form for models", () => {
    const messages = [
      {
        role: "user",
        content: [
          { type: "text", text: "See" },
          { type: "file", mediaType: "image/png", filename: "cat.png", data: DATA_URL },
          { type: "image", image: new URL("https://x.test/dog.png") },
          { type: "image", image: new Uint8Array([1, 2, 3]) },
        ],
      },
      {
        role: "assistant",
        content: [
          { type: "reasoning", text: "I should search." },
          { type: "text", text: "Let me look." },
          { type: "tool-call", toolCallId: "c1", toolName: "search", input: { q: "x" } },
        ],
      },
      {
        role: "tool",
        content: [
          { type: "tool-result", toolCallId: "c1", toolName: "a", output: { type: "json", value: { hits: ["a"] } } },
          { type: "tool-result", toolCallId: "c2", toolName: "b", output: { type: "error-text", value: "boom" } },
          { type: "tool-result", toolCallId: "c3", toolName: "c", output: { type: "execution-denied", reason: "No" } },
          {
            type: "tool-result",
            toolCallId: "c4",
            toolName: "d",
            output: {
              type: "content",
              value: [
                { type: "text", text: "a cat" },
                { type: "file-data", data: "AAAA", mediaType: "image/png", filename: "b.png" },
              ],
            },
          },
        ],
      },
    ];
    expect(messages.map(roleAndText)).toEqual([
      ["user", "See\ncat.png\nhttps://x.test/dog.png"],
      ["assistant", 'I should search.\nLet me look.\nsearch({"q":"x"})'],
      ["tool", '{"hits":["a"]}\nboom\nNo\na cat\nb.png'],
    ]);
  });

  it("are described in the form for user interfaces", () => {
    const uiMessage = {
      id: "m1",
      role: "assistant",
      parts: [
        { type: "step-start" },
        { type: "reasoning", id: "r", text: "I should search.", state: "done" },
        {
          type: "tool-search",
          toolCallId: "c1",
          state: "output-available",
          input: { q: "x" },
          output: { hits: ["a"] },
        },
        {
          type: "dynamic-tool",
          toolName: "fail",
          toolCallId: "c2",
          state: "output-error",
          input: {},
          errorText: "An error occurred.",
        },
        { type: "text", text: "Found it.", state: "done" },
        { type: "source-url", sourceId: "s", url: "https://x.test/a", title: "A page" },
        { type: "file", mediaType: "image/png", url: DATA_URL },
        { type: "data-weather", data: { name: "x" } },
      ],
    };
    expect(describeMessage(uiMessage)).toEqual({
      role: "assistant",
      text: 'I should search.\nsearch({"q":"x"})\n{"hits":["a"]}\nfail({})\nAn error occurred.\nFound it.\nA page\nhttps://x.test/a',
      id: "m1",
      timestamp: undefined,
    });
  });

  it("of version 4 do not repeat their text", () => {
    const toolInvocation = { state: "result", toolCallId: "c1", toolName: "search", args: { q: "x" }, result: ["a"] };
    const parts = [
      { type: "text", text: "Found it." },
      { type: "tool-invocation", toolInvocation },
    ];
    expect(roleAndText({ role: "assistant", content: "Found it.", parts })?.[1]).toBe(
      'Found it.\nsearch({"q":"x"})\n["a"]',
    );
  });

  it("show the text parts of the result of an MCP server", () => {
    const output = {
      content: [
        { type: "text", text: "sunny" },
        { type: "image", data: "AAAA", mimeType: "image/png" },
      ],
      isError: false,
    };
    const part = { type: "tool-weather", toolCallId: "c1", state: "output-available", input: {}, output };
    expect(roleAndText({ id: "m", role: "assistant", parts: [part] })?.[1]).toBe("weather({})\nsunny");
  });
});

describe("messages of LangChain", () => {
  const kwargs = { additional_kwargs: {}, response_metadata: {} };
  const call = { name: "search", args: { q: "x" }, id: "c1", type: "tool_call" };
  const block = { type: "tool_use", id: "c1", name: "search", input: { q: "x" } };
  const bodies: [name: string, type: string, body: Record<string, unknown>, role: string, text: string][] = [
    ["HumanMessage", "human", { content: "Hi", id: "h1", ...kwargs }, "user", "Hi"],
    ["AIMessage", "ai", { content: "", tool_calls: [call], ...kwargs }, "assistant", 'search({"q":"x"})'],
    [
      ...(["AIMessage", "ai"] as const),
      { content: [{ type: "text", text: "Looking" }, block], tool_calls: [call], invalid_tool_calls: [], ...kwargs },
      ...(["assistant", 'Looking\nsearch({"q":"x"})'] as const),
    ],
    [
      ...(["AIMessage", "ai"] as const),
      {
        content: "",
        additional_kwargs: {
          tool_calls: [{ id: "c1", type: "function", function: { name: "search", arguments: '{"q":"x"}' } }],
          reasoning_content: "hm",
        },
      },
      ...(["assistant", 'hm\nsearch({"q":"x"})'] as const),
    ],
    [
      ...(["AIMessage", "ai"] as const),
      {
        content_blocks: [{ type: "reasoning", reasoning: "think" }, { type: "text", text: "t" }, call],
        tool_calls: [call],
        ...kwargs,
      },
      ...(["assistant", 'think\nt\nsearch({"q":"x"})'] as const),
    ],
    ["AIMessageChunk", "ai", { content: "part", tool_call_chunks: [], ...kwargs }, "assistant", "part"],
    ["SystemMessage", "system", { content: "Be kind", ...kwargs }, "system", "Be kind"],
    ["ToolMessage", "tool", { content: "found", tool_call_id: "c1", name: "search", ...kwargs }, "tool", "found"],
    ["FunctionMessage", "function", { content: "42", name: "f", ...kwargs }, "tool", "42"],
    ["ChatMessage", "generic", { content: "hello", role: "assistant", ...kwargs }, "assistant", "hello"],
    ["ChatMessage", "generic", { content: "hello", role: "critic", ...kwargs }, "user", "hello"],
  ];

  it.each(bodies)("are described in every form: %s (%s)", (name, type, body, role, text) => {
    const serialised = { lc: 1, type: "constructor", id: ["langchain_core", "messages", name], kwargs: body };
    const forms = [
      serialised,
      { type, data: body },
      { ...body, getType: () => type },
      { ...body, _getType: () => type },
    ];
    for (const form of forms) {
      expect(describeMessage(form)).toMatchObject({ role, text, id: body["id"] });
    }
  });

  it("are described in the form of the LangGraph server", () => {
    expect(describeMessage({ type: "human", id: "h1", content: "Hi", ...kwargs })).toMatchObject({
      role: "user",
      id: "h1",
    });
  });

  it("do not include objects whose getType throws", () => {
    const getType = (): never => {
      throw new Error("no");
    };
    expect(describeMessage({ getType, content: "x" })).toBeUndefined();
  });
});

describe("messages of Google", () => {
  it("have the text of all their parts", () => {
    const contents = [
      {
        role: "user",
        parts: [
          { text: "Look" },
          { fileData: { fileUri: "https://x.test/a.pdf", mimeType: "application/pdf" } },
          { inlineData: { data: "AAAA", mimeType: "image/png" } },
        ],
      },
      {
        role: "model",
        parts: [
          { text: "ok" },
          { functionCall: { name: "search", args: { q: "x" } } },
          { executableCode: { code: "print(1)", language: "PYTHON" } },
          { codeExecutionResult: { outcome: "OUTCOME_OK", output: "1" } },
        ],
      },
      { role: "user", parts: [{ functionResponse: { id: "c1", name: "search", response: { hits: ["a"] } } }] },
    ];
    expect(contents.map(roleAndText)).toEqual([
      ["user", "Look\nhttps://x.test/a.pdf"],
      ["assistant", 'ok\nsearch({"q":"x"})\nprint(1)\n1'],
      ["tool", '{"hits":["a"]}'],
    ]);
  });
});

describe("the JSON of a tool call", () => {
  function json(value: unknown): string | undefined {
    return roleAndText({
      role: "assistant",
      content: "",
      toolCalls: [{ id: "c", name: "f", arguments: value }],
    })?.[1]?.slice(2, -1);
  }

  it("equals the result of JSON.stringify for JSON values", () => {
    const isObject = (value: unknown): boolean => typeof value === "object" && value !== null;
    fc.assert(
      fc.property(fc.jsonValue().filter(isObject), (value) => {
        expect(json(value)).toBe(JSON.stringify(value));
      }),
    );
  });

  it("has a readable form for values that JSON does not support", () => {
    const cycle: Record<string, unknown> = { a: 1 };
    cycle["self"] = cycle;
    expect(json(cycle)).toBe('{"a":1,"self":"[circular]"}');
    expect(json({ big: 10n, not: Number.NaN, none: undefined, list: [undefined] })).toBe(
      '{"big":10,"not":null,"list":[null]}',
    );
    expect(
      json(
        new Map<unknown, unknown>([
          ["a", new Set([1])],
          [{}, 2],
        ]),
      ),
    ).toBe('{"a":[1],"[object]":2}');
    expect(json({ at: new Date(0), url: new URL("https://x.test/"), error: new Error("boom") })).toBe(
      '{"at":"1970-01-01T00:00:00.000Z","url":"https://x.test/","error":"boom"}',
    );
  });

  it("contains no binary data", () => {
    const bytes = Buffer.from([1, 2, 3]);
    expect(json([bytes, bytes.buffer.slice(0, 2), JSON.parse(JSON.stringify(bytes)), new Blob(["a"])])).toBe(
      '["[3 bytes]","[2 bytes]","[3 bytes]","[1 bytes]"]',
    );
    expect(json({ image: DATA_URL, file: { data: "AAAA", mimeType: "image/png" } })).toBe(
      '{"image":"[image/png]","file":{"data":"[image/png]","mimeType":"image/png"}}',
    );
  });

  it("is cut at 10,000 characters", () => {
    for (const value of [{ a: "x".repeat(20_000) }, "x".repeat(20_000), Array.from({ length: 9000 }, () => ["😀"])]) {
      const text = json(value);
      expect(text?.length).toBeLessThanOrEqual(10_000);
      expect(text?.length).toBeGreaterThan(9_990);
      expect(text).toMatch(/…$/);
    }
  });
});

describe("findMessages", () => {
  const hello = message.user("Hello");

  it("finds messages under common keys or in a state that is an array", () => {
    for (const key of ["messages", "history", "chat_history", "chatHistory", "conversation"]) {
      expect(findMessages({ [key]: [hello] })).toEqual([{ index: 0, path: `/${key}/0`, message: hello }]);
      expect(findMessages({ [key]: { messages: [hello] } })[0]?.path).toBe(`/${key}/messages/0`);
    }
    expect(findMessages([hello])).toEqual([{ index: 0, path: "/0", message: hello }]);
  });

  it("omits elements that are not messages and keeps the indexes of the others", () => {
    expect(findMessages({ messages: [null, hello, "x", hello] }).map(({ path }) => path)).toEqual([
      "/messages/1",
      "/messages/3",
    ]);
  });

  it("uses the first key that has messages", () => {
    const state = { messages: [], history: [1, 2], chatHistory: [hello], conversation: [hello, hello] };
    expect(findMessages(state)).toEqual([{ index: 0, path: "/chatHistory/0", message: hello }]);
    expect(findMessages({ other: [hello] })).toEqual([]);
  });
});

describe("describeMessage and findMessages", () => {
  /** Objects that look like messages, with anything in them. */
  const nearly = fc.letrec((tie) => ({
    value: fc.oneof(
      { maxDepth: 4 },
      fc.anything({ withBigInt: true, withMap: true, withTypedArray: true }),
      tie("part"),
    ),
    part: fc.dictionary(
      fc.constantFrom(
        "role",
        "type",
        "content",
        "parts",
        "text",
        "tool_calls",
        "toolCalls",
        "input",
        "output",
        "value",
        "name",
        "data",
        "kwargs",
        "id",
        "source",
        "image_url",
        "functionCall",
        "functionResponse",
        "getType",
        "timestamp",
        "messages",
        "history",
        "file",
        "result",
        "summary",
        "attachments",
        "additional_kwargs",
        "action",
      ),
      fc.oneof(
        fc.constantFrom("user", "ai", "tool", "text", "tool_use", "tool_result", "tool-result", "reasoning", "tool-x"),
        fc.constantFrom("file", "function_call", "function_call_output", "constructor", "human", "message", "content"),
        fc.array(tie("value"), { maxLength: 3 }),
        tie("value"),
      ),
    ),
  }));

  it("never throw for any value", () => {
    const anything = fc.anything({
      withBigInt: true,
      withDate: true,
      withMap: true,
      withSet: true,
      withTypedArray: true,
    });
    fc.assert(
      fc.property(fc.oneof(anything, nearly.part), (value) => {
        const description = describeMessage(value);
        if (description !== undefined) expect(typeof description.text).toBe("string");
        expect(findMessages(value)).toBeInstanceOf(Array);
        expect(findMessages({ messages: [value] })).toHaveLength(description === undefined ? 0 : 1);
      }),
      { numRuns: runs(2000) },
    );
  });

  it("terminate for cyclic values", () => {
    const content: unknown[] = [];
    const result = { type: "tool_result", content };
    const mcp = { content };
    for (let i = 0; i < 100; i++) content.push(result, content, { type: "tool-x", state: "y", output: mcp });
    expect(describeMessage({ role: "user", content })?.role).toBe("user");
    const self: Record<string, unknown> = { role: "user", type: "tool_result" };
    self["content"] = self;
    self["output"] = self;
    self["messages"] = self;
    expect(describeMessage(self)?.role).toBe("user");
    expect(findMessages(self)).toEqual([]);
    const deep = Array.from({ length: 50_000 }).reduce<unknown>(
      (inner) => ({ type: "tool_result", content: [inner] }),
      1,
    );
    expect(describeMessage({ role: "tool", content: [deep] })?.role).toBe("tool");
  });
});
