/** The format in which a LangGraph checkpoint is stored in a session. */
import { isDeepStrictEqual } from "node:util";
import type { ChannelVersions, Checkpoint, CheckpointMetadata } from "@langchain/langgraph-checkpoint";
import type { CheckpointInfo, Checkpoint as SavedCheckpoint, Session } from "../../index.js";
import { checkpointId, type ThreadAddress } from "./address.js";
import { decodeValue } from "./values.js";

/** A LangGraph checkpoint without its id, with its values in their stored form. */
export interface StoredCheckpoint extends Omit<Checkpoint, "id"> {
  readonly channel_values: Record<string, unknown>;
}

/** A checkpoint without its values: mostly the versions of its channels, which change with every checkpoint. */
type Rest = Omit<StoredCheckpoint, "channel_values">;

/** The state of the session checkpoint. */
export interface ThreadState {
  readonly channel_values: Record<string, unknown>;
  /** Set if it is too large for the metadata. */
  readonly checkpoint?: Rest;
}

/** The metadata of the session checkpoint, which is available without reading the state. */
export interface StoredFields extends Record<string, unknown> {
  /** The namespace. Only integrations can save this key, so it shows that the saver has saved the checkpoint. */
  readonly "savepoint:ns": string;
  /** The channels with a value. */
  readonly channels: readonly string[];
  /** Set unless it is part of the state. */
  readonly checkpoint?: Rest;
  /** LangGraph's own metadata. */
  readonly metadata: unknown;
  /** The nodes that ran since its parent. Missing if there are none. */
  readonly nodes?: readonly string[];
  /** The id of its parent, if the parent is missing in this thread. */
  readonly parent?: string;
  /** A checkpoint with a higher id existed when it was saved. */
  readonly late?: true;
}

/** The replacement of a checkpoint that was put again, stored as an annotation. */
export interface Replacement {
  readonly state: StoredCheckpoint;
  readonly metadata: unknown;
}

/** One pending write of a task: its index, its channel, and its value in its stored form. */
export type StoredWrite = readonly [index: number, channel: string, value: unknown];

/** The annotations of a session checkpoint, by name. */
export type CheckpointAnnotations = ReadonlyMap<string, unknown>;

/** A stored checkpoint without its values. */
export interface ThreadCheckpoint {
  readonly address: ThreadAddress;
  readonly id: string;
  readonly seq: number;
  /** The LangGraph id of its parent. */
  readonly parent: string | undefined;
  readonly late: boolean;
  readonly channels: readonly string[];
  /** In its stored form. */
  readonly metadata: unknown;
}

/**
 * The maximum length of a checkpoint without its values that is stored in the row. Keeping it out of the state makes the
 * elements appended to a channel consecutive items, which are read as one range. For large graphs it is too long for a row.
 */
const MAX_IN_ROW = 600;

/** The annotation that holds a {@link Replacement}. */
export const REPLACEMENT_NAME = "savepoint:checkpoint";

const INTEGRATION = Symbol.for("savepoint.integration");

/** Annotations of the head of a branch that do not exist yet, by name. */
export interface HeadAnnotations {
  readonly seq: number;
  readonly values: ReadonlyMap<string, unknown>;
}

/**
 * Marks options of a save, or the change of an annotation, so that reserved names are accepted.
 *
 * @param more what else to do. `annotations` are added to the head in the commit of the save: if one of them exists, or the head has
 *   changed, the save fails with `CONFLICT`. All loads with the same object `sharing` read what their states share only once
 */
export function asIntegration<T extends object>(
  target: T,
  more: { readonly annotations?: HeadAnnotations; readonly sharing?: object } = {},
): T {
  return Object.assign(target, { [INTEGRATION]: more });
}

/**
 * Splits a checkpoint into the state and the metadata fields that it is saved with. The state is frozen, as a promise that no
 * part of it is ever changed: parts that it shares with the previous state need not be compared.
 */
export function splitCheckpoint(checkpoint: StoredCheckpoint): {
  readonly state: ThreadState;
  readonly fields: Pick<StoredFields, "checkpoint">;
} {
  const { channel_values, ...rest } = checkpoint;
  const isSmall = JSON.stringify(rest).length <= MAX_IN_ROW;
  return isSmall
    ? { state: Object.freeze({ channel_values }), fields: { checkpoint: rest } }
    : { state: Object.freeze({ channel_values, checkpoint: rest }), fields: {} };
}

/** The inverse of {@link splitCheckpoint}. */
export function joinCheckpoint({ state, metadata }: SavedCheckpoint<ThreadState>): StoredCheckpoint {
  const rest = state.checkpoint ?? (metadata as StoredFields).checkpoint;
  return { ...(rest as Rest), channel_values: state.channel_values };
}

/** `undefined` for a checkpoint that another program saved in this session. */
export function toThreadCheckpoint(info: CheckpointInfo): ThreadCheckpoint | undefined {
  const { "savepoint:ns": namespace, channels, metadata, parent, late } = info.metadata as Partial<StoredFields>;
  if (typeof namespace !== "string" || !Array.isArray(channels)) return undefined;
  const address = { thread: info.sessionId, namespace };
  return {
    address,
    id: checkpointId(address, info.id),
    seq: info.seq,
    parent: info.parentId === undefined ? parent : checkpointId(address, info.parentId),
    late: late === true,
    channels: channels as string[],
    metadata,
  };
}

/** The checkpoint `head`, or its nearest ancestor, that the saver has saved. */
export async function findNewest(session: Session, head: CheckpointInfo): Promise<CheckpointInfo | undefined> {
  if (toThreadCheckpoint(head)) return head;
  for await (const info of session.history({ from: head.id })) if (toThreadCheckpoint(info)) return info;
  return undefined;
}

/** A checkpoint as it was last put, in its stored form. */
export function lastPut(
  saved: SavedCheckpoint<ThreadState>,
  annotations: CheckpointAnnotations | undefined,
): Replacement {
  const { metadata } = saved.metadata as StoredFields;
  return replacementIn(annotations) ?? { state: joinCheckpoint(saved), metadata };
}

export function replacementIn(annotations: CheckpointAnnotations | undefined): Replacement | undefined {
  return annotations?.get(REPLACEMENT_NAME) as Replacement | undefined;
}

export async function decodeCheckpoint(id: string, stored: StoredCheckpoint): Promise<Checkpoint> {
  const { v, ts, ...rest } = (await decodeValue(stored)) as Omit<Checkpoint, "id">;
  return { v, id, ts, ...rest };
}

export async function decodeMetadata(metadata: unknown): Promise<CheckpointMetadata> {
  return (await decodeValue(metadata)) as CheckpointMetadata;
}

/** Whether metadata has all of these fields. */
export function matchesFilter(metadata: CheckpointMetadata, filter: Readonly<Record<string, unknown>>): boolean {
  const fields = metadata as Readonly<Record<string, unknown>>;
  return Object.entries(filter).every(([key, value]) => isDeepStrictEqual(fields[key], value));
}

/** The version of a channel; `undefined` if it has none. */
export function versionOf(versions: ChannelVersions | undefined, channel: string): string | number | undefined {
  return versions && Object.hasOwn(versions, channel) ? versions[channel] : undefined;
}
