/**
 * What was written to channels that keep only changes (`DeltaChannel`), and the value they begin with. The line of the
 * checkpoint is read page by page with what is attached to it; states only where a channel begins.
 */
import type { CheckpointPendingWrite, DeltaChannelHistory } from "@langchain/langgraph-checkpoint";
import { type CheckpointInfo, isSavepointError } from "../../index.js";
import { type CheckpointAddress, storedId } from "./address.js";
import { type CheckpointAnnotations, replacementIn, toThreadCheckpoint, writesIn } from "./stored.js";
import type { Thread } from "./thread.js";
import { decodeValue } from "./values.js";

/** Checkpoints whose writes are read at once: more, the further back it goes. */
const FIRST_PAGE = 16;
const LARGEST_PAGE = 1024;

export async function readDeltaHistory(
  thread: Thread,
  place: CheckpointAddress,
  channels: readonly string[],
): Promise<Record<string, DeltaChannelHistory>> {
  const writes = new Map<string, CheckpointPendingWrite[]>(channels.map((channel) => [channel, []]));
  const seeds = new Map<string, string>();
  const remaining = new Set(channels);
  for await (const { id, stored, attached } of ancestors(thread, place)) {
    const here = [...writesIn(attached)].reverse().filter(({ write }) => remaining.has(write[1]));
    for (const { task, write } of here) {
      writes.get(write[1])?.push([task, write[1], await decodeValue(write[2])]);
    }
    for (const channel of stored) if (remaining.delete(channel)) seeds.set(channel, id);
    if (remaining.size === 0) break;
  }
  const values = await readSeeds(thread, place, seeds);
  return Object.fromEntries(
    channels.map((channel) => {
      const found = (writes.get(channel) ?? []).reverse();
      return [channel, values.has(channel) ? { writes: found, seed: values.get(channel) } : { writes: found }];
    }),
  );
}

interface Ancestor {
  readonly id: string;
  /** The channels that have a value. */
  readonly stored: readonly string[];
  readonly attached: CheckpointAnnotations | undefined;
}

/** What led to a checkpoint, nearest first, without itself. */
async function* ancestors(thread: Thread, place: CheckpointAddress): AsyncGenerator<Ancestor> {
  const session = thread.open(place);
  const from = place.checkpoint === undefined ? {} : { from: storedId(place, place.checkpoint) };
  let isFirst = true;
  for await (const page of pages(session.history(from))) {
    const seqs = page.map(({ seq }) => seq);
    const attached = await session.annotations(Math.min(...seqs), Math.max(...seqs));
    for (const info of page) {
      const found = toThreadCheckpoint(info);
      if (found && !isFirst) {
        const ofThis = attached.get(info.seq);
        const replaced = replacementIn(ofThis)?.state.channel_values;
        yield { id: found.id, stored: replaced ? Object.keys(replaced) : found.channels, attached: ofThis };
      }
      isFirst = false;
    }
  }
}

async function* pages(infos: AsyncIterable<CheckpointInfo>): AsyncGenerator<CheckpointInfo[]> {
  let page: CheckpointInfo[] = [];
  let size = FIRST_PAGE;
  try {
    for await (const info of infos) {
      page.push(info);
      if (page.length < size) continue;
      yield page;
      page = [];
      size = Math.min(8 * size, LARGEST_PAGE);
    }
  } catch (error) {
    // What is not there has no history.
    if (!isSavepointError(error, "CHECKPOINT_NOT_FOUND")) throw error;
  }
  if (page.length > 0) yield page;
}

async function readSeeds(
  thread: Thread,
  place: CheckpointAddress,
  seeds: ReadonlyMap<string, string>,
): Promise<Map<string, unknown>> {
  const values = new Map<string, unknown>();
  for (const id of new Set(seeds.values())) {
    const state = await thread.load(place, id);
    for (const [channel, at] of seeds) {
      if (at === id && state) values.set(channel, await decodeValue(state.channel_values[channel]));
    }
  }
  return values;
}
