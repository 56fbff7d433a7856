import { describe, expect, it } from "vitest";
import { message } from "../../src/index.js";
import { STORES, useData } from "../model/stores.js";

/** Messages as SDKs create them, with their keys in the order of those SDKs. */
const NATIVE: readonly [string, readonly object[]][] = [
  [
    "OpenAI chat completions",
    [
      { role: "developer", content: "Be brief.", name: "ops" },
      {
        role: "user",
        content: [
          { type: "text", text: "What is it?" },
          { type: "image_url", image_url: { url: "https://x.org/a.png", detail: "low" } },
        ],
      },
      {
        role: "assistant",
        content: null,
        refusal: null,
        tool_calls: [{ id: "call_1", type: "function", function: { name: "look", arguments: '{ "at" : 1 }' } }],
        annotations: [],
      },
      { tool_call_id: "call_1", role: "tool", content: "" },
    ],
  ],
  [
    "OpenAI responses",
    [
      { type: "function_call", id: "fc_1", call_id: "call_1", name: "look", arguments: "{}", status: "completed" },
      { type: "function_call_output", call_id: "call_1", output: "42" },
      { id: "rs_1", type: "reasoning", summary: [], encrypted_content: "gAAAA" },
    ],
  ],
  [
    "Anthropic",
    [
      { role: "user", content: [{ type: "text", text: "Hi", cache_control: { type: "ephemeral" } }] },
      {
        role: "assistant",
        content: [
          { type: "thinking", thinking: "…", signature: "EuYB==" },
          { type: "tool_use", id: "toolu_1", name: "get", input: { z: 1, a: { m: null } } },
        ],
      },
      {
        role: "user",
        content: [
          { type: "tool_result", tool_use_id: "toolu_1", is_error: false, content: [{ type: "text", text: "15°" }] },
        ],
      },
    ],
  ],
  [
    "AI SDK",
    [
      { id: "1", role: "user", parts: [{ type: "text", text: "Hi" }], metadata: { createdAt: 1_700_000_000_000 } },
      {
        id: "2",
        role: "assistant",
        parts: [
          { type: "step-start" },
          {
            type: "tool-weather",
            toolCallId: "c",
            state: "output-available",
            input: { city: "Bern" },
            output: { t: 15.5 },
          },
          { type: "data-x", data: { a: [] } },
        ],
      },
    ],
  ],
  [
    "LangChain",
    [
      {
        lc: 1,
        type: "constructor",
        id: ["langchain_core", "messages", "HumanMessage"],
        kwargs: { content: "Hi", additional_kwargs: {}, response_metadata: {} },
      },
      {
        type: "ai",
        data: {
          content: "",
          tool_calls: [{ name: "f", args: {}, id: "c", type: "tool_call" }],
          usage_metadata: { input_tokens: 1 },
        },
      },
      { type: "tool", data: { content: "x", tool_call_id: "c", status: "success" } },
    ],
  ],
  [
    "Google",
    [
      { parts: [{ text: "Hi" }, { inlineData: { mimeType: "image/png", data: "iVBORw0=" } }], role: "user" },
      { parts: [{ functionCall: { name: "f", args: { b: 1, a: 2 } } }], role: "model" },
    ],
  ],
  [
    "nobody in particular",
    [{ anything: [1, [2, [3]]], "": 0, $: ["date", 5], "10": "ten", "9": "nine", ["__proto__"]: "own" }, [], {}],
  ],
];

describe.each(STORES)("messages on $name", (kind) => {
  const data = useData(kind);

  it.each(NATIVE)("of %s are restored unchanged, with the order of their keys", async (_, messages) => {
    const sp = await data.open();
    const { id } = await sp.conversations.create({ messages });
    await sp.conversations.append(id, messages);
    const loaded = await (await data.open()).conversations.load<object>(id);
    expect(loaded?.messages).toStrictEqual([...messages, ...messages]);
    expect(loaded?.messages.map((each) => JSON.stringify(each))).toEqual(
      [...messages, ...messages].map((each) => JSON.stringify(each)),
    );
    // Saved again as a whole, nothing has changed.
    await sp.conversations.save({ id, messages: loaded?.messages ?? [] });
    expect((await sp.conversations.load<object>(id))?.entries).toEqual(loaded?.entries);
  });

  it("may hold dates, maps, sets, bigints, undefined, small bytes and odd numbers", async () => {
    const odd = {
      role: "user",
      content: "odd \u0000 \ud83d é😀",
      at: new Date(5),
      map: new Map<unknown, unknown>([[1, { deep: new Set(["a"]) }]]),
      none: undefined,
      list: [undefined, null, -0, Number.NaN, Number.POSITIVE_INFINITY, 7n],
      bytes: new Uint8Array([0, 255]),
    };
    const { id } = await (await data.open()).conversations.create({ messages: [odd] });
    const loaded = await (await data.open()).conversations.load<typeof odd>(id);
    expect(loaded?.messages).toStrictEqual([odd]);
    expect(Object.is(loaded?.messages[0]?.list[2], -0)).toBe(true);
    expect(Object.keys(loaded?.messages[0] ?? {})).toEqual(Object.keys(odd));
  });

  it("with unsupported values are rejected with INVALID_STATE, and nothing of their append is saved", async () => {
    const sp = await data.open();
    const { id } = await sp.conversations.create({ messages: [message.user("first")] });
    const cyclic: Record<string, unknown> = { role: "user", content: "round" };
    cyclic["self"] = cyclic;
    const list: unknown[] = [];
    list.push({ list });
    class Own {
      readonly role = "user";
    }
    for (const bad of [cyclic, { role: "user", list }, { role: "user", f: () => 1 }, { s: Symbol("s") }, new Own()]) {
      const given = [message.user("good"), bad] as object[];
      for (const attempt of [
        () => sp.conversations.append(id, given),
        () => sp.conversations.create({ messages: given }),
        () => sp.conversations.save({ id, messages: given }),
        () => sp.conversations.save({ id: "other", messages: given }),
      ]) {
        await expect(attempt(), String(attempt)).rejects.toMatchObject({ code: "INVALID_STATE" });
      }
    }
    const again = await data.open();
    expect((await again.conversations.load(id))?.messages).toEqual([message.user("first")]);
    expect(await again.stats()).toMatchObject({ conversations: 1, messages: 1 });
    expect(await again.conversations.append(id, [message.user("goes on")])).toHaveLength(1);
  });

  it.each([[null], ["text"], [7], [undefined], [true]])(
    "that are not objects, such as %o, are rejected",
    async (bad) => {
      const sp = await data.open();
      const { id } = await sp.conversations.create();
      for (const attempt of [
        () => sp.conversations.append(id, [message.user("good"), bad]),
        () => sp.conversations.save({ id, messages: [bad] }),
        () => sp.conversations.create({ id: "new", messages: [bad] }),
      ]) {
        await expect(attempt()).rejects.toMatchObject({ code: "INVALID_ARGUMENT" });
      }
      expect((await sp.conversations.load(id))?.messages).toEqual([]);
      expect(await sp.conversations.load("new")).toBeUndefined();
    },
  );

  it("must be an array, otherwise they are rejected", async () => {
    const sp = await data.open();
    const { id } = await sp.conversations.create({ messages: [message.user("keep me")] });
    for (const wrong of [undefined, null, message.user("x"), "x"] as never[]) {
      await expect(sp.conversations.append(id, wrong)).rejects.toMatchObject({ code: "INVALID_ARGUMENT" });
      await expect(sp.conversations.save({ id, messages: wrong })).rejects.toMatchObject({ code: "INVALID_ARGUMENT" });
    }
    expect((await sp.conversations.load(id))?.messages).toEqual([message.user("keep me")]);
  });

  it("are read synchronously by append: later changes are not saved", async () => {
    const sp = await data.open();
    const given = [message.user("before"), message.user("before too")];
    const creating = sp.conversations.create({ id: "a", messages: given });
    given[0] = message.user("other");
    (given[1] as { content: string }).content = "after";
    await creating;
    const more = [message.user("before")];
    const appending = sp.conversations.append("a", more);
    (more[0] as { content: string }).content = "after";
    more.push(message.user("pushed"));
    expect(await appending).toHaveLength(1);
    const contents = (await sp.conversations.load("a"))?.messages.map(({ content }) => content);
    expect(contents).toEqual(["before", "before too", "before"]);
  });

  it("are read synchronously by save, too", async () => {
    const sp = await data.open();
    const given = [message.user("before")];
    const saving = sp.conversations.save({ id: "a", messages: given });
    (given[0] as { content: string }).content = "after";
    await saving;
    expect((await sp.conversations.load("a"))?.messages).toEqual([message.user("before")]);
  });

  it("are returned by append as they were saved", async () => {
    const sp = await data.open();
    const { id } = await sp.conversations.create();
    const given = message.user("before");
    const appending = sp.conversations.append(id, [given]);
    given.content = "after";
    expect((await appending)[0]?.text).toBe("before");
  });

  it("have the same id and time in append, load, every page and every process, and keep their own if they have any", async () => {
    let time = 1_000;
    const sp = await data.open({ now: () => time });
    const { id } = await sp.conversations.create({ messages: [message.user("first")] });
    time = 2_000;
    const appended = await sp.conversations.append(id, [
      message.user("second"),
      message.user("third"),
      message.user("own", { id: "mine", timestamp: 1_600_000_000_123 }),
    ]);
    expect(appended[2]).toMatchObject({ id: "mine", timestamp: 1_600_000_000_123 });
    expect(appended[0]).toMatchObject({
      timestamp: 2_000,
      role: "user",
      text: "second",
      message: message.user("second"),
    });
    const loaded = await (await data.open()).conversations.load(id);
    expect(loaded?.entries.slice(1)).toEqual(appended);
    expect(new Set(loaded?.entries.map((entry) => entry.id)).size).toBe(4);
    expect(loaded?.entries[0]?.timestamp).toBe(1_000);
    expect((await sp.conversations.load(id, { limit: 1, before: 2 }))?.entries).toEqual(loaded?.entries.slice(1, 2));
    // Also when messages before them are removed.
    time = 3_000;
    await sp.conversations.save({ id, messages: loaded?.messages.slice(2) ?? [] });
    expect((await sp.conversations.load(id))?.entries).toEqual(loaded?.entries.slice(2));
    expect(await sp.conversations.append(id, [])).toEqual([]);
  });

  it.each([1024, 5000, 2 ** 20])("with an attachment of %i bytes are restored byte for byte", async (bytes) => {
    const content = Uint8Array.from({ length: bytes }, (_, n) => (n * 7919) >> 5);
    const sp = await data.open();
    const { id } = await sp.conversations.create();
    await sp.conversations.append(id, [message.user("see", { attachments: [{ type: "file", name: "f", content }] })]);
    const loaded = await (await data.open()).conversations.load(id);
    expect(Buffer.compare(loaded?.messages[0]?.attachments?.[0]?.content as Uint8Array, content)).toBe(0);
  });

  it("keep their bytes through compaction as long as they are referenced, and are found by search", async () => {
    const content = Uint8Array.from({ length: 5000 }, (_, n) => (n * 7919) >> 5);
    const sp = await data.open();
    const messages = [message.user("look here", { attachments: [{ type: "file", name: "f.bin", content }] })];
    for (const id of ["a", "b"]) await sp.conversations.create({ id, messages });
    await sp.agents.save({ id: "agent", name: "A" });
    await sp.conversations.create({ id: "c", agent: "agent", messages });
    await sp.session("s").save({ messages });
    const { id: checkpoint } = await sp.checkpoints.create({ agent: "agent" });
    for (const id of ["a", "c"]) await sp.conversations.delete(id);
    await sp.compact();
    const again = await data.open();
    expect((await again.conversations.load("b"))?.messages).toStrictEqual(messages);
    expect((await again.session("s").latest())?.state).toStrictEqual({ messages });
    expect((await again.conversations.load("c", { at: checkpoint }))?.messages).toStrictEqual(messages);
    expect((await again.conversations.search("LOOK")).map((hit) => hit.conversationId)).toEqual(["b"]);
    // Saved again unchanged, nothing is written: the message is the same.
    const loaded = await again.conversations.load("b");
    await again.conversations.save({ id: "b", messages: loaded?.messages ?? [] });
    expect((await again.conversations.load("b"))?.entries).toEqual(loaded?.entries);
    await again.checkpoints.restore(checkpoint);
    await again.compact();
    expect((await again.conversations.load("c"))?.messages).toStrictEqual(messages);
  });

  it("with the same megabyte attached twenty times take little more space than with one", async () => {
    // Bytes that do not compress.
    let seed = 1;
    const content = Uint8Array.from({ length: 2 ** 20 }, () => (seed = (seed * 48_271) % 2_147_483_647) >> 7);
    const sp = await data.open();
    const attach = (n: number): ReturnType<typeof message.user> =>
      message.user(`${n}`, { attachments: [{ type: "image", name: `${n}.png`, content: Uint8Array.from(content) }] });
    const { id } = await sp.conversations.create({ messages: [attach(0)] });
    const one = await sp.bytes();
    expect(one).toBeGreaterThan(2 ** 20);
    await sp.conversations.append(
      id,
      Array.from({ length: 9 }, (_, n) => attach(n)),
    );
    for (let n = 0; n < 10; n++) await sp.conversations.create({ messages: [attach(n)] });
    await sp.compact();
    expect(await sp.bytes()).toBeLessThan(1.5 * one);
  });

  it("are stored incrementally: a late append takes about as much space as an early one", async () => {
    const sp = await data.open();
    const text = (n: number): string =>
      Array.from({ length: 200 }, (_, k) => ((n * 200 + k) * 7919).toString(36)).join(" ");
    const grown: number[] = [];
    const { id } = await sp.conversations.create();
    for (let n = 0; n < 4; n++) {
      const before = (await sp.stats()).bytes;
      await sp.conversations.append(
        id,
        Array.from({ length: 50 }, (_, k) => message.user(text(n * 50 + k))),
      );
      await sp.compact();
      grown.push((await sp.stats()).bytes - before);
    }
    expect(grown[3]).toBeLessThan(2 * (grown[1] as number));
  });
});
