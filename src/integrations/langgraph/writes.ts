/** Pending writes: what tasks have written since a checkpoint. They are attached to it. */
import { type PendingWrite, WRITES_IDX_MAP } from "@langchain/langgraph-checkpoint";
import { isSavepointError, SavepointError } from "../../index.js";
import type { ThreadAddress } from "./address.js";
import { type StoredWrite, writesName } from "./stored.js";
import type { Thread } from "./thread.js";

/** Writes in their stored form. Those to special channels have indexes of their own, and replace each other. */
export function toStoredWrites(writes: readonly PendingWrite[], encode: (value: unknown) => unknown): StoredWrite[] {
  return writes.map(([channel, value], index) => [indexOf(channel) ?? index, channel, encode(value)]);
}

export async function putWrites(
  thread: Thread,
  place: ThreadAddress,
  checkpoint: string,
  task: string,
  writes: readonly StoredWrite[],
): Promise<void> {
  const add = (before: unknown): StoredWrite[] => merge(before as StoredWrite[] | undefined, writes);
  const attach = (): Promise<void> => thread.annotate(place, checkpoint, writesName(task), add);
  try {
    await attach();
  } catch (error) {
    if (!isSavepointError(error, "CHECKPOINT_NOT_FOUND")) throw error;
    await thread.waitForCheckpoint(place, checkpoint);
    await attach().catch((second: unknown) => {
      throw isSavepointError(second, "CHECKPOINT_NOT_FOUND") ? notThere(place, checkpoint, second) : second;
    });
  }
}

/** What was written by a task before stays; what is written to special channels takes the place of what was there. */
function merge(before: readonly StoredWrite[] | undefined, writes: readonly StoredWrite[]): StoredWrite[] {
  const merged = new Map((before ?? []).map((write) => [write[0], write]));
  for (const write of writes) if (write[0] < 0 || !merged.has(write[0])) merged.set(write[0], write);
  return [...merged.values()].sort(([a], [b]) => a - b);
}

function indexOf(channel: string): number | undefined {
  return Object.hasOwn(WRITES_IDX_MAP, channel) ? WRITES_IDX_MAP[channel] : undefined;
}

function notThere(
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
