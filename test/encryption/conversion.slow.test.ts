/** Kills the process that encrypts a plain store, with `kill -9`, at every write point. */
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { isEncryptionRecord, isReadable } from "../../src/encryption/key-kinds.js";
import { Savepoint } from "../../src/index.js";
import { scan, SEAL_MARKER } from "../../src/store/index.js";
import { openStore } from "../../src/store.js";
import { type Ended, startProgram } from "../crash/children.js";
import { encryptionOf } from "../support/crash-keys.mjs";
import { CANARY, contentOf, fill } from "./lab.js";
import { passingsOf, type RotationStore, STORES } from "./rotation-stores.js";

const PROGRAM = fileURLToPath(new URL("./rotation-child.mjs", import.meta.url));

const LONG = { messages: Array.from({ length: 30 }, (_, n) => `${CANARY} ${n}`.repeat(2000)) };

const open = (url: string, keys?: string): Promise<Savepoint> =>
  Savepoint.open(url, { durability: "process", ...(keys !== undefined && encryptionOf(keys)) });

async function runJob(job: "encrypt" | "complete", url: string, dieAt?: string): Promise<Ended> {
  const ended = await startProgram(PROGRAM, job, url, "new", dieAt).ended;
  expect(ended.stderr).toBe("");
  return ended;
}

/** Opens a store whose conversion was killed: with the key, or without it if the header was not written yet. */
async function reopen(url: string, content: unknown): Promise<Savepoint> {
  const plain = await open(url).catch((error: unknown) => {
    expect(error).toMatchObject({ code: "KEY_REQUIRED" });
    return undefined;
  });
  if (!plain) return open(url, "new");
  expect(await contentOf(plain)).toEqual(content);
  await plain.rekey({ to: encryptionOf("new").encryption as never });
  return plain;
}

/** Encrypts a plain store with all kinds of content. Returns how often each point was passed; `undefined` if the process was killed. */
async function encrypt({ make }: RotationStore, dieAt?: string): Promise<Map<string, number> | undefined> {
  const { url, contains, remove } = make();
  const plain = await open(url);
  await fill(plain);
  // Its tape is copied in several commits that fill no chunks, and then packed.
  await plain.session("long").save(LONG);
  const content = await contentOf(plain);
  await plain.search(CANARY);
  await plain.close();
  expect(await contains(CANARY)).toBe(true);
  const passings = passingsOf(await runJob("encrypt", url, dieAt));
  // Another process is killed while it completes the conversion.
  if (dieAt !== undefined && !passings) await killCompletion(url, dieAt);
  const sp = await reopen(url, content);
  expect(await contains(CANARY), dieAt).toBe(false);
  expect(await contentOf(sp)).toEqual(content);
  expect((await sp.session("long").latest())?.state).toEqual(LONG);
  await sp.close();
  expect(await plainDataOf(url), dieAt).toEqual([]);
  expect(await contains(CANARY), dieAt).toBe(false);
  await remove();
  return passings;
}

/** The plain tapes of a store, and its records that have content and are not encrypted. */
async function plainDataOf(url: string): Promise<string[]> {
  const store = await openStore(url, { durability: "process" });
  try {
    const everything = { from: "", to: "\u{10ffff}" };
    const plain = (await store.tapes(everything)).filter((tape) => !tape.startsWith("e"));
    for await (const record of scan(store, everything)) {
      const { key } = record;
      const isSealed = "value" in record && record.value.startsWith(SEAL_MARKER);
      if (!isSealed && !isReadable(key) && !isEncryptionRecord(key)) plain.push(key);
    }
    return plain;
  } finally {
    await store.close();
  }
}

/** Kills the process that completes a conversion when it passes a point for the second time, if there is a header and it gets that far. */
async function killCompletion(url: string, dieAt: string): Promise<void> {
  const { stderr, signal, code } = await startProgram(PROGRAM, "complete", url, "new", dieAt.replace(/@.*/, "@1"))
    .ended;
  if (signal === null && code !== 0) expect(stderr).toContain("NOT_ENCRYPTED");
}

/** About how many passings of each point are chosen, besides the first and the last. */
const KILLS = 2;

/** Chooses passings of every point: the first, the last, and some in between, which differ from point to point. */
function choosePassings(passings: ReadonlyMap<string, number>): string[] {
  return [...passings].flatMap(([point, count], index) => {
    const stride = Math.ceil(count / KILLS);
    const numbers = Array.from({ length: count }, (_, n) => n);
    const chosen = numbers.filter((n) => n === 0 || n === count - 1 || (n + index) % stride === 0);
    return chosen.map((n) => `${point}@${n}`);
  });
}

describe.each(STORES)("encrypting a plain store ($kind)", (store) => {
  const title = "is completed after kill -9 at any write point, loses no data, and leaves no plain data";
  it(title, { timeout: 600_000 }, async () => {
    const passings = (await encrypt(store)) ?? new Map<string, number>();
    expect([...passings.keys()].sort()).toEqual([...store.points].sort());
    const chosen = choosePassings(passings);
    const killed: string[] = [];
    for (const passing of chosen) if (!(await encrypt(store, passing))) killed.push(passing);
    expect(killed).toEqual(chosen);
  });
});
