/** A bundle that was changed is rejected, nothing of the changed section is imported, and other data is not harmed. */
import assert from "node:assert/strict";
import { beforeAll, describe, expect, it } from "vitest";
import { isSavepointError, message, Savepoint } from "../../src/index.js";
import { fromLines, linesOf, placesOf } from "./bytes.js";
import { noise, wholeOf } from "./whole.js";
import { isFull } from "../support/runs.js";

const CODES = ["DAMAGED", "NOT_A_STORE", "STORE_TOO_NEW"] as const;

let bundle: Uint8Array;
let lines: string[];

beforeAll(async () => {
  const sp = await Savepoint.open("memory:");
  await sp.agents.save({ id: "a", name: "A", state: { n: 1 } });
  await sp.conversations.create({ id: "c", agent: "a", title: "T", messages: [message.user("hi")] });
  await sp.checkpoints.create({ agent: "a" });
  await sp.session("one").save({ n: 1, list: ["x".repeat(40)] }, { label: "l" });
  await sp.session("two").save({ n: 2, bytes: noise(1, 1500) });
  bundle = await sp.export().bytes();
  lines = linesOf(bundle);
});

const quiet = { on: { damage: () => {} } };

/** Is the error one that says what is wrong with the bundle? */
function isRefusal(error: unknown): boolean {
  return CODES.some((code) => isSavepointError(error, code));
}

/** What of the bundle is there: it must load, and can only be what came before the change. */
async function visible(sp: Savepoint): Promise<string[]> {
  const names: string[] = [];
  for await (const { id } of sp.sessions.list()) {
    names.push(`session ${id}`);
    assert.ok(await sp.session(id).latest());
  }
  for await (const { id } of sp.agents.list()) {
    names.push(`agent ${id}`);
    assert.ok(await sp.agents.load(id));
  }
  for await (const { id } of sp.conversations.list()) {
    names.push(`conversation ${id}`);
    assert.ok(await sp.conversations.load(id));
  }
  for await (const { id } of sp.checkpoints.list()) assert.ok(await sp.checkpoints.load(id));
  return names;
}

/** What a section brings along, by the order of sections. */
const BROUGHT = ["conversation c", "agent a", "session one", "session two"];

/** How many sections end at or before a line. */
const sectionsBefore = (line: number): number => placesOf(bundle, "end").filter((end) => end < line).length;

/** Imports what is changed from a line on. Returns what went wrong, if it did. */
async function tryChanged(changed: Uint8Array, line: number): Promise<string | undefined> {
  const sp = await Savepoint.open("memory:", quiet);
  let foreign: string | undefined;
  try {
    await sp.import(changed);
    return "it was taken";
  } catch (error) {
    if (!isRefusal(error)) foreign = `error ${(error as Error).name}: ${(error as Error).message}`;
  }
  try {
    const found = await visible(sp);
    const allowed = BROUGHT.slice(0, sectionsBefore(line));
    if (found.some((name) => !allowed.includes(name))) return `${found.join()} is there, not only ${allowed.join()}`;
    await sp.session("new").save(1);
    await sp.session("newer").save(1);
    return (await sp.session("new").latest())?.state === 1 ? foreign : "the store is broken";
  } catch (error) {
    return `afterwards: ${String(error)}`;
  }
}

const replaceLine = (at: number, line: string): string[] => [...lines.slice(0, at), line, ...lines.slice(at + 1)];

let flipped: Promise<string[]> | undefined;

/** Changes one bit of every byte with `STORES=all`, else of some; of bytes in base64, of some. Returns what went wrong. */
function flipAll(): Promise<string[]> {
  return (flipped ??= flipEach());
}

async function flipEach(): Promise<string[]> {
  const wrong = new Map<string, string>();
  const [blob] = placesOf(bundle, "blob");
  const [, agentEnd] = placesOf(bundle, "end");
  let line = 0;
  for (let at = 0; at < bundle.length; at++) {
    if (bundle[at] === 10) line++;
    if (!isFull && at % 13 !== 0) continue;
    if (line === blob && at % 50 !== 0) continue;
    // The sections of the agent are long; what is in them is much the same.
    if (line > 2 && line < (agentEnd ?? 0) && at % 5 !== 0) continue;
    const changed = Buffer.from(bundle);
    changed[at] = (changed[at] as number) ^ (1 << (at % 8));
    const why = await tryChanged(changed, bundle[at] === 10 ? line - 1 : line);
    if (why !== undefined) wrong.set(why, `${why} (byte ${at}, line ${line}: ${lines[line]?.slice(0, 60)})`);
  }
  return [...wrong.values()];
}

describe("a bundle", () => {
  it("has the sections that these tests are about", async () => {
    expect(placesOf(bundle, "end")).toHaveLength(BROUGHT.length);
    const sp = await Savepoint.open("memory:");
    await sp.import(bundle);
    expect((await visible(sp)).slice().sort()).toEqual(BROUGHT.slice().sort());
  });

  it("with any byte changed is not imported", async () => {
    const wrong = (await flipAll()).filter((why) => !why.startsWith("error "));
    expect(wrong).toEqual([]);
  });

  it("with any byte changed is rejected with an error that names the problem", async () => {
    expect(await flipAll()).toEqual([]);
  });

  it("with any line left out is rejected", async () => {
    const wrong: string[] = [];
    for (const [index, line] of lines.entries()) {
      const why = await tryChanged(fromLines([...lines.slice(0, index), ...lines.slice(index + 1)]), index);
      if (why !== undefined) wrong.push(`${why}: without ${line.slice(0, 60)}`);
    }
    expect(wrong).toEqual([]);
  });

  it("with any two lines swapped is rejected", async () => {
    const wrong: string[] = [];
    for (let a = 0; a < lines.length; a++) {
      for (let b = a + 1; b < lines.length; b++) {
        const changed = lines.slice();
        [changed[a], changed[b]] = [lines[b] as string, lines[a] as string];
        const why = await tryChanged(fromLines(changed), a);
        if (why !== undefined) wrong.push(`${why}: ${a} and ${b}`);
      }
    }
    expect(wrong).toEqual([]);
  });

  it("with two sections swapped, or one left out or duplicated, is rejected", async () => {
    const ends = placesOf(bundle, "end");
    const cuts = [1, ...ends.map((end) => end + 1)];
    const sections = ends.map((_, n) => lines.slice(cuts[n], cuts[n + 1]));
    const put = (order: readonly number[]): Uint8Array =>
      fromLines([lines[0] as string, ...order.flatMap((n) => sections[n] ?? []), lines.at(-1) as string]);
    assert.deepEqual(Buffer.from(put([0, 1, 2, 3])), Buffer.from(bundle));
    for (const order of [[1, 0, 2, 3], [0, 1, 3, 2], [0, 2, 3], [0, 1, 2], [0, 0, 1, 2, 3], [0, 1, 2, 3, 3], []]) {
      const first = order.findIndex((section, n) => section !== n);
      const place = cuts[first < 0 ? order.length : first] ?? 1;
      expect([order, await tryChanged(put(order), place)]).toEqual([order, undefined]);
    }
  });

  it("that is cut off anywhere is rejected", async () => {
    const wrong: string[] = [];
    for (let length = 0; length < bundle.length; length += isFull ? (length % 7 === 0 ? 1 : 9) : 61) {
      const cut = bundle.subarray(0, length);
      const line = cut.filter((byte) => byte === 10).length;
      const why = await tryChanged(cut, line);
      if (why !== undefined) wrong.push(`${why}: ${length} bytes`);
    }
    expect(wrong).toEqual([]);
  });

  it("with an inserted line is rejected", async () => {
    const foreign = ['{"session":"{}"}', '{"gone":1}', "{}", "[]", "null", "", "x", '{"end":1}', '{"complete":4}'];
    const wrong: string[] = [];
    for (let at = 0; at <= lines.length; at++) {
      for (const line of foreign) {
        const why = await tryChanged(fromLines([...lines.slice(0, at), line, ...lines.slice(at)]), at);
        // A line after the end is read too late to prevent the import.
        if (why !== undefined && at < lines.length) wrong.push(`${why}: ${line} at ${at}`);
        if (at === lines.length) expect(why).not.toBe("it was taken");
      }
    }
    expect(wrong).toEqual([]);
  });

  it("of another kind, or of a newer version, is rejected with a distinct error", async () => {
    const sp = await Savepoint.open("memory:");
    const newer = Buffer.from(Buffer.from(bundle).toString().replace('"format":1', '"format":2'));
    await expect(sp.import(newer)).rejects.toMatchObject({ code: "STORE_TOO_NEW" });
    for (const bytes of ["SQLite format 3\0", "{}\n", "PK\u0003\u0004", '{"savepoint":"store"}\n', "\n", ""]) {
      await expect(sp.import(Buffer.from(bytes)), bytes).rejects.toSatisfy(isRefusal);
    }
    expect(await sp.stats()).toMatchObject({ sessions: 0, conversations: 0, agents: 0 });
  });
});

describe("a rejected bundle", () => {
  it("leaves nothing that is mistaken for data of the correct bundle", async () => {
    const [right, sp] = [await Savepoint.open("memory:"), await Savepoint.open("memory:", quiet)];
    await right.import(bundle);
    const text = Buffer.from(bundle).toString();
    const blob = lines[placesOf(bundle, "blob")[0] ?? 0] ?? "";
    const other = blob.replace('"bytes":"', '"bytes":"AAAA').replace(/.{4}"}$/, '"}');
    for (const [what, instead] of [
      ["hi", "ho"],
      ["x".repeat(40), "y".repeat(40)],
      [blob, other],
    ] as const) {
      expect(text).toContain(what);
      await expect(sp.import(Buffer.from(text.replace(what, instead)))).rejects.toSatisfy(isRefusal);
    }
    await sp.import(bundle);
    assert.deepEqual(await wholeOf(sp), await wholeOf(right));
  });

  it("does not corrupt bytes that are saved later", async () => {
    const sp = await Savepoint.open("memory:", quiet);
    const [place = 0] = placesOf(bundle, "blob");
    const blob = lines[place] ?? "";
    const changed = replaceLine(place, blob.replace('"bytes":"', '"bytes":"AAAA').replace(/.{4}"}$/, '"}'));
    await expect(sp.import(fromLines(changed))).rejects.toSatisfy(isRefusal);
    await sp.session("own").save({ bytes: noise(1, 1500) });
    assert.deepEqual((await sp.session("own").latest())?.state, { bytes: noise(1, 1500) });
    assert.deepEqual((await (await Savepoint.open("memory:")).import(bundle)).holes, []);
  });

  it("does not use up the numbers of the store", async () => {
    for (const numbers of ["[0.5]", "[0,9007199254740991]", '["a","b"]', "[5,1]", "[-9,1]", "[null,null]", "7", "{}"]) {
      const sp = await Savepoint.open("memory:", quiet);
      await sp.session("before").save(0);
      const header = (lines[0] ?? "").replace(/"numbers":\[[^\]]*\]/, `"numbers":${numbers}`);
      await expect(sp.import(fromLines(replaceLine(0, header))), numbers).rejects.toSatisfy(isRefusal);
      for (let n = 0; n < 40; n++) await sp.session(`after-${n}`).save(n);
      for (let n = 0; n < 40; n++) expect(await sp.session(`after-${n}`).latest()).toMatchObject({ state: n });
      expect(await sp.session("before").latest()).toMatchObject({ state: 0 });
      await sp.import(bundle);
      expect((await sp.session("one").latest())?.state).toMatchObject({ n: 1 });
    }
  });
});
