/** Values are restored unchanged, and never turned into anything else. */
import { Document } from "@langchain/core/documents";
import {
  AIMessage,
  AIMessageChunk,
  type BaseMessage,
  ChatMessage,
  FunctionMessage,
  HumanMessage,
  RemoveMessage,
  SystemMessage,
  ToolMessage,
} from "@langchain/core/messages";
import { PromptTemplate } from "@langchain/core/prompts";
import { RunnableLambda } from "@langchain/core/runnables";
import { FakeListChatModel } from "@langchain/core/utils/testing";
import { Send } from "@langchain/langgraph";
import { DeltaSnapshot, emptyCheckpoint, MemorySaver, type PendingWrite } from "@langchain/langgraph-checkpoint";
import { describe, expect, test } from "vitest";
import { SavepointSaver } from "../../src/integrations/langgraph/index.js";
import { STORES, useData } from "../model/stores.js";

const metadata = { source: "loop", step: 0, parents: {} } as const;
const thread = { configurable: { thread_id: "t", checkpoint_ns: "" } };

const toolCall = { id: "call-1", name: "search", args: { query: "x" }, type: "tool_call" as const };

const MESSAGES: BaseMessage[] = [
  new HumanMessage("hello"),
  new HumanMessage({
    content: [
      { type: "text", text: "a" },
      { type: "image_url", image_url: { url: "data:…" } },
    ],
    id: "h",
  }),
  new AIMessage("plain"),
  new AIMessage({
    content: "with all",
    id: "ai",
    name: "agent",
    tool_calls: [toolCall],
    invalid_tool_calls: [{ id: "call-2", name: "bad", args: "{", error: "no JSON" }],
    response_metadata: { model: "m", nested: { deep: [1] } },
    additional_kwargs: { reasoning: "because" },
  }),
  new AIMessage({ content: [{ type: "text", text: "v1" }], response_metadata: { output_version: "v1" } }),
  new AIMessageChunk({ content: "part", tool_call_chunks: [{ name: "f", args: "{}", id: "c", index: 0 }] }),
  new SystemMessage("be kind"),
  new ToolMessage({
    content: "42",
    tool_call_id: "call-1",
    status: "error",
    artifact: { bytes: new Uint8Array([1, 2]) },
  }),
  new FunctionMessage({ content: "7", name: "f" }),
  new ChatMessage({ content: "custom", role: "narrator" }),
  new RemoveMessage({ id: "gone" }),
];

Object.assign(MESSAGES[3] as AIMessage, { usage_metadata: { input_tokens: 1, output_tokens: 2, total_tokens: 3 } });

describe.each(STORES)("values on $name", (kind) => {
  const data = useData(kind);

  /** Puts values and writes, and returns what another process reads. */
  async function roundTrip(values: Record<string, unknown>, writes: PendingWrite[] = []) {
    const versions = Object.fromEntries(Object.keys(values).map((channel) => [channel, 1]));
    const checkpoint = { ...emptyCheckpoint(), channel_values: values, channel_versions: versions };
    const saver = new SavepointSaver(await data.open());
    const config = await saver.put(thread, checkpoint, metadata, versions);
    if (writes.length > 0) await saver.putWrites(config, writes, "task");
    const tuple = await new SavepointSaver(await data.open()).getTuple(thread);
    return {
      values: tuple?.checkpoint.channel_values ?? {},
      writes: (tuple?.pendingWrites ?? []).map(([, channel, value]) => [channel, value]),
    };
  }

  test("messages keep their classes, their fields and their JSON", async () => {
    const found = await roundTrip({ messages: MESSAGES }, [["messages", MESSAGES]]);
    for (const list of [found.values["messages"], found.writes[0]?.[1]] as BaseMessage[][]) {
      expect(list).toHaveLength(MESSAGES.length);
      for (const [index, message] of list.entries()) {
        const original = MESSAGES[index] as BaseMessage;
        expect(Object.getPrototypeOf(message)).toBe(Object.getPrototypeOf(original));
        expect(withoutNothing(message)).toEqual(withoutNothing(original));
        expect(message.getType()).toBe(original.getType());
        expect(message.text).toBe(original.text);
      }
      expect((list[3] as AIMessage).tool_calls).toEqual([toolCall]);
      expect((list[3] as AIMessage).usage_metadata).toMatchObject({ total_tokens: 3 });
      expect(list[7]?.toJSON()).toEqual(MESSAGES[7]?.toJSON());
      expect(list[0]?.toJSON()).toEqual(MESSAGES[0]?.toJSON());
      // They can be concatenated like messages that were never stored.
      expect((list[5] as AIMessageChunk).concat(new AIMessageChunk(" more")).content).toBe("part more");
    }
  });

  test("every type that the default serializer supports is restored, and some that it loses", async () => {
    const values = {
      nothing: undefined,
      nested: { nothing: undefined, none: null, text: "a", deep: [[], {}, [undefined]] },
      map: new Map<unknown, unknown>([
        ["a", new Set([1, new Map([[{ key: 1 }, "x"]])])],
        [1, new HumanMessage("in a map")],
      ]),
      set: new Set(["a", { b: 1 }]),
      regexp: /a+(b)/giu,
      error: new Error("it failed"),
      typeError: new TypeError("it is another"),
      bytes: new Uint8Array([0, 255, 128]),
      manyBytes: new Uint8Array(5000).fill(7),
      buffer: Buffer.from("text"),
      snapshot: new DeltaSnapshot([new HumanMessage("in a snapshot")]),
      date: new Date(86_400_000),
      invalidDate: new Date(Number.NaN),
      url: new URL("https://example.org/?a=b"),
      big: 12345678901234567890n,
      numbers: [Number.NaN, -0, Infinity, -Infinity, 1e308],
      floats: new Float32Array([1.5, -2.5]),
      large: new BigUint64Array([1n, 2n]),
      surrogate: "half \ud800",
      proto: JSON.parse('{"__proto__": {"polluted": true}, "constructor": 1}') as unknown,
    };
    const found = await roundTrip(
      values,
      Object.entries(values).map(([channel, value]) => [channel, value]),
    );
    expect(found.values).toEqual(values);
    expect(Object.keys(found.values)).toEqual(Object.keys(values));
    expect(Object.fromEntries(found.writes as [string, unknown][])).toEqual(values);
    expect(found.values["typeError"]).toMatchObject({ name: "TypeError" });
    expect(({} as { polluted?: boolean }).polluted).toBeUndefined();
  });

  test("other objects are restored as the default serializer restores them", async () => {
    class Money {
      constructor(
        readonly amount: number,
        readonly currency: string,
      ) {}
      double(): Money {
        return new Money(2 * this.amount, this.currency);
      }
    }
    class Secret {
      readonly key = "hidden";
      toJSON(): unknown {
        return { shown: true };
      }
    }
    const values = {
      money: new Money(5, "EUR"),
      secret: new Secret(),
      send: new Send("node", { messages: [new HumanMessage("sent")] }),
      functions: { f: () => 1, list: [() => 1, 2] },
    };
    const ours = await roundTrip(values);
    const memory = new MemorySaver();
    await memory.put(thread, { ...emptyCheckpoint(), channel_values: values }, metadata);
    expect(ours.values).toEqual((await memory.getTuple(thread))?.checkpoint.channel_values);
  });

  test("other LangChain objects are restored, and those that cannot be loaded are rejected", async () => {
    const document = new Document({ pageContent: "text", metadata: { lc: 1, page: 3 } });
    const prompt = PromptTemplate.fromTemplate("Hello {name}");
    const found = await roundTrip({ document: { inside: [document] }, prompt });
    const [back] = (found.values["document"] as { inside: Document[] }).inside;
    expect(back).toEqual(document);
    const template = found.values["prompt"] as PromptTemplate;
    expect(await template.format({ name: "you" })).toBe("Hello you");
    class Own extends HumanMessage {}
    const own = await roundTrip({ message: new Own("mine") });
    expect(Object.getPrototypeOf(own.values["message"])).toBe(HumanMessage.prototype);
    class Unknown extends PromptTemplate {}
    const unknown = new Unknown({ template: "{a}", inputVariables: ["a"] });
    await expect(roundTrip({ unknown })).rejects.toMatchObject({ code: "INVALID_STATE" });
    const model = new FakeListChatModel({ responses: [] });
    await expect(roundTrip({ model })).rejects.toMatchObject({ code: "INVALID_STATE" });
    // An object that declares itself not serializable is stored as such.
    const lambda = await roundTrip({ lambda: RunnableLambda.from(() => 1) });
    expect(lambda.values["lambda"]).toMatchObject({ type: "not_implemented" });
  });

  test("plain data that looks like a serialized object is never instantiated", async () => {
    const lookalikes = [
      { lc: 1, type: "constructor", id: ["langchain_core", "messages", "HumanMessage"], kwargs: { content: "x" } },
      { lc: 1, type: "constructor", id: ["langchain_core", "prompts", "PromptTemplate"], kwargs: {} },
      { lc: 1, type: "secret", id: ["PATH"] },
      { lc: 2, type: "constructor", id: ["Map"], method: null, args: [[["a", 1]]], kwargs: {} },
      { lc: 2, type: "regexp", source: "(a+)+$", flags: "" },
      { lc: 2, type: "undefined" },
      { lc: 2, type: "delta_snapshot", value: 1 },
      { lc: 0, value: { lc: 1 } },
      { lc: { lc: { lc: 5 } } },
      { $: ["date", "2026-01-01"] },
    ];
    const message = new AIMessage({ content: "", tool_calls: [{ ...toolCall, args: { said: lookalikes } }] });
    const found = await roundTrip({ lookalikes, message }, [["lookalikes", lookalikes]]);
    expect(found.values["lookalikes"]).toStrictEqual(lookalikes);
    expect(found.writes[0]?.[1]).toStrictEqual(lookalikes);
    expect((found.values["message"] as AIMessage).tool_calls?.[0]?.args["said"]).toStrictEqual(lookalikes);
  });

  test("cyclic values are rejected, and nothing is saved", async () => {
    const circle: Record<string, unknown> = {};
    circle["self"] = { circle };
    await expect(roundTrip({ circle })).rejects.toMatchObject({ code: "INVALID_STATE" });
    const saver = new SavepointSaver(await data.open());
    expect(await saver.getTuple(thread)).toBeUndefined();
  });

  test("values that are changed after put was called are saved as they were", async () => {
    const saver = new SavepointSaver(await data.open());
    const list = [{ text: "before" }];
    const bytes = new Uint8Array([1]);
    const message = new HumanMessage("before");
    const checkpoint = { ...emptyCheckpoint(), channel_values: { list, bytes, message } };
    const versions = { list: 1, bytes: 1, message: 1 };
    const putting = saver.put(thread, { ...checkpoint, channel_versions: versions }, metadata, versions);
    Object.assign(list[0] as object, { text: "after" });
    bytes[0] = 2;
    message.content = "after";
    await putting;
    const values = (await saver.get(thread))?.channel_values ?? {};
    expect(values).toMatchObject({
      list: [{ text: "before" }],
      bytes: new Uint8Array([1]),
      message: { content: "before" },
    });
  });

  test("messages that were changed since the last put are saved with their changes", async () => {
    const saver = new SavepointSaver(await data.open());
    const messages = [new AIMessage("one"), new AIMessage({ content: "two", id: "2" }), new HumanMessage("three")];
    let config = thread;
    const changes: (() => unknown)[] = [
      () => undefined,
      () => ((messages[0] as AIMessage).content = "changed"),
      () => ((messages[1] as AIMessage).additional_kwargs["added"] = { deep: 1 }),
      () => Object.assign((messages[1] as AIMessage).additional_kwargs["added"] as object, { deep: 2 }),
      () => (messages[1] as AIMessage).tool_calls?.push(structuredClone(toolCall)),
      () => Object.assign((messages[1] as AIMessage).tool_calls?.[0]?.args ?? {}, { query: "y" }),
      () => ((messages[1] as AIMessage).response_metadata["list"] = [0, { a: undefined }]),
      () => ((messages[1] as AIMessage).response_metadata["list"] = [-0, { a: undefined }]),
      () => ((messages[1] as AIMessage).response_metadata["list"] = [-0, { a: null }]),
      () => ((messages[2] as HumanMessage).name = "somebody"),
      () => Object.assign(messages[2] as object, { extra: 5 }),
      () => delete (messages[2] as { extra?: number }).extra,
      () => messages.reverse(),
    ];
    for (const [index, change] of changes.entries()) {
      change();
      const versions = { messages: index };
      const checkpoint = {
        ...emptyCheckpoint(),
        id: `id-${index}`,
        channel_values: { messages },
        channel_versions: versions,
      };
      config = (await saver.put(config, checkpoint, metadata, versions)) as typeof thread;
      const read = (await saver.get(thread))?.channel_values["messages"] as BaseMessage[];
      expect(read.map(withoutNothing)).toEqual(messages.map(withoutNothing));
    }
  });

  test("the messages of a rejected checkpoint are saved with the next one", async () => {
    const saver = new SavepointSaver(await data.open());
    const [a, b, c, d] = ["a", "b", "c", "d"].map((content) => new AIMessage(content)) as [AIMessage, ...AIMessage[]];
    const putMessages = async (config: object, id: string, messages: unknown[], other?: unknown): Promise<object> => {
      const versions = { messages: id, other: id };
      const values = { messages, other };
      const checkpoint = { ...emptyCheckpoint(), id, channel_values: values, channel_versions: versions };
      return saver.put(config, checkpoint, metadata, versions);
    };
    const cyclic: unknown[] = [];
    cyclic.push(cyclic);
    const first = await putMessages(thread, "id-1", [a, b]);
    await expect(putMessages(first, "id-2", [a, b, c, d], cyclic)).rejects.toMatchObject({ code: "INVALID_STATE" });
    const second = await putMessages(first, "id-3", [a, b, c]);
    a.content = "changed";
    const third = await putMessages(second, "id-4", [a, b, d]);
    const last = await putMessages(third, "id-5", [a, b, d, c]);
    const read = async (config: object): Promise<unknown> =>
      ((await saver.get(config))?.channel_values["messages"] as BaseMessage[] | undefined)?.map(
        ({ content }) => content,
      );
    expect(await read(second)).toEqual(["a", "b", "c"]);
    expect(await read(third)).toEqual(["changed", "b", "d"]);
    expect(await read(last)).toEqual(["changed", "b", "d", "c"]);
  });

  test("a loaded value that is changed does not change the channel that the next checkpoint inherits", async () => {
    const saver = new SavepointSaver(await data.open());
    const versions = { when: 1, bytes: 1 };
    const values = { when: new Date(1000), bytes: Buffer.from([1]) };
    const first = { ...emptyCheckpoint(), id: "id-1", channel_values: values, channel_versions: versions };
    await saver.put(thread, first, metadata, versions);
    const loaded = await saver.getTuple(thread);
    const { when, bytes } = (loaded?.checkpoint.channel_values ?? {}) as typeof values;
    when.setTime(2000);
    bytes[0] = 2;
    const second = { ...first, id: "id-2", channel_values: { when, bytes } };
    await saver.put(loaded?.config ?? thread, second, metadata, {});
    expect((await saver.get(thread))?.channel_values).toEqual(values);
  });

  test("a channel can hold a list of 200,000 values", async () => {
    const saver = new SavepointSaver(await data.open());
    const list = Array.from({ length: 200_000 }, (_, index) => index % 10);
    const versions = { list: 1 };
    const checkpoint = { ...emptyCheckpoint(), id: "id-1", channel_values: { list }, channel_versions: versions };
    await saver.put(thread, checkpoint, metadata, versions);
    expect((await saver.get(thread))?.channel_values["list"]).toEqual(list);
  });

  test("a repeated save of an older state does not change how the next state is compared", async () => {
    const sp = await data.open();
    const options = (id: string): object => ({ id, [Symbol.for("savepoint.integration")]: true });
    const [first, second] = [sp.session("frozen"), sp.session("frozen")];
    const shared = ["shared"];
    const older = Object.freeze({ list: shared, step: 1 });
    await first.save(older, options("a"));
    await second.latest();
    await second.save(Object.freeze({ list: ["other"], step: 2 }), options("b"));
    expect((await first.save(older, options("a"))).id).toBe("a");
    await second.save(Object.freeze({ list: shared, step: 3 }), options("c"));
    expect((await sp.session("frozen").load("c"))?.state).toEqual({ list: ["shared"], step: 3 });
  });

  test("a message that is added to a thousand writes only that message", async () => {
    const sp = await data.open();
    const saver = new SavepointSaver(sp);
    const messages = Array.from({ length: 300 }, (_, index) => new AIMessage(`${index} ${"text ".repeat(200)}`));
    let config = thread;
    for (let count = 280; count <= 300; count++) {
      const checkpoint = {
        ...emptyCheckpoint(),
        id: `id-${count}`,
        channel_values: { messages: messages.slice(0, count) },
      };
      const versions = { messages: count };
      config = (await saver.put(
        config,
        { ...checkpoint, channel_versions: versions },
        metadata,
        versions,
      )) as typeof thread;
    }
    const stored = (await sp.session("t").history({ limit: 20 }).all()).map(({ storedBytes }) => storedBytes);
    expect(Math.max(...stored)).toBeLessThan(2500);
  });
});

/** Removes fields that are `undefined`, which are equivalent to missing ones. */
function withoutNothing(message: BaseMessage): unknown {
  const { lc_kwargs: _, ...fields } = message as BaseMessage & { lc_kwargs: unknown };
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined));
}
