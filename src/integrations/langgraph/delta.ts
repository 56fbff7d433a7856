/**
 * The history of delta channels (`DeltaChannel`), which store only changes: the writes since the last stored value, and that
 * value. Ancestors are read in pages together with their annotations; states only where a channel has a stored value.
 */
import type { CheckpointPendingWrite, DeltaChannelHistory } from "@langchain/langgraph-checkpoint";
import { type CheckpointInfo, isSavepointError } from "../../index.js";
import { type CheckpointAddress, storedId } from "./address.js";
import { type CheckpointAnnotations, replacementIn, toThreadCheckpoint } from "./stored.js";
import type { Thread } from "./thread.js";
import { decodeValue } from "./values.js";
import { writesIn } from "./writes.js";

/** The number of checkpoints per page. It grows with the distance. */
const FIRST_PAGE = 16;
const LARGEST_PAGE = 1024;

/** Reads the histories of these channels, up to the parent of the checkpoint at `address`. */
export async function readDeltaHistory(
  thread: Thread,
  address: CheckpointAddress,
  channels: readonly string[],
): Promise<Record<string, DeltaChannelHistory>> {
  const writes = new Map<string, CheckpointPendingWrite[]>(channels.map((channel) => [channel, []]));
  const seeds = new Map<string, string>();
  const remaining = new Set(channels);
  for await (const { id, stored, annotations } of ancestors(thread, address)) {
    const here = [...writesIn(annotations)].reverse().filter(({ write }) => remaining.has(write[1]));
    for (const { task, write } of here) {
      writes.get(write[1])?.push([task, write[1], await decodeValue(write[2])]);
    }
    for (const channel of stored) if (remaining.delete(channel)) seeds.set(channel, id);
    if (remaining.size === 0) break;
  }
  const values = await readSeeds(thread, address, seeds);
  return Object.fromEntries(
    channels.map((channel) => {
      const ofChannel = (writes.get(channel) ?? []).reverse();
      return [channel, values.has(channel) ? { writes: ofChannel, seed: values.get(channel) } : { writes: ofChannel }];
    }),
  );
}

interface Ancestor {
  readonly id: string;
  /** The channels with a stored value. */
  readonly stored: readonly string[];
  readonly annotations: CheckpointAnnotations | undefined;
}

/** The ancestors of a checkpoint, nearest first, without itself. */
async function* ancestors(thread: Thread, address: CheckpointAddress): AsyncGenerator<Ancestor> {
  const session = thread.open(address);
  const from = address.checkpoint === undefined ? {} : { from: storedId(address, address.checkpoint) };
  let isFirst = true;
  for await (const page of pages(session.history(from))) {
    const seqs = page.map(({ seq }) => seq);
    const annotations = await session.annotations(Math.min(...seqs), Math.max(...seqs));
    for (const info of page) {
      const entry = toThreadCheckpoint(info);
      if (entry && !isFirst) {
        const ofCheckpoint = annotations.get(info.seq);
        const replaced = replacementIn(ofCheckpoint)?.state.channel_values;
        yield { id: entry.id, stored: replaced ? Object.keys(replaced) : entry.channels, annotations: ofCheckpoint };
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
    // A missing checkpoint has no history.
    if (!isSavepointError(error, "CHECKPOINT_NOT_FOUND")) throw error;
  }
  if (page.length > 0) yield page;
}

async function readSeeds(
  thread: Thread,
  address: CheckpointAddress,
  seeds: ReadonlyMap<string, string>,
): Promise<Map<string, unknown>> {
  const values = new Map<string, unknown>();
  for (const id of new Set(seeds.values())) {
    const state = await thread.load(address, id);
    for (const [channel, at] of seeds) {
      if (at === id && state) values.set(channel, await decodeValue(state.channel_values[channel]));
    }
  }
  return values;
}
