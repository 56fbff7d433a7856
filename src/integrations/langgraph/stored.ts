/** How a checkpoint of LangGraph's is stored in a session. */
import type {
  ChannelVersions,
  Checkpoint,
  CheckpointMetadata,
  CheckpointPendingWrite,
} from "@langchain/langgraph-checkpoint";
import type { CheckpointInfo, Checkpoint as SavedCheckpoint } from "../../index.js";
import { checkpointId, type ThreadAddress } from "./address.js";
import { decodeValue } from "./values.js";

/** A checkpoint of LangGraph's without its id, its values in their stored form. */
export interface StoredCheckpoint extends Omit<Checkpoint, "id"> {
  readonly channel_values: Record<string, unknown>;
}

/** What a checkpoint has beside its values: mostly the versions of its channels, all of which change all the time. */
type Rest = Omit<StoredCheckpoint, "channel_values">;

/** The state of the session's checkpoint. */
export interface ThreadState {
  readonly channel_values: Record<string, unknown>;
  /** Where it is too large for the metadata. */
  readonly checkpoint?: Rest;
}

/** The metadata of the session's checkpoint: what can be known without reading its state. */
export interface StoredFields extends Record<string, unknown> {
  readonly checkpoint_ns: string;
  /** The channels that have a value. */
  readonly channels: readonly string[];
  /** What it has beside its values, unless that is part of the state. */
  readonly checkpoint?: Rest;
  /** That of LangGraph. */
  readonly metadata: unknown;
  /** What it follows, where that is not there. */
  readonly parent?: string;
  /** There was one with a higher id when it was saved. */
  readonly late?: true;
}

/** A checkpoint that was put again: what takes the place of what was saved. */
export interface Replacement {
  readonly state: StoredCheckpoint;
  readonly metadata: unknown;
}

/** One write of a task: its index, its channel, and its value in its stored form. */
export type StoredWrite = readonly [index: number, channel: string, value: unknown];

/** What is attached to a checkpoint of a session, by name. */
export type CheckpointAnnotations = ReadonlyMap<string, unknown>;

/** A checkpoint as it was found, without its values. */
export interface ThreadCheckpoint {
  readonly place: ThreadAddress;
  readonly id: string;
  readonly seq: number;
  /** What it follows, by the id that LangGraph knows. */
  readonly parent: string | undefined;
  readonly late: boolean;
  readonly channels: readonly string[];
  /** In its stored form. */
  readonly metadata: unknown;
}

/**
 * Up to how many characters what a checkpoint has beside its values stands in the row: then what is appended to a channel
 * are consecutive items, and reads as one range. In a large graph it is too much to be written with every checkpoint.
 */
const MAX_IN_ROW = 600;

const REPLACEMENT = "checkpoint";
const WRITES = "writes/";

export const replacementName = REPLACEMENT;
export const writesName = (task: string): string => WRITES + task;

/** A checkpoint as the state and the fields that it is saved with. */
export function splitCheckpoint(checkpoint: StoredCheckpoint): {
  readonly state: ThreadState;
  readonly fields: Pick<StoredFields, "checkpoint">;
} {
  const { channel_values, ...rest } = checkpoint;
  if (JSON.stringify(rest).length <= MAX_IN_ROW) return { state: { channel_values }, fields: { checkpoint: rest } };
  return { state: { channel_values, checkpoint: rest }, fields: {} };
}

/** The checkpoint that was saved. */
export function joinCheckpoint({ state, metadata }: SavedCheckpoint<ThreadState>): StoredCheckpoint {
  const rest = state.checkpoint ?? (metadata as StoredFields).checkpoint;
  return { ...(rest as Rest), channel_values: state.channel_values };
}

/** `undefined` for a checkpoint that is none of LangGraph's: somebody else has saved it in this session. */
export function toThreadCheckpoint(info: CheckpointInfo): ThreadCheckpoint | undefined {
  const { checkpoint_ns: namespace, channels, metadata, parent, late } = info.metadata as Partial<StoredFields>;
  if (typeof namespace !== "string" || !Array.isArray(channels)) return undefined;
  const place = { thread: info.sessionId, namespace };
  return {
    place,
    id: checkpointId(place, info.id),
    seq: info.seq,
    parent: info.parentId === undefined ? parent : checkpointId(place, info.parentId),
    late: late === true,
    channels: channels as string[],
    metadata,
  };
}

export function replacementIn(attached: CheckpointAnnotations | undefined): Replacement | undefined {
  return attached?.get(REPLACEMENT) as Replacement | undefined;
}

/** Writes of tasks in the order of the tasks' ids, and of their indexes. */
export function* writesIn(
  attached: CheckpointAnnotations | undefined,
): Generator<{ task: string; write: StoredWrite }> {
  for (const [name, value] of attached ?? []) {
    if (!name.startsWith(WRITES)) continue;
    for (const write of value as StoredWrite[]) yield { task: name.slice(WRITES.length), write };
  }
}

export async function decodeWrites(attached: CheckpointAnnotations | undefined): Promise<CheckpointPendingWrite[]> {
  const writes: CheckpointPendingWrite[] = [];
  for (const { task, write } of writesIn(attached)) writes.push([task, write[1], await decodeValue(write[2])]);
  return writes;
}

export async function decodeCheckpoint(id: string, stored: StoredCheckpoint): Promise<Checkpoint> {
  const { v, ts, ...rest } = (await decodeValue(stored)) as Omit<Checkpoint, "id">;
  return { v, id, ts, ...rest };
}

export async function decodeMetadata(metadata: unknown): Promise<CheckpointMetadata> {
  return (await decodeValue(metadata)) as CheckpointMetadata;
}

/** The version of a channel. */
export function versionOf(versions: ChannelVersions | undefined, channel: string): string | number | undefined {
  return versions && Object.hasOwn(versions, channel) ? versions[channel] : undefined;
}
