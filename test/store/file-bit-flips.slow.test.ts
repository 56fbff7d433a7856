/**
 * Damage anywhere in a folder: every byte with a flipped bit, every length of every file, every file gone. What is read is
 * what was committed last, or is reported; nothing crashes, nothing that is lost is forgotten, and the store stays usable.
 */
import { cpSync, readdirSync, readFileSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { isSavepointError } from "../../src/errors.js";
import { openFileStore, type Store } from "../../src/store.js";
import { makeMemoryFolder, removeFolder } from "./temporary-folder.js";

const BLOB_HASH = "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"; // of "x"
const DROPPED_HASH = "a1fce4363854ff888cff4b8e7875d600c2682390412a8cf79b37d0b11148b0fa"; // of "y"
const KEYS = ["k/1", "k/2", "k/gone", "k/range/1", "k/range/2", "k/back", "moved", "next", "new"];
const TAPES = ["a", "b"];
const ITEMS = 6;
const EVERYTHING = { from: "", to: "\u{10ffff}" };
const AT_ONCE = 6;
const OPTIONS = { durability: "process", onBackgroundFailure: () => {} } as const;

// Thousands of stores, on a machine that may be busy.
vi.setConfig({ testTimeout: 300_000 });

let folder: string;
let original: string;
beforeEach(() => {
  folder = makeMemoryFolder();
  original = join(folder, "original");
});
afterEach(() => removeFolder(folder));

/** In both files: things that are replaced by later ones in the other, go by lines of the other, come back. */
async function fill(store: Store): Promise<void> {
  const item = (n: number): { json: string; refs: string } => ({ json: `{"n":${n}}`, refs: n % 2 ? `${n}+1` : "" });
  await store.commit({
    puts: [
      { key: "k/1", value: "1" },
      { key: "k/gone", value: "1" },
      { key: "k/range/1", value: "1" },
      { key: "k/range/2", value: "1" },
    ],
    blobs: [
      { hash: BLOB_HASH, bytes: Buffer.from("x") },
      { hash: DROPPED_HASH, bytes: Buffer.from("y") },
    ],
  });
  await store.commit({
    puts: [{ key: "moved", value: "1" }],
    items: [{ tape: "a", first: 0, items: [item(0), item(1)] }],
  });
  await store.commit({
    puts: [
      { key: "k/1", value: '{"v":2}', refs: "0+1" },
      { key: "k/2", value: "no JSON" },
    ],
    deletes: ["k/gone"],
    items: [{ tape: "b", counter: "next", items: [item(0)] }],
  });
  await store.commit({
    deletes: [{ from: "k/range/", to: "k/range0" }],
    puts: [{ key: "k/range/2", value: "[2]\n{}" }],
  });
  await store.commit({ puts: [{ key: "moved", value: "2" }] });
  await store.commit({ items: [{ tape: "a", first: 2, items: [item(2)] }] });
  await store.retain("a", [{ start: 1, count: 2 }], { below: 3 });
  await store.dropBlobs([DROPPED_HASH], { unusedSince: Date.now() + 1_000 });
  await store.commit({ puts: [{ key: "k/back", value: "1" }] });
  await store.commit({ deletes: ["k/back"], puts: [{ key: "k/back", value: "2" }] });
}

async function makeClosed(compact = false): Promise<void> {
  const store = await openFileStore(original, OPTIONS);
  await fill(store);
  if (compact) await store.compact();
  if (compact) await store.commit({ puts: [{ key: "k/1", value: "3" }] });
  await store.close();
}

/** As a power cut may leave it: the commit log is not synced separately. */
async function makeWithNewList(): Promise<void> {
  await makeClosed();
  writeFileSync(join(original, "commits.jsonl"), '{"file":', { flag: "a" });
  const store = await openFileStore(original, OPTIONS);
  expect(await store.check?.(), "a line that was being written is no damage").toEqual([]);
  // The next writer does it, even if it has nothing to write.
  await store.retain("a", [], { below: 0 });
  await store.close();
}

describe("a store that was closed", () => {
  beforeEach(() => makeClosed());

  it("notices a flipped bit in any byte", () => sweep(flips(1)));
  it("notices that any number of bytes is missing at the end of a file", () => sweep(cuts(1)));
  it("notices that a file is missing", () => sweep(() => [["removed", rmSync]]));
});

describe("a store that was compacted", () => {
  beforeEach(() => makeClosed(true));

  it("notices a flipped bit in any byte", () => sweep(flips(1)));
  it("notices that any number of bytes is missing at the end of a file", () => sweep(cuts(1)));
  it("notices that a file is missing", () => sweep(() => [["removed", rmSync]]));

  it("still knows what is missing when it was opened once", async () => {
    const store = await openFileStore(original, OPTIONS);
    const puts = Array.from({ length: 300 }, (_, n) => ({ key: `many/${n}`, value: String(n) }));
    await store.commit({ puts });
    await store.commit({ puts: [{ key: "k/1", value: "4" }] });
    await store.compact();
    await store.close();
    // At the end of a line: there is no damaged one that would tell.
    const file = join(original, "records.jsonl");
    truncateSync(file, readFileSync(file).indexOf("\n", 10_000) + 1);
    for (let time = 0; time < 3; time++) {
      const again = await openFileStore(original, OPTIONS);
      const found = await again.get(puts.map(({ key }) => key));
      for (const [n, record] of found.entries()) {
        if (record && "value" in record) expect(record.value).toBe(String(n));
      }
      expect(found.some((record) => !record || "unreadable" in record)).toBe(true);
      await again.close();
    }
  });
});

describe("a store whose commit log was written anew", () => {
  beforeEach(makeWithNewList);

  it("notices a flipped bit in any byte", () => sweep(flips(5)));
  it("notices that any number of bytes is missing at the end of a file", () => sweep(cuts(5)));
  it("notices that a file is missing", () => sweep(() => [["removed", rmSync]]));
});

/** Every so many bytes, and at the end of every line. */
function flips(step: number): (bytes: Buffer) => Damage[] {
  return (bytes) =>
    [...bytes.keys()]
      .filter((offset) => offset % step === 0 || bytes[offset] === 10)
      .map((offset) => [`bit ${offset % 8} of byte ${offset}`, (path) => writeFileSync(path, flipped(bytes, offset))]);
}

function cuts(step: number): (bytes: Buffer) => Damage[] {
  return (bytes) =>
    [...bytes.keys()]
      .filter((length) => length % step === 0)
      .map((length) => [`cut to ${length} of ${bytes.length}`, (path) => truncateSync(path, length)]);
}

/** What can be done to a file: its name, and how to do it to the file at a path. */
type Damage = readonly [name: string, damage: (path: string) => void];

/** Does every damage to a copy of its own, several at a time. */
async function sweep(damages: (bytes: Buffer) => Iterable<Damage>): Promise<void> {
  const expected = await readAll(original);
  if (typeof expected === "string") throw new Error(expected);
  expect(expected.report).toEqual([]);
  const files = new Map(filesOf(original).map((path) => [path, readFileSync(join(original, path))]));
  const cases = [...files].flatMap(([path, bytes]) =>
    [...damages(bytes)].map(([name, damage]) => ({ path, name, damage })),
  );
  const offenders: string[] = [];
  let next = 0;
  const work = async (_: unknown, worker: number): Promise<void> => {
    const copy = join(folder, `copy-${worker}`);
    cpSync(original, copy, { recursive: true });
    for (let index = next++; index < cases.length; index = next++) {
      const { path, name, damage } = cases[index] as (typeof cases)[number];
      for (const there of filesOf(copy)) if (!files.has(there)) rmSync(join(copy, there));
      for (const [other, content] of files) writeFileSync(join(copy, other), content);
      damage(join(copy, path));
      try {
        const found = await faults(copy, expected, path);
        offenders.push(...found.map((fault) => `${path}, ${name}: ${fault}`));
      } catch (error) {
        offenders.push(`${path}, ${name}: ${error instanceof Error ? error.stack : String(error)}`);
      }
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  expect(offenders).toEqual([]);
}

/** What is wrong with how the damaged copy behaves. */
async function faults(copy: string, expected: Contents, path: string): Promise<string[]> {
  const first = await readAll(copy);
  // An error of ours says that there is damage, as long as it stays.
  if (typeof first === "string") {
    const second = await readAll(copy);
    return first === second ? [] : [`it opened with ${first} first, and then did not`];
  }
  const isIntact = ({ things }: Contents): boolean =>
    [...expected.things].every(([place, value]) => things.get(place) === value);
  const found = differences(expected, first);
  if (first.report.length === 0 && !(isIntact(first) && path === "commits.jsonl")) found.push("it is not reported");
  const second = await readAll(copy);
  if (typeof second === "string") return [...found, `it opened first, and then with ${second}`];
  found.push(...differences(expected, second).map((each) => `${each}, when it is opened again`));
  if (!isIntact(second) && second.report.length === 0) found.push("it is forgotten");
  for (const [place, value] of second.things) {
    const before = first.things.get(place);
    // A line that lacked nothing but its end may have got that meanwhile.
    if (before !== value && value !== expected.things.get(place)) found.push(`${place} is ${before}, then ${value}`);
  }
  const third = await addMore(copy);
  for (const [place, value] of second.things) {
    const now = third.things.get(place);
    // Here as well.
    if (now !== value && now !== expected.things.get(place) && !ADDED.includes(place)) {
      found.push(`${place} is ${value}, and after another commit ${now}`);
    }
  }
  if (third.things.get("get new") !== '{"key":"new","value":"1","refs":""}') found.push("a new record is not there");
  if (third.things.get("item b 5") !== '{"json":"5","refs":""}') found.push("a new item is not there");
  return found;
}

/** What {@link addMore} changes. */
const ADDED = ["get new", "list new", "item b 5", "tapes"];

async function addMore(copy: string): Promise<Contents> {
  const store = await openFileStore(copy, OPTIONS);
  await store.commit({
    puts: [{ key: "new", value: "1" }],
    items: [{ tape: "b", first: 5, items: [{ json: "5", refs: "" }] }],
  });
  await store.close();
  const found = await readAll(copy);
  if (typeof found === "string") throw new Error(found);
  return found;
}

/** Lost is allowed where there was something; anything else that was never committed last is not. */
function differences(expected: Contents, found: Contents): string[] {
  const wrong: string[] = [];
  for (const [place, value] of expected.things) {
    const now = found.things.get(place);
    if (now === value || (now === LOST && value !== ABSENT)) continue;
    if (place.startsWith("refs") && now === LOST) continue;
    wrong.push(`${place} is ${now} instead of ${value}`);
  }
  return wrong;
}

interface Contents {
  readonly things: ReadonlyMap<string, string>;
  /** How damage was reported. */
  readonly report: readonly string[];
}

const LOST = "lost";
const ABSENT = "absent";

/** Everything by its place, or the code of the error that opening gave. */
async function readAll(path: string): Promise<Contents | string> {
  let store: Store;
  try {
    store = await openFileStore(path, OPTIONS);
  } catch (error) {
    if (isSavepointError(error)) return error.code;
    throw error;
  }
  const things = new Map<string, string>();
  const report: string[] = [];
  const note = (place: string, found: unknown): void => {
    const reason = (found as { unreadable?: string } | undefined)?.unreadable;
    const isMissing = place.startsWith("item") && reason?.endsWith("is missing");
    if (reason !== undefined && !isMissing) report.push(reason);
    things.set(place, reason === undefined ? (JSON.stringify(found) ?? ABSENT) : isMissing ? ABSENT : LOST);
  };
  for (const [index, record] of (await store.get(KEYS)).entries()) note(`get ${KEYS[index]}`, record);
  const listed = new Map((await store.list(EVERYTHING, { limit: 100 })).map((record) => [record.key, record]));
  for (const key of new Set([...KEYS, ...listed.keys()])) note(`list ${key}`, listed.get(key));
  for (const tape of TAPES) {
    const span = { tape, start: 0, count: ITEMS };
    for (const [n, item] of (await store.items([span])).entries()) note(`item ${tape} ${n}`, item);
    note(`refs ${tape}`, await store.itemRefs({ ...span, count: 5 }));
  }
  note("tapes", await store.tapes(EVERYTHING));
  note("blobs", await store.blobs({ after: "", limit: 100 }));
  const bytes = await store.blob(BLOB_HASH);
  note("blob", "unreadable" in bytes ? bytes : Buffer.from(bytes).toString());
  for (const { place, reason } of (await store.check?.()) ?? []) report.push(`${place}: ${reason}`);
  await store.close();
  return { things, report };
}

/** All files, by their paths in the folder. */
function filesOf(path: string): string[] {
  return readdirSync(path, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(path.length + 1))
    .sort();
}

function flipped(bytes: Buffer, offset: number): Buffer {
  const damaged = Buffer.from(bytes);
  damaged[offset] = (damaged[offset] as number) ^ (1 << (offset % 8));
  return damaged;
}
