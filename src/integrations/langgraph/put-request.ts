/**
 * The arguments of `put`, encoded when `put` is called, because LangGraph may change them as soon as `put` waits for
 * anything.
 *
 * LangGraph passes all channel values and the versions of the new ones. Only new values are encoded. The other values
 * are those of the parent checkpoint, so they cost nothing and cannot be changed by mistake.
 */
import type { RunnableConfig } from "@langchain/core/runnables";
import type { ChannelVersions, Checkpoint, CheckpointMetadata } from "@langchain/langgraph-checkpoint";
import { type CheckpointAddress, requireAddress, type ThreadAddress } from "./address.js";
import { invalidArgument } from "./errors.js";
import { type StoredCheckpoint, versionOf } from "./stored.js";
import { Encoder, setField } from "./values.js";

/** The arguments of `put`. */
export interface PutArguments {
  /** The `checkpoint_id` in it is the id of the parent. */
  readonly config: RunnableConfig;
  readonly checkpoint: Checkpoint;
  readonly metadata: CheckpointMetadata;
  readonly newVersions: ChannelVersions | undefined;
}

/** A checkpoint to put: encoded, and independent of the caller's objects. */
export interface PutRequest {
  /** The namespace that the checkpoint belongs to, and its parent. */
  readonly address: CheckpointAddress;
  readonly id: string;
  /** The checkpoint without its id and channel values. */
  readonly rest: Omit<StoredCheckpoint, "channel_values">;
  readonly channels: ChannelInput;
  readonly metadata: unknown;
  readonly source: string | undefined;
  /** The checkpoints of the graphs that contain the graph of this checkpoint. */
  readonly parents: readonly (readonly [namespace: string, id: string])[];
  /** Whether the checkpoint has channels whose values are computed from the writes of earlier checkpoints. */
  readonly pinned: boolean;
  /** Whether the caller intends to branch off. */
  readonly isFork: boolean;
  readonly encoder: Encoder;
}

/** The channels of a checkpoint to put. */
export interface ChannelInput {
  /** All channels with a value, in the order in which LangGraph passed them. */
  readonly order: readonly string[];
  readonly versions: ChannelVersions;
  /** The new versions; `undefined` if all values are new. */
  readonly newVersions: ChannelVersions | undefined;
  /** The encoded values of all channels that may not be inherited. */
  readonly values: ReadonlyMap<string, unknown>;
}

/** @param recall returns a checkpoint from the cache; values that the checkpoint already has are not encoded */
export function parsePutRequest(
  { config, checkpoint, metadata, newVersions }: PutArguments,
  recall: (address: ThreadAddress, id: string | undefined) => StoredCheckpoint | undefined,
): PutRequest {
  const address = requireAddress(config, "A checkpoint");
  const {
    id,
    channel_values: values = {},
    channel_versions: versions = {},
    ...rest
  } = checkpoint as Partial<Checkpoint>;
  if (typeof id !== "string" || id === "") {
    throw invalidArgument("The checkpoint has no id and cannot be saved. Create one with uuid6().");
  }
  const encoder = new Encoder();
  const encode = (value: unknown, before?: unknown): unknown => encoder.encode(value, before);
  // A checkpoint that is put again can name itself as its parent.
  const parent = address.checkpoint === id ? undefined : address.checkpoint;
  const { source, parents, counters_since_delta_snapshot: deltas } = metadata ?? {};
  return {
    address: { ...address, checkpoint: parent },
    id,
    rest: encode({ ...rest, channel_versions: versions }) as PutRequest["rest"],
    channels: encodeChannels(values, versions, newVersions, recall(address, parent), encode),
    metadata: encode(metadata),
    source,
    parents: Object.entries(parents ?? {}),
    pinned: deltas !== undefined,
    isFork: source === "fork" || config.configurable?.["fork"] === true,
    encoder,
  };
}

/** @param parent the parent checkpoint, if it is cached */
function encodeChannels(
  channelValues: Readonly<Record<string, unknown>>,
  versions: ChannelVersions,
  newVersions: ChannelVersions | undefined,
  parent: StoredCheckpoint | undefined,
  encode: (value: unknown, before?: unknown) => unknown,
): ChannelInput {
  const values = new Map<string, unknown>();
  const input = { order: Object.keys(channelValues), versions: { ...versions }, newVersions, values };
  for (const [channel, value] of Object.entries(channelValues)) {
    if (isNew(input, channel) || !isInherited(input, channel, parent)) {
      const before =
        parent && Object.hasOwn(parent.channel_values, channel) ? parent.channel_values[channel] : undefined;
      values.set(channel, encode(value, before));
    }
  }
  return input;
}

/**
 * Finds the channels that are neither new nor inherited from the parent. Their value is part of the checkpoint only if a checkpoint
 * of the namespace has stored the same version. A copy of a checkpoint has such channels: it has the same parent and the same
 * versions as the original, and none of these versions is new.
 */
export function findUnconfirmed(
  input: ChannelInput,
  parent: StoredCheckpoint | undefined,
): readonly (readonly [channel: string, version: string | number])[] {
  const found: [string, string | number][] = [];
  for (const channel of input.values.keys()) {
    const version = versionOf(input.versions, channel);
    if (version === undefined || isNew(input, channel) || isInherited(input, channel, parent)) continue;
    found.push([channel, version]);
  }
  return found;
}

/**
 * The channel values of the checkpoint: the new ones, and those that it inherits from its parent.
 *
 * @param rejected those channels of {@link findUnconfirmed} whose version no checkpoint has stored
 */
export function resolveChannels(
  input: ChannelInput,
  parent: StoredCheckpoint | undefined,
  rejected: ReadonlySet<string>,
): Record<string, unknown> {
  const resolved: Record<string, unknown> = {};
  const resolve = (channel: string): void => {
    if (!isNew(input, channel) && isInherited(input, channel, parent)) {
      setField(resolved, channel, parent?.channel_values[channel]);
    } else if (input.values.has(channel) && !rejected.has(channel)) {
      setField(resolved, channel, input.values.get(channel));
    }
  };
  for (const channel of input.order) resolve(channel);
  for (const channel of Object.keys(input.versions)) if (!Object.hasOwn(resolved, channel)) resolve(channel);
  return resolved;
}

function isNew({ newVersions }: ChannelInput, channel: string): boolean {
  return newVersions === undefined || Object.hasOwn(newVersions, channel);
}

function isInherited({ versions }: ChannelInput, channel: string, parent: StoredCheckpoint | undefined): boolean {
  if (!parent || !Object.hasOwn(parent.channel_values, channel)) return false;
  const version = versionOf(versions, channel);
  return version !== undefined && version === versionOf(parent.channel_versions, channel);
}
