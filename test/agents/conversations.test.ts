import assert from "node:assert/strict";
import fc from "fast-check";
import { beforeEach, describe, expect, it } from "vitest";
import { type Conversation, type Message, message, type Savepoint } from "../../src/index.js";
import {
  conversationKey,
  derivedTitleKey,
  lastMessageTimeKey,
  messageCounterKey,
  messageTape,
} from "../../src/records/index.js";
import { STORES, useData } from "../model/stores.js";
import { useDamageableFile } from "../model/damageable-file.js";
import { runs } from "../support/runs.js";

const said = (texts: readonly string[]): Message[] => texts.map((text) => message.user(text));
const numbered = (count: number, from = 0): Message[] =>
  said(Array.from({ length: count }, (_, n) => `message ${from + n}`));
const textsOf = (conversation: Conversation | undefined): string[] | undefined =>
  conversation?.messages.map(({ content }) => content);

describe.each(STORES)("conversations on $name", (kind) => {
  const data = useData(kind);

  describe("append", () => {
    it("keeps all messages of several concurrent processes, each process in its own order", async () => {
      const sps = [await data.open(), await data.open(), await data.open(), await data.open()];
      await sps[0]?.conversations.create({ id: "c" });
      const appends = 250;
      const results = await Promise.all(
        sps.flatMap(({ conversations }, writer) =>
          Array.from({ length: appends }, (_, n) =>
            conversations.append("c", said([`${writer} ${n} a`, `${writer} ${n} b`, `${writer} ${n} c`])),
          ),
        ),
      );
      const loaded = await (await data.open()).conversations.load("c");
      const texts = textsOf(loaded) as string[];
      expect(texts).toHaveLength(4 * appends * 3);
      const expected = sps.flatMap((_, writer) =>
        Array.from({ length: appends }, (__, n) => ["a", "b", "c"].map((part) => `${writer} ${n} ${part}`)).flat(),
      );
      expect([...texts].sort()).toEqual(expected.sort());
      for (let at = 0; at < texts.length; at += 3) {
        const [writer, n] = (texts[at] as string).split(" ");
        expect(texts.slice(at, at + 3)).toEqual(["a", "b", "c"].map((part) => `${writer} ${n} ${part}`));
      }
      const ids = new Map(loaded?.entries.map((entry) => [entry.id, entry]));
      expect(ids.size).toBe(texts.length);
      for (const entry of results.flat()) expect(ids.get(entry.id)).toEqual(entry);
    });

    it("keeps the order of consecutive calls", async () => {
      const { conversations } = await data.open();
      await conversations.create({ id: "c" });
      await Promise.all(numbered(100).map((each) => conversations.append("c", [each])));
      expect((await conversations.load("c"))?.messages).toEqual(numbered(100));
    });

    it("throws CONVERSATION_NOT_FOUND for a missing conversation, also in a process that has it cached", async () => {
      const [one, two] = [await data.open(), await data.open()];
      await expect(one.conversations.append("c", said(["x"]))).rejects.toMatchObject({
        code: "CONVERSATION_NOT_FOUND",
      });
      await expect(one.conversations.append("c", [])).rejects.toMatchObject({ code: "CONVERSATION_NOT_FOUND" });
      await one.conversations.create({ id: "c" });
      await two.conversations.append("c", said(["1"]));
      await one.conversations.delete("c");
      for (const { conversations } of [one, two]) {
        await expect(conversations.append("c", said(["x"]))).rejects.toMatchObject({ code: "CONVERSATION_NOT_FOUND" });
        await expect(conversations.rename("c", "x")).rejects.toMatchObject({ code: "CONVERSATION_NOT_FOUND" });
        await expect(conversations.tag("c", [])).rejects.toMatchObject({ code: "CONVERSATION_NOT_FOUND" });
        await expect(conversations.archive("c")).rejects.toMatchObject({ code: "CONVERSATION_NOT_FOUND" });
      }
      expect(await two.stats()).toMatchObject({ conversations: 0, messages: 0 });
    });

    it("adds only the new messages after the conversation was deleted and created again", async () => {
      const [one, two] = [await data.open(), await data.open()];
      await one.conversations.create({ id: "c", agent: "a", messages: numbered(5) });
      await two.conversations.append("c", said(["old"]));
      await one.conversations.delete("c");
      const created = await one.conversations.create({ id: "c", agent: "b", tags: ["new"] });
      const [entry] = await two.conversations.append("c", said(["new"]));
      const loaded = await two.conversations.load("c");
      expect(loaded).toMatchObject({ agent: "b", tags: ["new"], createdAt: created.createdAt, title: "new" });
      expect(loaded?.messages).toEqual(said(["new"]));
      expect(loaded?.entries).toEqual([entry]);
      expect(await two.conversations.list({ agent: "a" }).all()).toEqual([]);
    });

    it("loses no acknowledged message while the conversation is deleted and created again", async () => {
      const [one, two] = [await data.open(), await data.open()];
      await one.conversations.create({ id: "c" });
      const work: Promise<unknown>[] = [];
      for (let n = 0; n < 40; n++) {
        work.push(two.conversations.append("c", said([`${n}`, `${n}`])).catch(() => undefined));
        if (n % 10 === 5) {
          work.push(
            one.conversations.delete("c").then(() => one.conversations.create({ id: "c" }).catch(() => undefined)),
          );
        }
      }
      await Promise.all(work);
      const after = (await two.conversations.append("c", said(["last"])))[0];
      const loaded = await one.conversations.load("c");
      expect(loaded?.entries.at(-1)).toEqual(after);
      const texts = textsOf(loaded)?.slice(0, -1) as string[];
      for (let at = 0; at < texts.length; at += 2) expect(texts[at]).toBe(texts[at + 1]);
      expect(loaded?.messageCount).toBe(texts.length + 1);
      expect(await one.stats()).toMatchObject({ conversations: 1, messages: texts.length + 1 });
    });

    it("of no messages throws CONVERSATION_NOT_FOUND if another process has deleted the conversation", async () => {
      const [one, two] = [await data.open(), await data.open()];
      await one.conversations.create({ id: "c" });
      await two.conversations.append("c", said(["1"]));
      await one.conversations.delete("c");
      await expect(two.conversations.append("c", [])).rejects.toMatchObject({ code: "CONVERSATION_NOT_FOUND" });
    });
  });

  describe("create", () => {
    it("throws CONFLICT if the id exists, and changes nothing", async () => {
      const [one, two] = [await data.open(), await data.open()];
      await one.conversations.create({ id: "c", title: "first", messages: numbered(2) });
      await expect(two.conversations.create({ id: "c", messages: numbered(1) })).rejects.toMatchObject({
        code: "CONFLICT",
      });
      expect(await two.conversations.load("c")).toMatchObject({ title: "first", messageCount: 2 });
      expect(await two.stats()).toMatchObject({ conversations: 1, messages: 2 });
    });

    it("succeeds exactly once if several processes create the same id at once", async () => {
      const sps = [await data.open(), await data.open(), await data.open()];
      const results = await Promise.allSettled(
        Array.from({ length: 9 }, (_, n) =>
          (sps[n % 3] as Savepoint).conversations.create({ id: "c", messages: said([`${n}`, `${n}`]) }),
        ),
      );
      const won = results.findIndex(({ status }) => status === "fulfilled");
      expect(results.filter(({ status }) => status === "fulfilled")).toHaveLength(1);
      expect(textsOf(await sps[0]?.conversations.load("c"))).toEqual([`${won}`, `${won}`]);
      expect(await sps[1]?.stats()).toMatchObject({ conversations: 1, messages: 2 });
    });

    it("rejects invalid titles and tags", async () => {
      const { conversations } = await data.open();
      for (const wrong of [{ title: 7 }, { title: null }, { tags: "x" }, { tags: { 0: "x" } }] as never[]) {
        await expect(conversations.create(wrong)).rejects.toMatchObject({ code: "INVALID_ARGUMENT" });
      }
      await expect(conversations.create({ metadata: { f: () => 1 } })).rejects.toMatchObject({ code: "INVALID_STATE" });
      expect(await conversations.list().all()).toEqual([]);
    });
  });

  describe("save", () => {
    it("creates a conversation, saves a loaded one unchanged, and replaces all its fields", async () => {
      let time = 1;
      const sp = await data.open({ now: () => time });
      await sp.conversations.save({ id: "c", agent: "a", messages: numbered(3), tags: ["t"], metadata: { m: [1] } });
      const loaded = (await sp.conversations.load("c")) as Conversation;
      expect(loaded).toMatchObject({ agent: "a", title: "message 0", tags: ["t"], metadata: { m: [1] }, createdAt: 1 });
      await sp.conversations.save(loaded);
      expect(await (await data.open()).conversations.load("c")).toEqual(loaded);
      time = 2;
      await sp.conversations.save({ id: "c", messages: numbered(1), archived: true });
      expect(await (await data.open()).conversations.load("c")).toMatchObject({
        agent: "a",
        tags: [],
        archived: true,
        metadata: {},
        createdAt: 1,
        messageCount: 1,
      });
      await expect(sp.conversations.save({ id: "c", agent: "b", messages: [] })).rejects.toMatchObject({
        code: "AGENT_MISMATCH",
      });
      expect((await sp.conversations.load("c"))?.messageCount).toBe(1);
    });

    const edits: [string, (all: Message[]) => Message[]][] = [
      ["nothing changed", (all) => all],
      ["one edited", (all) => all.map((each, n) => (n === 4 ? message.user("edited") : each))],
      ["the first cut", (all) => all.slice(3)],
      ["the last cut", (all) => all.slice(0, -3)],
      ["the middle cut", (all) => [...all.slice(0, 3), ...all.slice(7)]],
      ["some put in between", (all) => [...all.slice(0, 5), ...said(["x", "y"]), ...all.slice(5)]],
      ["all turned round", (all) => [...all].reverse()],
      ["equal ones side by side", (all) => all.flatMap((each) => [each, each, each])],
      ["all equal", () => said(Array.from({ length: 7 }, () => "same"))],
      ["none left", () => []],
      ["all new", () => numbered(4, 100)],
      ["a summary in front", (all) => [message.system("so far"), ...all.slice(-2)]],
    ];

    it.each(edits)("stores messages with %s for every process, also after compaction", async (_, edit) => {
      const [one, two] = [await data.open(), await data.open()];
      await one.conversations.create({ id: "c", messages: numbered(6) });
      await two.conversations.append("c", numbered(4, 6));
      const edited = edit(numbered(10));
      const info = await one.conversations.save({ id: "c", messages: edited });
      expect(info.messageCount).toBe(edited.length);
      expect((await two.conversations.load("c"))?.messages).toEqual(edited);
      await two.conversations.append("c", said(["after"]));
      const all = [...edited, message.user("after")];
      await one.compact();
      expect((await (await data.open()).conversations.load("c"))?.messages).toEqual(all);
      await two.conversations.save({ id: "c", messages: edit(all) });
      await two.compact();
      expect((await one.conversations.load("c"))?.messages).toEqual(edit(all));
    });

    it("rewrites messages that would need too many ranges, and keeps them unchanged", async () => {
      const sp = await data.open();
      await sp.conversations.create({ id: "c", messages: numbered(700) });
      // Every other one, in reverse: no two are adjacent.
      let kept = numbered(700)
        .filter((_, n) => n % 2 === 0)
        .reverse();
      for (let round = 0; round < 3; round++) {
        await sp.conversations.save({ id: "c", messages: kept });
        expect((await (await data.open()).conversations.load("c"))?.messages).toEqual(kept);
        await sp.conversations.append("c", said([`round ${round}`]));
        kept = [...kept, message.user(`round ${round}`)].reverse();
      }
      await sp.compact();
      await sp.conversations.save({ id: "c", messages: kept });
      expect((await sp.conversations.load("c"))?.messages).toEqual(kept);
    });

    it("writes only the change", async () => {
      const sp = await data.open();
      const noise = (n: number): string =>
        Array.from({ length: 100 }, (_, k) => ((n * 100 + k) * 7919).toString(36)).join("");
      const long = said(Array.from({ length: 300 }, (_, n) => noise(n)));
      await sp.conversations.create({ id: "c", agent: "a", messages: long });
      const before = (await sp.stats({ agent: "a" })).bytes;
      for (let n = 0; n < 10; n++) {
        long.splice(n * 20, 1, message.user(`edited ${n}`));
        await sp.conversations.save({ id: "c", messages: long });
      }
      expect((await sp.stats({ agent: "a" })).bytes).toBeLessThan(1.3 * before);
      expect((await sp.conversations.load("c"))?.messages).toEqual(long);
    });

    it("is atomic with concurrent appends: each append comes before or after it", async () => {
      const [one, two] = [await data.open(), await data.open()];
      await one.conversations.create({ id: "c" });
      const work: Promise<unknown>[] = [];
      for (let n = 0; n < 60; n++) work.push(two.conversations.append("c", said([`a${n}`, `b${n}`])));
      for (let n = 0; n < 5; n++) work.push(one.conversations.save({ id: "c", messages: said([`saved ${n}`]) }));
      await Promise.all(work);
      const [first, ...rest] = textsOf(await (await data.open()).conversations.load("c")) as string[];
      expect(first).toMatch(/^saved /);
      const numbers = rest.filter((text) => text.startsWith("a")).map((text) => Number(text.slice(1)));
      expect(rest).toEqual(numbers.flatMap((n) => [`a${n}`, `b${n}`]));
      expect(numbers).toEqual([...numbers].sort((a, b) => a - b));
    });

    it("succeeds for both of two processes that create the conversation at once", async () => {
      const [one, two] = [await data.open(), await data.open()];
      await Promise.all([
        one.conversations.save({ id: "c", messages: said(["1"]) }),
        two.conversations.save({ id: "c", messages: said(["2"]) }),
      ]);
      expect((await one.conversations.load("c"))?.messageCount).toBe(1);
      expect(await two.stats()).toMatchObject({ conversations: 1, messages: 1 });
    });

    it("keeps lastMessageAt if it adds no message", async () => {
      let time = 1_000;
      const { conversations } = await data.open({ now: () => time });
      await conversations.create({ id: "c", messages: numbered(3) });
      time = 2_000;
      await conversations.save({ id: "c", messages: numbered(2) });
      const loaded = await conversations.load("c");
      expect(loaded?.entries.at(-1)?.timestamp).toBe(1_000);
      expect(loaded?.lastMessageAt).toBe(1_000);
    });
  });

  describe("load in pages", () => {
    it("returns the last messages, and the page before any position", async () => {
      const { conversations } = await data.open();
      await conversations.create({ id: "c", messages: numbered(10) });
      await conversations.save({ id: "c", messages: [...numbered(3, 4), ...numbered(4)] }); // several ranges
      await conversations.append("c", numbered(3, 7));
      const all = [...numbered(3, 4), ...numbered(4), ...numbered(3, 7)];
      const page = async (options: { limit?: number; before?: number }): Promise<[number | undefined, unknown]> => {
        const loaded = await conversations.load("c", options);
        expect(loaded?.messageCount).toBe(10);
        expect(loaded?.entries.map((entry) => entry.message)).toEqual(loaded?.messages);
        return [loaded?.first, loaded?.messages];
      };
      expect(await page({})).toEqual([0, all]);
      expect(await page({ limit: 3 })).toEqual([7, all.slice(7)]);
      expect(await page({ limit: 3, before: 7 })).toEqual([4, all.slice(4, 7)]);
      expect(await page({ limit: 3, before: 2 })).toEqual([0, all.slice(0, 2)]);
      expect(await page({ before: 4 })).toEqual([0, all.slice(0, 4)]);
      expect(await page({ limit: 100, before: 100 })).toEqual([0, all]);
      expect(await page({ limit: 0 })).toEqual([10, []]);
      expect(await page({ before: 0 })).toEqual([0, []]);
      const pages: Message[] = [];
      for (let before = 10; before > 0; before -= 4) {
        pages.unshift(...((await conversations.load("c", { limit: 4, before }))?.messages ?? []));
      }
      expect(pages).toEqual(all);
    });

    it("that is only a page cannot be saved, because the other messages would be lost", async () => {
      const { conversations } = await data.open();
      await conversations.create({ id: "c", messages: numbered(10) });
      for (const options of [{ limit: 3 }, { before: 4 }, { limit: 3, before: 2 }, { limit: 0 }]) {
        const page = await conversations.load("c", options);
        if (!page) throw new Error("The conversation is missing.");
        await expect(conversations.save(page)).rejects.toMatchObject({ code: "INVALID_ARGUMENT" });
        expect((await conversations.load("c"))?.messages).toEqual(numbered(10));
      }
      const whole = await conversations.load("c");
      if (!whole) throw new Error("The conversation is missing.");
      await conversations.save({ ...whole, messages: whole.messages.slice(0, 2) });
      expect((await conversations.load("c"))?.messages).toEqual(numbered(2));
    });
  });

  it.each([
    { limit: 1.5 },
    { limit: -1 },
    { limit: Number.NaN },
    { before: -1 },
    { before: 1.5 },
    { before: Number.NaN },
  ])("cannot be loaded with %o", async (options) => {
    const { conversations } = await data.open({ on: { damage: () => {} } });
    await conversations.create({ id: "c", messages: numbered(3) });
    await expect(conversations.load("c", options)).rejects.toMatchObject({ code: "INVALID_ARGUMENT" });
  });

  it.each([[[1]], ["x"], [7], [null]])("with %o as metadata are rejected", async (metadata) => {
    const { conversations } = await data.open();
    const given = { metadata } as never;
    await expect(conversations.create(given)).rejects.toMatchObject({ code: "INVALID_ARGUMENT" });
  });

  it("cannot be overwritten with a page of themselves", async () => {
    const { conversations } = await data.open();
    await conversations.create({ id: "c", messages: [1, 2, 3].map((n) => message.user(`m${n}`)) });
    const page = (await conversations.load("c", { limit: 1 })) as Conversation;
    await expect(conversations.save(page)).rejects.toMatchObject({ code: "INVALID_ARGUMENT" });
    expect((await conversations.load("c"))?.messages).toHaveLength(3);
    const whole = (await conversations.load("c")) as Conversation;
    await conversations.save({ ...whole, messages: whole.messages.slice(1) });
    expect((await conversations.load("c"))?.messages).toHaveLength(2);
  });

  it("are saved only if they have as many messages as expected", async () => {
    const { conversations } = await data.open();
    await conversations.save({ id: "c", messages: [message.user("a")] }, { expectedMessages: 0 });
    const stale = conversations.save({ id: "c", messages: [] }, { expectedMessages: 0 });
    await expect(stale).rejects.toMatchObject({ code: "CONFLICT" });
    await conversations.save({ id: "c", messages: [message.user("b")] }, { expectedMessages: 1 });
    expect((await conversations.load("c"))?.messages).toEqual([message.user("b")]);
  });

  it("with unknown fields are rejected", async () => {
    const { conversations } = await data.open();
    const given = { agnet: "a" } as never;
    await expect(conversations.create(given)).rejects.toMatchObject({ code: "INVALID_ARGUMENT" });
  });

  it("are listed oldest first by a checkpoint, whatever their ids", async () => {
    const sp = await data.open();
    await sp.agents.save({ id: "a", name: "A" });
    for (const id of ["z", "10", "9"]) await sp.conversations.create({ id, agent: "a" });
    const { id } = await sp.checkpoints.create({ agent: "a" });
    expect(await sp.checkpoints.load(id)).toMatchObject({ state: { activeConversations: ["z", "10", "9"] } });
  });

  describe("titles", () => {
    const family = "👩‍👩‍👧‍👦";
    const cases: [string, string | undefined][] = [
      ["short", "short"],
      ["  two\n\tlines \r\n", "two lines"],
      ["\u00a0\u3000wide space\u2028x", "wide space x"],
      ["", undefined],
      [" \n\t ", undefined],
      ["あ".repeat(20), "あ".repeat(20)],
      ["あ".repeat(50), "あ".repeat(50)],
      ["あ".repeat(51), `${"あ".repeat(47)}...`],
      [family.repeat(50), family.repeat(50)],
      [family.repeat(51), `${family.repeat(47)}...`],
      ["🇨🇭".repeat(51), `${"🇨🇭".repeat(47)}...`],
      ["e\u0301".repeat(50), "e\u0301".repeat(50)],
      ["e\u0301\u0323".repeat(51), `${"e\u0301\u0323".repeat(47)}...`],
      [`${"x".repeat(46)}${family}${family}${family}${family}${family}`, `${"x".repeat(46)}${family}...`],
      ["x".repeat(100_000), `${"x".repeat(47)}...`],
    ];

    it.each(cases)("of %j become %j, whether set or derived from a message", async (text, title) => {
      const { conversations } = await data.open();
      const { id } = await conversations.create({ messages: said([text]) });
      expect((await conversations.load(id))?.title).toBe(title);
      const given = await conversations.create({ title: text });
      expect(given.title).toBe(title);
      expect((await conversations.rename(given.id, "other")).title).toBe("other");
      expect((await conversations.rename(given.id, text)).title).toBe(title);
    });

    it("are derived from the next user message if the first is blank, in every process", async () => {
      const [one, two] = [await data.open(), await data.open()];
      const { id } = await one.conversations.create({ messages: [message.system("s"), message.user("  ")] });
      expect((await two.conversations.append(id, [message.assistant("a")]))[0]?.role).toBe("assistant");
      expect((await one.conversations.load(id))?.title).toBeUndefined();
      await two.conversations.append(id, said(["spoken"]));
      await one.conversations.append(id, said(["too late"]));
      expect((await one.conversations.load(id))?.title).toBe("spoken");
    });

    it("fall back to the first message when they are unset, and follow it when it is edited", async () => {
      const { conversations } = await data.open();
      const { id } = await conversations.create({ messages: said(["first", "second"]) });
      await conversations.rename(id, "mine");
      await conversations.append(id, said(["third"]));
      expect((await conversations.load(id))?.title).toBe("mine");
      expect((await conversations.rename(id, undefined)).title).toBe("first");
      const loaded = (await conversations.load(id)) as Conversation;
      await conversations.save({ ...loaded, messages: said(["edited"]) });
      expect((await conversations.load(id))?.title).toBe("edited");
      await conversations.save({ id, messages: [message.assistant("nobody asked")] });
      expect((await conversations.load(id))?.title).toBeUndefined();
      await conversations.append(id, said(["asked"]));
      expect((await conversations.load(id))?.title).toBe("asked");
    });

    it("fall back to the first message also if it was appended after the title was set", async () => {
      const { conversations } = await data.open();
      const { id } = await conversations.create({ title: "mine" });
      await conversations.append(id, said(["first"]));
      expect((await conversations.rename(id, undefined)).title).toBe("first");
    });

    it("are derived from the next message also in a process that has an earlier one cached", async () => {
      const [one, two] = [await data.open(), await data.open()];
      const { id } = await one.conversations.create({ messages: said(["old"]) });
      await two.conversations.append(id, said(["more"]));
      await one.conversations.save({ id, messages: [] });
      await two.conversations.append(id, said(["new"]));
      expect((await one.conversations.load(id))?.title).toBe("new");
    });

    it.each([
      [`x${" ".repeat(3998)}😀`, "x 😀"],
      [`${" ".repeat(5000)}hello`, "hello"],
      [`e${"\u0301".repeat(99)}`.repeat(45), `e${"\u0301".repeat(99)}`.repeat(45)],
    ])("are not cut inside a character far from the start (%#)", async (text, title) => {
      const { conversations } = await data.open();
      expect((await conversations.create({ messages: said([text]) })).title).toBe(title);
    });
  });

  describe("changes", () => {
    it("keep the fields that they do not mention, and the messages", async () => {
      const [one, two] = [await data.open({ now: () => 5 }), await data.open()];
      const { id } = await one.conversations.create({
        agent: "a",
        tags: ["x", "y", "x"],
        metadata: { m: new Date(1) },
        messages: numbered(2),
      });
      expect((await two.conversations.load(id))?.tags).toEqual(["x", "y"]);
      await one.conversations.tag(id, ["z", "z", "w"]);
      await two.conversations.archive(id);
      await one.conversations.update(id, { metadata: { n: 1 } });
      await two.conversations.rename(id, "named");
      const info = await one.conversations.update(id, {});
      expect(info).toStrictEqual({
        id,
        agent: "a",
        title: "named",
        tags: ["z", "w"],
        archived: true,
        metadata: { n: 1 },
        createdAt: 5,
        lastMessageAt: 5,
        messageCount: 2,
      });
      expect(await two.conversations.archive(id, false)).toStrictEqual({ ...info, archived: false });
      expect((await two.conversations.load(id))?.messages).toEqual(numbered(2));
    });

    it("of many concurrent callers are all kept", async () => {
      const sps = [await data.open(), await data.open()];
      const { id } = await (sps[0] as Savepoint).conversations.create();
      await Promise.all(
        sps.flatMap(({ conversations }) => [
          conversations.rename(id, "named"),
          conversations.tag(id, ["t"]),
          conversations.archive(id),
          conversations.update(id, { metadata: { m: 1 } }),
          ...numbered(10).map((each) => conversations.append(id, [each])),
        ]),
      );
      expect(await (await data.open()).conversations.load(id)).toMatchObject({
        title: "named",
        tags: ["t"],
        archived: true,
        metadata: { m: 1 },
        messageCount: 20,
      });
    });

    it("keep a conversation active until it is archived or deleted, oldest first", async () => {
      const [one, two] = [await data.open(), await data.open()];
      await one.agents.save({ id: "a", name: "A" });
      const active = async (): Promise<readonly string[] | undefined> =>
        (await two.agents.load("a"))?.activeConversations;
      for (const id of ["z", "10", "9", "b"]) await one.conversations.create({ id, agent: "a" });
      await one.conversations.create({ id: "other", agent: "b" });
      await one.conversations.create({ id: "archived", agent: "a", archived: true });
      expect(await active()).toEqual(["z", "10", "9", "b"]);
      await one.conversations.archive("10");
      await one.conversations.append("z", said(["newer"]));
      expect(await active()).toEqual(["z", "9", "b"]);
      await one.conversations.archive("10", false);
      await one.conversations.delete("9");
      await one.conversations.save({ id: "z", archived: true, messages: [] });
      expect(await active()).toEqual(["10", "b"]);
    });
  });

  describe("list", () => {
    it("returns the newest first, filtered by agent, tag, archive and time, up to the limit", async () => {
      let time = 1_000;
      const sp = await data.open({ now: () => time });
      const make = async (id: string, options: object): Promise<void> => {
        time += 1_000;
        await sp.conversations.create({ id, messages: said(["x"]), ...options });
      };
      await make("1", { agent: "a", tags: ["t"] });
      await make("2", { agent: "b", tags: ["t", "u"] });
      await make("3", { agent: "a", archived: true });
      await make("4", { tags: ["u"] });
      await make("5", { agent: "a", tags: ["u"], messages: [] });
      const { conversations } = await data.open();
      const ids = async (options: Parameters<typeof conversations.list>[0]): Promise<string> =>
        (await conversations.list(options).all()).map(({ id }) => id).join("");
      expect(await ids({})).toBe("54321");
      expect(await ids({ agent: "a" })).toBe("531");
      expect(await ids({ agent: "nobody" })).toBe("");
      expect(await ids({ tag: "t" })).toBe("21");
      expect(await ids({ tag: "u", agent: "a" })).toBe("5");
      expect(await ids({ tag: "T" })).toBe("");
      expect(await ids({ archived: true })).toBe("3");
      expect(await ids({ archived: false, agent: "a" })).toBe("51");
      expect(await ids({ since: 4_000 })).toBe("543");
      expect(await ids({ since: new Date(4_001) })).toBe("54");
      expect(await ids({ limit: 2 })).toBe("54");
      expect(await ids({ limit: 1, archived: true })).toBe("3");
      expect(await ids({ limit: 0 })).toBe("");
      time = 9_000;
      await sp.conversations.append("1", said(["again"]));
      expect(await ids({ since: 9_000 })).toBe("1");
      const [info] = await conversations.list({ limit: 1 }).all();
      expect(await conversations.load("5")).toStrictEqual({ ...info, messages: [], entries: [], first: 0, holes: [] });
    });

    it("returns each of hundreds of conversations exactly once", async () => {
      const sp = await data.open();
      const ids = Array.from({ length: 600 }, (_, n) => `c${n}`);
      for (const id of ids) await sp.conversations.create({ id, agent: "a" });
      expect((await sp.conversations.list().all()).map(({ id }) => id)).toEqual([...ids].reverse());
      expect((await sp.conversations.list({ agent: "a" }).all()).map(({ id }) => id)).toEqual([...ids].reverse());
    });

    it("rejects an invalid time", async () => {
      const { conversations } = await data.open();
      await expect((async () => conversations.list({ since: new Date("no") }).all())()).rejects.toMatchObject({
        code: "INVALID_ARGUMENT",
      });
    });
  });

  it("are deleted permanently with their messages, and other conversations are kept", async () => {
    const sp = await data.open();
    const long = numbered(300).map(({ content }) => message.user(`${content} ${"words ".repeat(50)}`));
    await sp.conversations.create({ id: "keep", messages: long });
    await sp.conversations.create({ id: "go", messages: long });
    expect(await sp.conversations.delete("go")).toBe(true);
    await sp.compact();
    const again = await data.open();
    expect((await again.conversations.load("keep"))?.messages).toEqual(long);
    expect(await again.conversations.load("go")).toBeUndefined();
    expect((await again.conversations.search("words")).map((hit) => hit.conversationId)).toEqual(["keep"]);
  });

  it("behave like a plain model under random operations", async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(anyStep, { minLength: 1, maxLength: 25, size: "max" }), async (steps) => {
        const world = await kind.setup();
        try {
          await new World([await world.open(), await world.open()]).run(steps);
        } finally {
          await world.teardown();
        }
      }),
      { numRuns: kind.name.includes("file") ? runs(15, 2) : runs(40, 3) },
    );
  });
});

describe("damage of conversations", () => {
  const file = useDamageableFile();
  const { open, flip } = file;

  /** The Savepoint that created "c". */
  let first: Savepoint;

  beforeEach(async () => {
    first = await open();
    await first.conversations.create({ id: "c", agent: "a", messages: numbered(10) }); // number 0
  });

  const flipMessage = (item: number): void => file.damage({ kind: "item", tape: messageTape(0), item }, "flip");

  it("of a message is reported as DAMAGED with its conversation, and the other messages stay readable", async () => {
    flipMessage(4);
    const { conversations } = await open();
    await expect(conversations.load("c")).rejects.toMatchObject({ code: "DAMAGED", details: { conversationId: "c" } });
    expect(file.events).toMatchObject([{ conversationId: "c" }]);
    const partial = await conversations.load("c", { partial: true });
    expect(partial?.holes.map(({ index }) => index)).toEqual([4]);
    expect(partial?.messages).toEqual([...numbered(4), ...numbered(5, 5)]);
    expect(partial?.entries.map((entry) => entry.message)).toEqual(partial?.messages);
    expect((await conversations.load("c", { limit: 5 }))?.messages).toEqual(numbered(5, 5));
    await conversations.append("c", numbered(1, 10));
    expect((await conversations.load("c", { limit: 2 }))?.messages).toEqual(numbered(2, 9));
    expect((await conversations.search("message 10")).map((hit) => hit.conversationId)).toEqual(["c"]);
    expect(await conversations.list().all()).toMatchObject([{ id: "c", messageCount: 11 }]);
    // A caller that still has the message can save it again.
    await conversations.save({ id: "c", messages: numbered(11) });
    expect((await (await open()).conversations.load("c"))?.messages).toEqual(numbered(11));
  });

  it("of a record or a counter is reported as DAMAGED, not as missing, and hides no other conversation", async () => {
    // With the Savepoint that created "c": another one would not continue with number 1.
    await first.conversations.create({ id: "d", agent: "a", messages: numbered(2) });
    await first.conversations.create({ id: "e", agent: "a", messages: numbered(3) });
    flip(conversationKey("c"));
    flip(messageCounterKey("d", 1));
    const { conversations } = await open();
    for (const id of ["c", "d"]) {
      await expect(conversations.load(id)).rejects.toMatchObject({ code: "DAMAGED" });
      await expect(conversations.rename(id, "x")).rejects.toMatchObject({ code: "DAMAGED" });
      await expect(conversations.append(id, numbered(1))).rejects.toMatchObject({ code: "DAMAGED" });
      await expect(conversations.create({ id })).rejects.toMatchObject({ code: "CONFLICT" });
    }
    file.events.length = 0;
    expect((await conversations.list().all()).map(({ id }) => id)).toEqual(["e"]);
    expect(new Set(file.events.map(({ conversationId }) => conversationId))).toEqual(new Set(["c", "d"]));
    expect((await conversations.load("e"))?.messages).toEqual(numbered(3));
  });

  it("does not prevent a conversation from being deleted and created again", async () => {
    flipMessage(4);
    const sp = await open();
    expect(await sp.conversations.delete("c")).toBe(true);
    await sp.conversations.create({ id: "c", messages: numbered(1) });
    expect((await (await open()).conversations.load("c"))?.messages).toEqual(numbered(1));
    flip(conversationKey("c"));
    const again = await open();
    expect(await again.conversations.delete("c")).toBe(true);
    expect(await again.conversations.load("c")).toBeUndefined();
    await again.conversations.create({ id: "c", messages: numbered(2) });
    expect((await (await open()).conversations.load("c"))?.messages).toEqual(numbered(2));
    expect(await again.stats()).toMatchObject({ conversations: 1, messages: 2 });
  });

  it("of derived data is worked around and reported", async () => {
    flip(lastMessageTimeKey("c", 0));
    flip(derivedTitleKey("c", 0));
    const loaded = await (await open()).conversations.load("c");
    expect(loaded?.messages).toEqual(numbered(10));
    expect(loaded?.lastMessageAt).toBe(loaded?.createdAt);
    expect(file.events).toHaveLength(2);
  });
});

type Kind = "create" | "append" | "save" | "edit" | "rename" | "tag" | "archive" | "delete" | "load" | "compact";

interface Step {
  readonly kind: Kind;
  readonly sp: number;
  readonly id: number;
  readonly texts: readonly string[];
  readonly seed: number;
}

const anyStep: fc.Arbitrary<Step> = fc.record({
  kind: fc.constantFrom<Kind[]>(
    "create",
    "create",
    "append",
    "append",
    "append",
    "save",
    "edit",
    "edit",
    "rename",
    "tag",
    "archive",
    "delete",
    "load",
    "compact",
  ),
  sp: fc.nat({ max: 1 }),
  id: fc.nat({ max: 2 }),
  texts: fc.array(fc.constantFrom("a", "b", "c", "a longer text", ""), { maxLength: 4 }),
  seed: fc.nat({ max: 1000 }),
});

interface ModelConversation {
  title: string | undefined;
  tags: readonly string[];
  archived: boolean;
  messages: Message[];
}

/** The expected conversations, beside the actual ones. */
class World {
  readonly #model = new Map<string, ModelConversation>();

  constructor(readonly sps: readonly Savepoint[]) {}

  async run(steps: readonly Step[]): Promise<void> {
    for (const step of steps) {
      await this.#step(step);
      await this.#check(`c${step.id}`);
    }
    for (const sp of this.sps) {
      const listed = await sp.conversations.list({ agent: "a" }).all();
      assert.deepEqual(listed.map(({ id }) => id).sort(), [...this.#model.keys()].sort());
      const messages = [...this.#model.values()].reduce((sum, each) => sum + each.messages.length, 0);
      const stats = await sp.stats({ agent: "a" });
      assert.deepEqual([stats.conversations, stats.messages], [this.#model.size, messages]);
    }
    for (const id of this.#model.keys()) await this.#check(id);
  }

  async #step({ kind, sp, id: number, texts, seed }: Step): Promise<void> {
    const { conversations } = this.sps[sp] as Savepoint;
    const id = `c${number}`;
    const model = this.#model.get(id);
    const messages = texts.map((text, n) => ((seed + n) % 3 ? message.user(text) : message.assistant(text)));
    const fresh = { title: undefined, tags: [], archived: false };
    const expectCode = async (work: Promise<unknown>, code: string): Promise<void> => {
      await assert.rejects(work, (error: { code: string }) => error.code === code);
    };
    const change = async (work: Promise<unknown>, changed: Partial<ModelConversation>): Promise<void> => {
      if (!model) return expectCode(work, "CONVERSATION_NOT_FOUND");
      await work;
      Object.assign(model, changed);
    };
    switch (kind) {
      case "create":
        if (model) return expectCode(conversations.create({ id, agent: "a", messages }), "CONFLICT");
        await conversations.create({ id, agent: "a", messages });
        this.#model.set(id, { ...fresh, messages });
        return;
      case "append":
        if (!model && messages.length === 0) return;
        return change(conversations.append(id, messages), { messages: [...(model?.messages ?? []), ...messages] });
      case "save":
        await conversations.save({ id, agent: "a", messages });
        this.#model.set(id, { ...fresh, messages });
        return;
      case "edit": {
        if (!model) return;
        const at = seed % (model.messages.length + 1);
        const edited = [...model.messages];
        edited.splice(at, (seed >> 3) % 3, ...messages);
        if (seed % 4 === 0) edited.reverse();
        const { title, tags, archived } = model;
        await conversations.save({ id, title, tags, archived, messages: edited });
        // A title that equals the one of the first message was not set explicitly.
        Object.assign(model, { messages: edited, title: title === titleOf(model.messages) ? undefined : title });
        return;
      }
      case "rename":
        return change(conversations.rename(id, texts[0]), { title: texts[0] === "" ? undefined : texts[0] });
      case "tag":
        return change(conversations.tag(id, texts.filter(Boolean)), { tags: [...new Set(texts.filter(Boolean))] });
      case "archive":
        return change(conversations.archive(id, seed % 2 === 0), { archived: seed % 2 === 0 });
      case "delete":
        assert.equal(await conversations.delete(id), model !== undefined);
        this.#model.delete(id);
        return;
      case "load": {
        const limit = seed % 5;
        const loaded = await conversations.load(id, { limit });
        assert.deepEqual(loaded?.messages, limit === 0 ? model && [] : model?.messages.slice(-limit));
        return;
      }
      case "compact":
        await this.sps[sp]?.compact();
    }
  }

  async #check(id: string): Promise<void> {
    const model = this.#model.get(id);
    for (const sp of this.sps) {
      const loaded = await sp.conversations.load(id);
      if (!model || !loaded) {
        assert.equal(loaded, model);
        continue;
      }
      const { title, tags, archived, messages, messageCount, holes } = loaded;
      assert.deepEqual(
        { tags, archived, messages, messageCount, holes },
        {
          tags: model.tags,
          archived: model.archived,
          messages: model.messages,
          messageCount: model.messages.length,
          holes: [],
        },
      );
      assert.equal(title, model.title ?? titleOf(model.messages));
      assert.equal(new Set(loaded.entries.map((entry) => entry.id)).size, messages.length);
    }
  }
}

function titleOf(messages: readonly Message[]): string | undefined {
  return messages.find(({ role, content }) => role === "user" && content !== "")?.content;
}
