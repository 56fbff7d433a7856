/**
 * Pending writes: the values that tasks have written since a checkpoint. They are stored as annotations of the checkpoint,
 * one for each task.
 */
import { type CheckpointPendingWrite, type PendingWrite, WRITES_IDX_MAP } from "@langchain/langgraph-checkpoint";
import { isSavepointError, SavepointError } from "../../index.js";
import type { ThreadAddress } from "./address.js";
import { statusOfWrites } from "./status.js";
import type { CheckpointAnnotations, StoredWrite } from "./stored.js";
import type { Thread } from "./thread.js";
import { decodeValue } from "./values.js";

const NAME_PREFIX = "savepoint:writes/";

export function isWritesName(annotation: string): boolean {
  return annotation.startsWith(NAME_PREFIX);
}

/** Encodes the writes of a task. Special channels have fixed, negative indexes. */
export function encodeWrites(writes: readonly PendingWrite[], encode: (value: unknown) => unknown): StoredWrite[] {
  return writes.map(([channel, value], index) => [specialIndexOf(channel) ?? index, channel, encode(value)]);
}

/**
 * Adds writes of a task to a checkpoint. The checkpoint may not be stored yet: a graph does not wait for its puts. Then this
 * waits for the put.
 */
export async function putWrites(
  thread: Thread,
  address: ThreadAddress,
  checkpoint: string,
  task: string,
  writes: readonly StoredWrite[],
): Promise<void> {
  const merge = (before: unknown): StoredWrite[] => mergeWrites(before as StoredWrite[] | undefined, writes);
  const annotate = (): Promise<void> =>
    thread.annotate(address, checkpoint, NAME_PREFIX + task, merge, statusOfWrites(writes));
  try {
    await annotate();
  } catch (error) {
    if (!isSavepointError(error, "CHECKPOINT_NOT_FOUND")) throw error;
    await thread.waitForCheckpoint(address, checkpoint);
    await annotate().catch((second: unknown) => {
      throw isSavepointError(second, "CHECKPOINT_NOT_FOUND") ? checkpointMissing(address, checkpoint, second) : second;
    });
  }
}

/** Earlier writes of a task are kept; writes to special channels replace the earlier ones. */
function mergeWrites(before: readonly StoredWrite[] | undefined, writes: readonly StoredWrite[]): StoredWrite[] {
  const merged = new Map((before ?? []).map((write) => [write[0], write]));
  for (const write of writes) if (write[0] < 0 || !merged.has(write[0])) merged.set(write[0], write);
  return [...merged.values()].sort(([a], [b]) => a - b);
}

/** The pending writes among the annotations of a checkpoint, by task id and index. */
export function* writesIn(
  annotations: CheckpointAnnotations | undefined,
): Generator<{ task: string; write: StoredWrite }> {
  for (const [name, value] of annotations ?? []) {
    if (!isWritesName(name)) continue;
    for (const write of value as StoredWrite[]) yield { task: name.slice(NAME_PREFIX.length), write };
  }
}

export async function decodeWrites(annotations: CheckpointAnnotations | undefined): Promise<CheckpointPendingWrite[]> {
  const writes: CheckpointPendingWrite[] = [];
  for (const { task, write } of writesIn(annotations)) writes.push([task, write[1], await decodeValue(write[2])]);
  return writes;
}

function specialIndexOf(channel: string): number | undefined {
  return Object.hasOwn(WRITES_IDX_MAP, channel) ? WRITES_IDX_MAP[channel] : undefined;
}

function checkpointMissing(
  { thread }: ThreadAddress,
  checkpoint: string,
  cause: unknown,
): SavepointError<"CHECKPOINT_NOT_FOUND"> {
  return new SavepointError(
    "CHECKPOINT_NOT_FOUND",
    `Thread ${JSON.stringify(thread)} has no checkpoint ${JSON.stringify(checkpoint)} to write to: the thread was deleted, or the checkpoint was pruned or never put. Nothing was written.`,
    { cause, details: { threadId: thread, checkpointId: checkpoint } },
  );
}
