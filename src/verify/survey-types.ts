/** How closely a store is looked at, and reading its items. */
import { setImmediate as nextTurn } from "node:timers/promises";
import type { Frame, ItemSpan, Unreadable } from "../store/index.js";
import type { Context } from "../context.js";
import { readAhead } from "../util/index.js";

/** What is looked at, and how closely. */
export interface SurveyOptions {
  /** Read every item and blob, not only records and what they point at. */
  readonly deep: boolean;
  /** The share of checkpoints that are looked at, from 0 to 1. */
  readonly sample: number;
  readonly session?: string;
  readonly agent?: string;
  readonly counts: SurveyCounts;
  readonly random: () => number;
  readonly onProgress: () => void;
}

/** What was looked at so far. */
export interface SurveyCounts {
  records: number;
  sessions: number;
  checkpoints: number;
  conversations: number;
  items: number;
  blobs: number;
}

/** Items that are read at once. None is longer than a few kilobytes. */
const MANY = 512;

/** An item that cannot be read. */
export interface UnreadableItem {
  readonly tape: string;
  readonly item: number;
  readonly reason: string;
}

/** Finds the items that cannot be read. Short spans are read in batches, and the next batch while one is checked. */
export async function* findUnreadableItems(
  { store }: Context,
  spans: Iterable<ItemSpan>,
  { counts, onProgress }: SurveyOptions,
  blobs: Set<string>,
): AsyncGenerator<UnreadableItem> {
  const reading = readAhead(batches(spans), 2, async (batch) => ({ batch, found: await store.items(batch) }));
  for await (const { batch, found } of reading) {
    let at = 0;
    for (const { tape, start, count } of batch) {
      for (let item = start; item < start + count; item++) {
        const frame = found[at++] as Frame | Unreadable;
        if ("unreadable" in frame) yield { tape, item, reason: frame.unreadable };
        else if (frame.refs.includes("#")) noteBlobs(frame.refs, blobs);
      }
    }
    counts.items += found.length;
    onProgress();
    await nextTurn();
  }
}

/** The same items in batches: lists of spans with a limited number of items each. */
function* batches(spans: Iterable<ItemSpan>): Generator<ItemSpan[]> {
  let batch: ItemSpan[] = [];
  let room = MANY;
  for (const { tape, start, count } of spans) {
    for (let done = 0; done < count;) {
      const some = Math.min(room, count - done);
      batch.push({ tape, start: start + done, count: some });
      done += some;
      room -= some;
      if (room > 0) continue;
      yield batch;
      [batch, room] = [[], MANY];
    }
  }
  if (batch.length > 0) yield batch;
}

/** Hashes stand behind a `#`, and end with the entry; see refs.ts. */
function noteBlobs(refs: string, blobs: Set<string>): void {
  for (const entry of refs.split(";")) if (entry.startsWith("#")) blobs.add(entry.slice(1));
}
