/** Search: what counts as a hit, what a hit contains, and that the index follows every write. */
import { describe, expect, it } from "vitest";
import { message, type Savepoint } from "../../src/index.js";
import { STORES, useData } from "../model/stores.js";

describe.each(STORES)("searching on $name", (kind) => {
  const data = useData(kind);

  async function say(sp: Savepoint, id: string, ...texts: string[]): Promise<void> {
    await sp.conversations.create({ id, agent: "a", messages: texts.map((text) => message.user(text)) });
  }

  async function found(sp: Savepoint, text: string, options = {}): Promise<string[]> {
    return (await sp.conversations.search(text, options)).map(({ conversationId }) => conversationId).sort();
  }

  it("finds any part of a string, in any case, in any script, however short", async () => {
    const sp = await data.open();
    await say(sp, "en", "The quick brown Fox");
    await say(sp, "ja", "これは検索の試験です");
    await say(sp, "emoji", "well done 👍🏽!");
    await say(sp, "sql", `say "hello"; DROP TABLE x; -- 100% a_b`);
    expect(await found(sp, "QUICK BR")).toEqual(["en"]);
    expect(await found(sp, "x")).toEqual(["en", "sql"]);
    expect(await found(sp, "検索")).toEqual(["ja"]);
    expect(await found(sp, "験")).toEqual(["ja"]);
    expect(await found(sp, "👍")).toEqual(["emoji"]);
    expect(await found(sp, '"hello"; drop')).toEqual(["sql"]);
    expect(await found(sp, "0%")).toEqual(["sql"]);
    expect(await found(sp, "a_b")).toEqual(["sql"]);
    expect(await found(sp, "a%b")).toEqual([]);
    expect(await found(sp, "quick OR nothing")).toEqual([]);
    expect(await found(sp, "")).toEqual([]);
  });

  it("returns one hit per conversation, with the message and the text around the match", async () => {
    const sp = await data.open();
    await say(sp, "c", "first needle", "nothing", `${"before ".repeat(30)}the NEEDLE itself${" after".repeat(60)}`);
    const hits = await sp.conversations.search("needle");
    expect(hits).toHaveLength(1);
    const { entries } = (await sp.conversations.load("c")) ?? { entries: [] };
    expect(hits[0]).toMatchObject({ conversationId: "c", agent: "a", title: "first needle", role: "user" });
    expect(hits[0]?.messageId).toBe(entries[2]?.id);
    expect(hits[0]?.snippet).toMatch(/^….*the NEEDLE itself.*…$/u);
    expect(hits[0]?.snippet.length).toBeLessThan(200);
  });

  it("ranks whole words before parts of words, and later messages before earlier ones", async () => {
    let now = 1000;
    const sp = await data.open({ now: () => now++ });
    await say(sp, "part", "concatenate");
    await say(sp, "early", "a cat");
    await say(sp, "late", "the cat again");
    const hits = await sp.conversations.search("CAT");
    expect(hits.map(({ conversationId }) => conversationId)).toEqual(["late", "early", "part"]);
  });

  it("filters by agent, role, tags, archive flag, time and limit", async () => {
    let now = 1000;
    const sp = await data.open({ now: () => now });
    await sp.conversations.create({ id: "one", agent: "a", tags: ["x", "y"], messages: [message.user("apple")] });
    now = 2000;
    await sp.conversations.create({ id: "two", agent: "b", archived: true, messages: [message.assistant("apple")] });
    await sp.conversations.create({ id: "three", messages: [message.toolResult("call", "apple")] });
    expect(await found(sp, "apple")).toEqual(["one", "three", "two"]);
    expect(await found(sp, "apple", { agent: "a" })).toEqual(["one"]);
    expect(await found(sp, "apple", { agent: "nobody" })).toEqual([]);
    expect(await found(sp, "apple", { role: "assistant" })).toEqual(["two"]);
    expect(await found(sp, "apple", { tags: ["x"] })).toEqual(["one"]);
    expect(await found(sp, "apple", { tags: ["x", "z"] })).toEqual([]);
    expect(await found(sp, "apple", { archived: false })).toEqual(["one", "three"]);
    expect(await found(sp, "apple", { since: 2000 })).toEqual(["three", "two"]);
    expect(await found(sp, "apple", { since: new Date(2001) })).toEqual([]);
    expect(await found(sp, "apple", { limit: 2 })).toHaveLength(2);
  });

  it("returns as many hits as the limit allows when very many match", async () => {
    const sp = await data.open();
    for (let index = 0; index < 40; index++)
      await say(sp, `c${index}`, ...Array.from({ length: 60 }, () => "the same"));
    expect(await found(sp, "the same", { limit: 100 })).toHaveLength(40);
    expect(await found(sp, "e", { limit: 33 })).toHaveLength(33);
  });

  it("finds current titles, and no former ones", async () => {
    const sp = await data.open();
    await sp.conversations.create({ id: "c", title: "Plans for Lisbon", messages: [message.assistant("fine")] });
    const [hit] = await sp.conversations.search("lisbon");
    expect(hit).toMatchObject({ conversationId: "c", messageId: undefined, snippet: "Plans for Lisbon" });
    await sp.conversations.rename("c", "Plans for Porto");
    expect(await found(sp, "lisbon")).toEqual([]);
    expect(await found(sp, "porto")).toEqual(["c"]);
  });

  it("finds what was appended, replaced, deleted and restored, by any process", async () => {
    const [sp, other] = [await data.open(), await data.open()];
    await sp.agents.save({ id: "a", name: "A" });
    await say(sp, "c", "alpha");
    const { id } = await sp.checkpoints.create({ agent: "a" });
    expect(await found(other, "alpha")).toEqual(["c"]);
    await sp.conversations.append("c", [message.user("beta")]);
    expect(await found(other, "beta")).toEqual(["c"]);
    await other.conversations.save({ id: "c", agent: "a", messages: [message.user("gamma")] });
    expect([await found(sp, "alpha"), await found(sp, "beta"), await found(sp, "gamma")]).toEqual([[], [], ["c"]]);
    await sp.checkpoints.restore(id);
    expect([await found(other, "alpha"), await found(other, "gamma")]).toEqual([["c"], []]);
    await other.conversations.delete("c");
    expect(await found(sp, "alpha")).toEqual([]);
  });

  it("can be called many times at once", async () => {
    const all = [await data.open(), await data.open(), await data.open()];
    const [sp] = all as [Savepoint];
    for (let index = 0; index < 30; index++)
      await say(sp, `c${index}`, "needle", ...Array.from({ length: 30 }, () => "hay"));
    const answers = await Promise.all(
      all.flatMap((each) => [found(each, "needle", { limit: 50 }), found(each, "hay", { limit: 50 })]),
    );
    for (const answer of answers) expect(answer).toHaveLength(30);
  });

  it("reports progress, and none if there was nothing to do", async () => {
    const told: { messages: number; done: boolean }[] = [];
    const sp = await data.open({ on: { indexing: (event) => told.push(event) } });
    for (let index = 0; index < 10; index++) await say(sp, `c${index}`, ...Array.from({ length: 100 }, () => "text"));
    await sp.conversations.search("text");
    expect(told.length).toBeGreaterThan(2);
    expect(told.at(-1)).toMatchObject({ done: true });
    const before = told.length;
    await sp.conversations.search("text");
    expect(told).toHaveLength(before);
  });

  it("covers conversations and the messages of sessions", async () => {
    const sp = await data.open();
    await say(sp, "talk", "the treasure map");
    const session = sp.session("work", { agent: "a" });
    await session.save({
      messages: [
        { role: "user", content: "no" },
        { id: "m-7", role: "assistant", content: "A Treasure!" },
      ],
    });
    await sp.session("other").save({ list: ["treasure"] });
    const hits = await sp.search("treasure");
    expect(
      hits.map(({ source, id, messageId }) => [source, id, messageId]).sort(([a = ""], [b = ""]) => a.localeCompare(b)),
    ).toEqual([
      ["conversation", "talk", expect.any(String)],
      ["session", "work", "m-7"],
    ]);
    expect(hits.find(({ source }) => source === "session")).toMatchObject({
      path: "/messages/1",
      branch: "main",
      agent: "a",
    });
    await session.append("/messages", [{ role: "user", content: "more gold" }]);
    expect((await sp.search("gold")).map(({ id }) => id)).toEqual(["work"]);
    await session.save({ messages: [{ role: "user", content: "something else" }] });
    expect((await sp.search("gold")).map(({ id }) => id)).toEqual([]);
    await sp.sessions.delete("work");
    expect((await sp.search("something")).map(({ id }) => id)).toEqual([]);
    expect((await sp.search("treasure", { agent: "nobody" })).map(({ id }) => id)).toEqual([]);
  });

  it("finds the text of native SDK messages", async () => {
    const sp = await data.open();
    const anthropic = {
      role: "assistant",
      content: [
        { type: "text", text: "from Anthropic" },
        { type: "tool_use", id: "t", name: "lookup", input: { city: "Oslo" } },
      ],
    };
    const openai = {
      role: "assistant",
      content: null,
      tool_calls: [{ id: "1", type: "function", function: { name: "weather", arguments: '{"q":"Bergen"}' } }],
    };
    await sp.conversations.create({ id: "native", messages: [anthropic, openai] });
    for (const text of ["from anthropic", "oslo", "bergen", "weather"])
      expect(await found(sp, text)).toEqual(["native"]);
    expect((await sp.conversations.load("native"))?.messages).toEqual([anthropic, openai]);
  });

  it("does not confuse the title of a conversation with the place of its messages", async () => {
    const sp = await data.open();
    for (const id of ["v0", "v1", "v2"]) await say(sp, id, `secret of ${id}`);
    for (const title of ["0  0", "1  0", "2  0", '"1  0"']) {
      await sp.conversations.rename("v1", title);
      for (const { conversationId, snippet } of await sp.conversations.search("secret")) {
        expect(snippet).toBe(`secret of ${conversationId}`);
      }
    }
  });

  it("rejects a query that is not a string", async () => {
    const sp = await data.open();
    await expect(sp.conversations.search(5 as never)).rejects.toMatchObject({ code: "INVALID_ARGUMENT" });
    await expect(sp.conversations.search("x", { since: Number.NaN })).rejects.toMatchObject({
      code: "INVALID_ARGUMENT",
    });
  });
});
