/** Stored data is not trusted: it cannot affect a terminal, and JSON output contains it unchanged. */
import { describe, expect, it } from "vitest";
import { message, Savepoint } from "../../src/index.js";
import { errorOf, linesOf } from "./command.js";
import { createPlace, useFilledPlace } from "./place.js";

/** Changes colours, moves the cursor, clears the screen, sets the title, rings the bell, breaks the line, reverses text. */
const EVIL = "a\u001b[31mred\u001b[0m\u001b[2J\u001b]0;title\u0007\u009b1m\r\nnext\u0000\u007f\u202egnp\u2066x\u200f";
// oxlint-disable-next-line no-control-regex -- control characters are what it matches
const DISTURBING = /[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069]/u;
/** Control characters are not allowed in ids, but bidirectional ones are. */
const ID = "id \u202egnp\u2066";

async function fillEvil(sp: Savepoint): Promise<void> {
  await sp.agents.save({
    id: ID,
    name: EVIL,
    type: EVIL,
    systemPrompt: EVIL,
    capabilities: [EVIL],
    config: { [EVIL]: EVIL },
    state: { [EVIL]: EVIL },
  });
  await sp.conversations.create({
    id: ID,
    agent: ID,
    title: EVIL,
    tags: [ID],
    messages: [message.user(`needle ${EVIL}`)],
  });
  const session = sp.session(ID, { agent: ID });
  await session.save({ [EVIL]: 1 });
  await session.save(
    { [EVIL]: EVIL, messages: [message.user(`needle ${EVIL}`)] },
    {
      id: `checkpoint ${ID}`,
      label: ID,
      description: EVIL,
      trigger: EVIL,
      reason: EVIL,
      resumeHint: EVIL,
      status: "failed",
      metadata: { [EVIL]: EVIL },
    },
  );
  await session.fork({ seq: 0 }, { branch: ID });
}

describe.concurrent("control characters in stored data", () => {
  const place = useFilledPlace(fillEvil);

  it.each([
    ["sessions", ["sessions"], 2],
    ["log", ["log"], 3],
    ["log --graph", ["log", ID, "--graph"], 3],
    ["show", ["show", ID], undefined],
    ["show of a part", ["show", `${ID}:/messages`], undefined],
    ["diff", ["diff", ID], undefined],
    ["diff --stat", ["diff", ID, "--stat"], undefined],
    ["search", ["search", "needle"], 3],
    ["agents", ["agents"], 2],
    ["an agent", ["agents", ID], undefined],
    ["conversations", ["conversations"], 2],
    ["a conversation", ["conversations", ID], undefined],
    ["watch", ["watch", ID], 2],
    ["a session that is not there", ["log", `${ID}x\u202e`], undefined],
    ["a checkpoint that is not there", ["show", `${ID}#99`], undefined],
    ["a pointer that leads nowhere", ["show", `${ID}:/nope`], undefined],
  ])("%s prints them in visible form", async (_, args, lines) => {
    const { stdout, stderr } = await place().on(args);
    expect(stdout + stderr).not.toBe("");
    expect(stdout).not.toMatch(DISTURBING);
    expect(stderr).not.toMatch(DISTURBING);
    if (lines !== undefined) expect(linesOf(stdout)).toHaveLength(lines);
  });

  it("JSON output contains them unchanged", async () => {
    const [first] = await place().json(["log", ID]);
    expect(first).toMatchObject({
      label: ID,
      description: EVIL,
      trigger: EVIL,
      reason: EVIL,
      metadata: { [EVIL]: EVIL },
    });
    expect((await place().json(["show", ID])).state[EVIL]).toBe(EVIL);
    expect(await place().json(["agents", ID])).toMatchObject({
      name: EVIL,
      systemPrompt: EVIL,
      state: { [EVIL]: EVIL },
    });
    expect((await place().json(["conversations", ID])).messages[0].content).toBe(`needle ${EVIL}`);
    expect(await place().json(["diff", ID])).toContainEqual(expect.objectContaining({ before: 1, value: EVIL }));
    expect(await place().jsonl(["sessions"])).toHaveLength(1);
  });

  it("an error message shows control characters of an argument in visible form", async () => {
    for (const args of [
      ["log", "\u001b[31mx"],
      ["show", "\u001b]0;x\u0007"],
      ["\u001b[31mverb"],
      ["log", "--\u001b[31mx"],
      ["log", "-n", "\u001b[31m"],
    ]) {
      const { stdout, stderr } = await place().on(args);
      expect(stdout + stderr, JSON.stringify(args)).not.toMatch(DISTURBING);
    }
  });

  it("every bidirectional control character is shown in visible form", async (test) => {
    const own = await createPlace(test).fill((sp) => sp.session("s").save({}, { label: "a\u061cb" }));
    expect(await own.text(["log"])).not.toContain("\u061c");
  });
});

describe.concurrent("values that JSON cannot represent", () => {
  const state = {
    date: new Date(1e12),
    noDate: new Date(Number.NaN),
    bytes: new Uint8Array([0, 255, 10]),
    map: new Map<unknown, unknown>([
      ["k", 1n],
      [{ o: 1 }, new Set([new Date(0)])],
    ]),
    set: new Set([1, "1"]),
    big: 12345678901234567890n,
    numbers: [Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY, -0, 1.5],
    url: new URL("https://example.org/a?b"),
    list: [undefined, null],
    gone: undefined,
    nested: { deep: [{ at: new Date(0) }] },
  };
  const place = useFilledPlace(async (sp) => {
    const session = sp.session("s");
    await session.save({});
    await session.save(state, { metadata: { at: new Date(0), n: 1n } });
    await sp.session("u").save({ n: 0 });
    await sp.session("u").save({ n: 0, gone: undefined });
    await sp.session("nothing").save(undefined);
    await sp.session("text").save("just a text");
    await sp.session("null").save(null);
  });
  const PLAIN = {
    date: { $date: "2001-09-09T01:46:40.000Z" },
    noDate: { $date: null },
    bytes: { $bytes: 3, base64: "AP8K" },
    gone: { $undefined: true },
    map: {
      $map: [
        ["k", { $bigint: "1" }],
        [{ o: 1 }, { $set: [{ $date: "1970-01-01T00:00:00.000Z" }] }],
      ],
    },
    set: { $set: [1, "1"] },
    big: { $bigint: "12345678901234567890" },
    numbers: [{ $number: "NaN" }, { $number: "Infinity" }, { $number: "-Infinity" }, { $number: "-0" }, 1.5],
    url: { $url: "https://example.org/a?b" },
    list: [{ $undefined: true }, null],
    nested: { deep: [{ at: { $date: "1970-01-01T00:00:00.000Z" } }] },
  };

  it("show prints each of them in its tagged form", async () => {
    expect((await place().json(["show", "s"])).state).toEqual(PLAIN);
    const [, text = ""] = (await place().text(["show", "s"])).split("\n\n");
    expect(JSON.parse(text)).toEqual(PLAIN);
    expect(await place().json(["show", "s:/map/k"])).toEqual({ $bigint: "1" });
    expect(await place().json(["show", "s:/nested/deep/0/at"])).toEqual({ $date: "1970-01-01T00:00:00.000Z" });
  });

  it("log prints metadata in the tagged form", async () => {
    const metadata = { at: { $date: "1970-01-01T00:00:00.000Z" }, n: { $bigint: "1" } };
    expect(await place().json(["log", "s"])).toMatchObject([{ metadata }, {}]);
    expect(await place().json(["sessions"])).toContainEqual(
      expect.objectContaining({ head: expect.objectContaining({ metadata }) }),
    );
  });

  it("diff prints changes in the tagged form", async () => {
    const changes = await place().jsonl(["diff", "s"]);
    expect(changes).toContainEqual({ op: "add", path: "/big", value: PLAIN.big });
    expect(changes).toContainEqual({ op: "add", path: "/map", value: PLAIN.map });
  });

  it("a state that is a string or null is printed as such", async () => {
    expect((await place().json(["show", "text"])).state).toBe("just a text");
    expect(await place().json(["show", "null"])).toMatchObject({ state: null });
    expect(await place().text(["show", "null"])).toMatch(/\n\nnull\n$/);
  });

  it("show --json prints valid JSON for a part that is undefined", async () => {
    const { stdout } = await place().on(["show", "s:/gone", "--json"]);
    JSON.parse(stdout);
  });

  it("show prints a part that is undefined", async () => {
    expect((await place().on(["show", "s:/gone"])).code).toBe(0);
  });

  it("show prints a state that is undefined", async () => {
    expect((await place().on(["show", "nothing"])).code).toBe(0);
  });

  it("diff reports a field that became undefined", async () => {
    expect((await place().on(["diff", "u"])).code).toBe(0);
  });

  it("diff --json reports a field that became undefined as { $undefined: true }", async () => {
    expect(await place().json(["diff", "u"])).toEqual([{ op: "add", path: "/gone", value: { $undefined: true } }]);
  });

  it("watch prints metadata in the tagged form", async (test) => {
    const own = await createPlace(test).fill((sp) =>
      sp.session("s").save({}, { status: "completed", metadata: { at: new Date(0), n: 1n } }),
    );
    const [first] = await own.jsonl(["watch", "s"]);
    expect(first.checkpoint.metadata).toEqual({ at: { $date: "1970-01-01T00:00:00.000Z" }, n: { $bigint: "1" } });
  });

  it("an instance of a class that only the program registered is an error, and no data is printed", async (test) => {
    class Money {
      constructor(readonly cents: number) {}
    }
    const own = createPlace(test);
    const money = {
      name: "Money",
      class: Money,
      encode: ({ cents }: Money) => cents,
      decode: (cents: number) => new Money(cents),
    };
    const sp = await Savepoint.open(own.url, { classes: [money] });
    await sp.session("s").save({ price: new Money(5) });
    await sp.close();
    const ended = await own.on(["show", "s", "--json"]);
    expect(ended.code).toBe(1);
    expect(errorOf(ended)).toMatchObject({ code: "INVALID_STATE", message: expect.stringContaining("Money") });
    expect(await own.json(["log", "s"])).toHaveLength(1);
  });
});

describe.concurrent("large and deep states", () => {
  it("show prints a state of several megabytes completely", async (test) => {
    const big = { text: "x".repeat(2_000_000), list: Array.from({ length: 20_000 }, (_, n) => n) };
    const place = await createPlace(test).fill((sp) => sp.session("s").save(big));
    expect((await place.json(["show", "s"])).state).toEqual(big);
  });

  it("show prints a state of any depth", async (test) => {
    let deep: unknown = "end";
    for (let n = 0; n < 200; n++) deep = { d: deep };
    const place = await createPlace(test).fill((sp) => sp.session("s").save(deep));
    expect((await place.json(["show", "s"])).state).toEqual(deep);
    expect(await place.json(["show", `s:${"/d".repeat(200)}`])).toBe("end");
  });
});
