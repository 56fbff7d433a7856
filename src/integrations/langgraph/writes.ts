/**
 * Pending writes: the values that tasks have written since a checkpoint. They are stored as annotations of the checkpoint,
 * one for each task.
 */
import { type CheckpointPendingWrite, type PendingWrite, WRITES_IDX_MAP } from "@langchain/langgraph-checkpoint";
import { isSavepointError, SavepointError } from "../../index.js";
import type { ThreadAddress } from "./address.js";
import { statusOfWrites, type ThreadStatus } from "./status.js";
import type { CheckpointAnnotations, HeadAnnotations, StoredWrite } from "./stored.js";
import { decodeValue } from "./values.js";

const NAME_PREFIX = "savepoint:writes/";

/** A thread, to whose checkpoints annotations are added. */
interface Annotatable {
  annotate(
    address: ThreadAddress,
    id: string,
    name: string,
    change: (before: unknown) => unknown,
    status: ThreadStatus | undefined,
  ): Promise<void>;
}

export function isWritesName(annotation: string): boolean {
  return annotation.startsWith(NAME_PREFIX);
}

/** Encodes the writes of a task. Special channels have fixed, negative indexes. */
export function encodeWrites(writes: readonly PendingWrite[], encode: (value: unknown) => unknown): StoredWrite[] {
  return writes.map(([channel, value], index) => [specialIndexOf(channel) ?? index, channel, encode(value)]);
}

/** Writes of a task to a checkpoint, which are stored in a commit of their own, or in that of the next checkpoint. */
export class TaskWrites {
  readonly address: ThreadAddress;
  readonly checkpoint: string;
  /** The name of their annotation. */
  readonly name: string;
  readonly writes: readonly StoredWrite[];
  /** Resolves when they are stored, and is rejected if that fails. */
  readonly stored: Promise<void>;
  #settle: { readonly resolve: () => void; readonly reject: (error: unknown) => void } | undefined;

  constructor(address: ThreadAddress, checkpoint: string, task: string, writes: readonly StoredWrite[]) {
    this.address = address;
    this.checkpoint = checkpoint;
    this.name = NAME_PREFIX + task;
    this.writes = writes;
    this.stored = new Promise((resolve, reject) => (this.#settle = { resolve, reject }));
  }

  get isSettled(): boolean {
    return this.#settle === undefined;
  }

  /** Marks them as stored with the next checkpoint. */
  resolve(): void {
    this.#settle?.resolve();
    this.#settle = undefined;
  }

  /** Stores them now, unless they are settled. Never throws: a failure rejects {@link stored}. */
  async store(thread: Annotatable): Promise<void> {
    const settle = this.#settle;
    if (!settle) return;
    this.#settle = undefined;
    const { address, checkpoint, name, writes } = this;
    const merge = (before: unknown): StoredWrite[] => mergeWrites(before as StoredWrite[] | undefined, writes);
    await thread
      .annotate(address, checkpoint, name, merge, statusOfWrites(writes))
      .then(settle.resolve, (error: unknown) => {
        const isMissing = isSavepointError(error, "CHECKPOINT_NOT_FOUND");
        settle.reject(isMissing ? checkpointMissing(address, checkpoint, error) : error);
      });
  }
}

/** Whether the writes of any of these tasks are not settled yet. */
export function hasUnsettled(tasks: readonly TaskWrites[]): boolean {
  return tasks.some(({ isSettled }) => !isSettled);
}

/** Stores those of these writes that are not settled. Never throws. */
export async function storeWrites(thread: Annotatable, tasks: readonly TaskWrites[]): Promise<void> {
  for (const each of tasks) await each.store(thread);
}

/**
 * The annotations with which these writes are stored together with the next checkpoint; `undefined` if there are none, or if they
 * change the status of their own checkpoint.
 *
 * @param seq that of their checkpoint
 */
export function toAnnotations(tasks: readonly TaskWrites[], seq: number): HeadAnnotations | undefined {
  const values = new Map<string, StoredWrite[]>();
  for (const { name, writes, isSettled } of tasks) {
    if (isSettled) continue;
    if (statusOfWrites(writes) !== undefined) return undefined;
    values.set(name, mergeWrites(values.get(name), writes));
  }
  return values.size === 0 ? undefined : { seq, values };
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
