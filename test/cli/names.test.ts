/** Names of checkpoints and of parts of their states. */
import { describe, expect, it } from "vitest";
import { message, type Savepoint } from "../../src/index.js";
import { errorOf, run } from "./command.js";
import { useFilledPlace } from "./place.js";

/** Session ids that contain the separators of names. */
const ODD = [
  "plain",
  "with space",
  "a#b",
  "a#1",
  "a@b",
  "a:b",
  "a:/b",
  "#",
  "@",
  ":/",
  "übergröße",
  "会话",
  "👩‍👩‍👧",
  "-dash",
  "--graph",
  "__proto__",
  "12345678",
  "$HOME `x` \"q\" 'q' \\",
];

async function saveOdd(sp: Savepoint): Promise<void> {
  await Promise.all(
    ODD.map(async (id) => {
      const session = sp.session(id);
      const { id: first } = await session.save({ of: id, n: 0 });
      await session.save({ of: id, n: 1 });
      const side = await session.fork(first, { branch: "what if" });
      await side.save({ of: id, n: 2 });
    }),
  );
}

describe.concurrent("a session with any id", () => {
  const place = useFilledPlace(saveOdd);
  const show = async (name: string): Promise<unknown> => {
    const ended = await run(["show", "--json", "-s", place().url, "--", name]);
    expect(ended, name).toMatchObject({ code: 0, stderr: "" });
    return (JSON.parse(ended.stdout) as { state?: unknown }).state ?? JSON.parse(ended.stdout);
  };

  it.each(ODD)("%j is shown by its id, number, branch and pointer", async (id) => {
    expect(await show(id)).toEqual({ of: id, n: 1 });
    expect(await show(`${id}#0`)).toEqual({ of: id, n: 0 });
    expect(await show(`${id}@what if:/of`)).toBe(id);
  });

  it("each session is listed and can be shown", async () => {
    const listed = await place().json<{ id: string }[]>(["sessions"]);
    expect(listed.map(({ id }) => id).sort()).toEqual([...ODD].sort());
  });
});

const TWINS = ["00000001-aaaa-twintwin", "00000002-bbbb-twintwin"];

describe.concurrent("a checkpoint name", () => {
  let whole = "";
  const place = useFilledPlace(async (sp) => {
    const session = sp.session("s");
    await session.save({ n: 0 }, { id: TWINS[0] as string });
    await session.save({ n: 1 }, { id: TWINS[1] as string });
    await session.save({ n: 2 }, { id: "short" });
    await session.save({ n: 3 }, { id: "other#id:/x@y" });
    await session.save({ n: 4, list: [{ "a/b": { "c~d": "deep" } }], "": { "": "nothing" }, "k:/k": 5, length: 6 });
    await sp.session("twintwin").save({ n: 7 });
    await sp
      .session("t")
      .save({ n: 8, map: new Map([["k", new Map([["l", 9]])]]), set: new Set([1]), "~1": 10, "01": 11 });
    await sp.agents.save({ id: "ag", name: "Agent", state: { n: 12 } });
    await sp.conversations.create({ id: "c", agent: "ag", messages: [message.user("Hello")] });
    whole = (await sp.checkpoints.create({ agent: "ag", label: "whole" })).id;
  });
  const value = async (name: string): Promise<unknown> => place().json(["show", name]);
  const state = async (name: string): Promise<unknown> => ((await value(name)) as { state: unknown }).state;

  it("an id names a checkpoint, whatever characters it contains", async () => {
    for (const [n, id] of [...TWINS, "short", "other#id:/x@y"].entries()) expect(await state(id)).toEqual({ n });
    expect(await value("other#id:/x@y:/n")).toBe(3);
  });

  it("the last eight characters of an id name a checkpoint", async () => {
    const { id } = await place().json<{ id: string }>(["show", "s", "--info"]);
    expect(await value(`${id.slice(-8)}:/n`)).toBe(4);
    expect(await value("short:/n")).toBe(2);
    expect((await place().on(["show", id.slice(-7)])).code).toBe(4);
  });

  it("a session id takes precedence over the end of a checkpoint id", async () => {
    expect(await state("twintwin")).toEqual({ n: 7 });
  });

  it("session#seq names a checkpoint, and a number that does not exist is an error", async () => {
    expect(await state("s#0")).toEqual({ n: 0 });
    for (const name of ["s#5", "s#-1", "s#", "s#x", "s#1.0", "s#9007199254740993", "s@", "s@nope", "@main"]) {
      const ended = await place().on(["show", name, "--json"]);
      expect(ended.code, name).toBe(4);
      expect(errorOf(ended).code).toBe("NOT_FOUND");
    }
  });

  it("a JSON pointer names a part of a state", async () => {
    expect(await value("s:/list/0/a~1b/c~0d")).toBe("deep");
    expect(await value("s:/list")).toEqual([{ "a/b": { "c~d": "deep" } }]);
    expect(await value("s:/")).toEqual({ "": "nothing" });
    expect(await value("s://")).toBe("nothing");
    expect(await value("s:/k:~1k")).toBe(5);
    expect(await value("t:/map/k/l")).toBe(9);
    expect(await value("t:/~01")).toBe(10);
    expect(await value("t:/01")).toBe(11);
  });

  it("a key called length is a key like any other", async () => {
    expect(await value("s:/length")).toBe(6);
  });

  it.each([
    "s:/nope",
    "s:/list/1",
    "s:/list/-",
    "s:/list/length",
    "s:/n/x",
    "s:/__proto__",
    "s:/list/0/a/b",
    "s:/toString",
  ])("%s points to nothing and exits with 4", async (name) => {
    const ended = await place().on(["show", name, "--json"]);
    expect(ended.code).toBe(4);
    expect(errorOf(ended).code).toBe("NOT_FOUND");
  });

  it("the error for a pointer to nothing lists the keys that exist there", async () => {
    const { stderr } = await place().on(["show", "t:/nope"]);
    expect(stderr).toContain("The keys there: n, map, set, ~1, 01.");
  });

  it("a checkpoint of an agent can be shown but not compared", async () => {
    expect(await value(whole)).toMatchObject({
      id: whole,
      agent: "ag",
      label: "whole",
      state: { id: "ag", state: { n: 12 } },
      conversations: [{ id: "c", messageCount: 1 }],
    });
    expect(await value(`${whole.slice(-8)}:/state/n`)).toBe(12);
    const { stdout, stderr, code } = await place().on(["diff", whole]);
    expect({ stdout, code }).toEqual({ stdout: "", code: 2 });
    expect(stderr).toContain("savepoint restore");
  });
});

describe.concurrent("an ambiguous name", () => {
  const place = useFilledPlace(async (sp) => {
    for (const [n, id] of TWINS.entries()) await sp.session(`s${n}`).save({ n }, { id });
    for (let n = 0; n < 7; n++) await sp.session(`many-${n}`).save({ n }, { id: `${n}-manymany` });
  });

  it("an ambiguous name exits with 4 and lists the matches", async () => {
    const { stdout, stderr, code } = await place().on(["show", "twintwin"]);
    expect({ stdout, code }).toEqual({ stdout: "", code: 4 });
    for (const [n, id] of TWINS.entries()) expect(stderr).toContain(`s${n}#0 (${id})`);
    const json = await place().on(["diff", "twintwin", "--json"]);
    expect(json.code).toBe(4);
    expect(errorOf(json).code).toBe("AMBIGUOUS");
  });

  it("an ambiguous name with a pointer exits with 4", async () => {
    expect(errorOf(await place().on(["show", "twintwin:/n", "--json"])).code).toBe("AMBIGUOUS");
  });

  it("the error lists only some of many matches", async () => {
    const { stderr } = await place().on(["show", "manymany"]);
    expect(stderr).toContain("and 2 more");
  });
});

describe.concurrent("a long or unusual pointer", () => {
  const long = "k".repeat(3000);
  const place = useFilledPlace((sp) =>
    sp.session("s").save({ [long]: 1, "line\nbreak": 2, "\u0007bell": 3, "half\ud83d": 4 }),
  );

  it.each([
    ["longer than ids can be", long, 1],
    ["with a line break", "line\nbreak", 2],
    ["with a bell", "\u0007bell", 3],
  ])("a key %s is resolved", async (_, key, expected) => {
    expect(await place().json(["show", `s:/${key}`])).toBe(expected);
  });
});
