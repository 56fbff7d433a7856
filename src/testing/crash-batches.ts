/**
 * The commits of the process that is killed: numbered batches, each of which builds on the previous one.
 *
 * Every fourth batch has all kinds of data. The others have those of a save, which some stores write differently. The content
 * of a batch depends only on its number, so that another process can check it.
 */
import assert from "node:assert/strict";
import type { Commit, Frame, Store } from "../store/index.js";
import { assertSame, isUnreadable, valueOf } from "./assertions.js";
import { blobOf, EVERYTHING, frame, listAll } from "./samples.js";

const ITEMS = 3;
const NUMBERED = 2;
const FULL_EVERY = 4;

/** The commit of batch `n`, counted from 1. */
export function batch(n: number): Commit {
  const checks = [{ key: "head", value: n === 1 ? undefined : String(n - 1) }];
  const own = {
    key: batchKey(n),
    value: JSON.stringify({ n, text: "é".repeat(n % 50) }),
    refs: `${ITEMS * (n - 1)}+${ITEMS}`,
  };
  const puts = [{ key: "head", value: String(n) }, own];
  const items = [{ tape: "tape", first: ITEMS * (n - 1), items: ownItems(n) }];
  if (!isFull(n)) return { checks, puts, items };
  return {
    checks,
    deletes: [`latest/${n - FULL_EVERY}`],
    puts: [...puts, { key: `latest/${n}`, value: String(n) }],
    items: [...items, { tape: "numbered", counter: "next", items: numberedItems(n) }],
    blobs: [blobOf(`blob of batch ${n}`)],
  };
}

/** Whether batch `n` has all kinds of data. The first batch does. */
function isFull(n: number): boolean {
  return n % FULL_EVERY === 1;
}

/** The number of the last batch; 0 if there is none. */
export async function lastBatch(store: Store): Promise<number> {
  return Number((await valueOf(store, "head")) ?? 0);
}

/** Asserts that the store has exactly the batches up to the last one, all intact. Returns the number of the last batch. */
export async function assertBatchesIntact(store: Store): Promise<number> {
  for (;;) {
    const last = await lastBatch(store);
    try {
      await assertBatches(store, last);
      return last;
    } catch (error) {
      // Meanwhile, a server may have executed the last statement of a killed process.
      if ((await lastBatch(store)) === last) throw error;
    }
  }
}

/** Asserts that the store has exactly the first `last` batches. */
async function assertBatches(store: Store, last: number): Promise<void> {
  const numbers = Array.from({ length: last }, (_, index) => index + 1);

  const records = new Map((await listAll(store, EVERYTHING)).map((record) => [record.key, record]));
  const expected = new Map<string, { key: string; value: string; refs: string }>();
  const expect = (key: string, value: string, refs = ""): unknown => expected.set(key, { key, value, refs });
  for (const n of numbers) {
    for (const put of batch(n).puts ?? []) expect(put.key, put.value, put.refs);
    for (const key of batch(n).deletes ?? []) if (typeof key === "string") expected.delete(key);
  }
  const full = numbers.filter(isFull);
  if (last > 0) expect("next", String(NUMBERED * full.length));
  assertSame(Object.fromEntries(records), Object.fromEntries(expected), `The records of ${last} batches`);

  await assertTape(store, "tape", numbers.flatMap(ownItems));
  await assertTape(store, "numbered", full.flatMap(numberedItems));

  const hashes = full.map((n) => blobOf(`blob of batch ${n}`).hash).sort();
  assertSame(await store.blobs({ after: "", limit: last + 100 }), hashes, "The blobs");
  for (const hash of hashes) {
    const bytes = await store.blob(hash);
    if (isUnreadable(bytes)) assert.fail(bytes.unreadable);
  }
}

function batchKey(n: number): string {
  return `batch/${String(n).padStart(6, "0")}`;
}

function ownItems(n: number): Frame[] {
  return Array.from({ length: ITEMS }, (_, index) =>
    frame({ n, index, text: "x".repeat(n % 300) }, index === 0 ? `${n}+1` : ""),
  );
}

function numberedItems(n: number): Frame[] {
  return Array.from({ length: NUMBERED }, (_, index) => frame({ n, numbered: index }));
}

/** Asserts that a tape has exactly these items, from 0. */
async function assertTape(store: Store, tape: string, items: readonly Frame[]): Promise<void> {
  const found = await store.items([{ tape, start: 0, count: items.length + 100 }]);
  assertSame(found.slice(0, items.length), items, `The items of ${tape}`);
  assert.ok(
    found.slice(items.length).every(isUnreadable),
    `Expected no items on ${tape} after the first ${items.length}.`,
  );
  const refs = items.flatMap((item, index) => (item.refs === "" ? [] : [{ item: index, refs: item.refs }]));
  assertSame(await store.itemRefs({ tape, start: 0, count: items.length + 100 }), refs, `The refs of ${tape}`);
}
