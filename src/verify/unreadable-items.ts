/** Reading items in bulk to find those that are damaged. */
import { setImmediate as nextTurn } from "node:timers/promises";
import type { Context } from "../context.js";
import type { Frame, ItemSpan, Unreadable } from "../store/index.js";
import { readAhead } from "../util/index.js";
import type { SurveyOptions } from "./survey-options.js";

/** Items per read. Most are shorter than a few kilobytes. */
const BATCH_SIZE = 512;

/** An item that cannot be read. */
export interface UnreadableItem {
  readonly tape: string;
  readonly item: number;
  readonly reason: string;
}

/**
 * Reads all items of these spans, and yields those that cannot be read. Short spans are read together, and the next batch is read
 * while the current one is checked.
 *
 * @param blobs receives the hashes of the blobs that the items reference
 */
export async function* findUnreadableItems(
  { store }: Context,
  spans: Iterable<ItemSpan>,
  { counts, onProgress }: SurveyOptions,
  blobs: Set<string>,
): AsyncGenerator<UnreadableItem> {
  const reading = readAhead(batches(spans), 2, async (batch) => ({ batch, found: await store.items(batch) }));
  for await (const { batch, found } of reading) {
    let index = 0;
    for (const { tape, start, count } of batch) {
      for (let item = start; item < start + count; item++) {
        const frame = found[index++] as Frame | Unreadable;
        if ("unreadable" in frame) yield { tape, item, reason: frame.unreadable };
        else if (frame.refs.includes("#")) addBlobs(frame.refs, blobs);
      }
    }
    counts.items += found.length;
    onProgress();
    await nextTurn();
  }
}

/** Splits and groups spans into batches of at most {@link BATCH_SIZE} items. */
function* batches(spans: Iterable<ItemSpan>): Generator<ItemSpan[]> {
  let batch: ItemSpan[] = [];
  let room = BATCH_SIZE;
  for (const { tape, start, count } of spans) {
    for (let done = 0; done < count;) {
      const size = Math.min(room, count - done);
      batch.push({ tape, start: start + done, count: size });
      done += size;
      room -= size;
      if (room > 0) continue;
      yield batch;
      [batch, room] = [[], BATCH_SIZE];
    }
  }
  if (batch.length > 0) yield batch;
}

/** In refs, the entry of a blob is `#` and its hash; see `parseRefs`. This is the same, without parsing all others. */
function addBlobs(refs: string, blobs: Set<string>): void {
  for (const entry of refs.split(";")) if (entry.startsWith("#")) blobs.add(entry.slice(1));
}
