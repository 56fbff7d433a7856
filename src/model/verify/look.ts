/** How closely a store is looked at, and reading its items. */
import { setImmediate as nextTurn } from "node:timers/promises";
import type { ItemSpan } from "../../store/store.js";
import type { Context } from "../context.js";

/** What is looked at, and how closely. */
export interface Survey {
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

const MANY = 256;

/** Items that cannot be read. */
export async function* readAll(
  { store }: Context,
  { tape, start, count }: ItemSpan,
  { counts, onProgress }: Survey,
  blobs: Set<string>,
): AsyncGenerator<{ readonly item: number; readonly reason: string }> {
  for (let from = start; from < start + count; from += MANY) {
    const wanted = Math.min(MANY, start + count - from);
    const found = await store.items([{ tape, start: from, count: wanted }]);
    for (const [index, frame] of found.entries()) {
      if ("unreadable" in frame) yield { item: from + index, reason: frame.unreadable };
      else if (frame.refs.includes("#")) noteBlobs(frame.refs, blobs);
    }
    counts.items += wanted;
    onProgress();
    await nextTurn();
  }
}

/** Hashes stand behind a `#`, and end with the entry; see refs.ts. */
function noteBlobs(refs: string, blobs: Set<string>): void {
  for (const entry of refs.split(";")) if (entry.startsWith("#")) blobs.add(entry.slice(1));
}
