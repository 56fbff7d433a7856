/** Checkpoints as LangGraph hands them over, taken over at once: the caller may change them as soon as we wait. */
import type { RunnableConfig } from "@langchain/core/runnables";
import type { ChannelVersions, Checkpoint, CheckpointMetadata } from "@langchain/langgraph-checkpoint";
import { SavepointError } from "../../index.js";
import { type ChannelInput, encodeChannels } from "./channels.js";
import { type CheckpointAddress, type ThreadAddress, requireAddress } from "./address.js";
import type { StoredCheckpoint } from "./stored.js";
import { Encoder } from "./values.js";

/** What LangGraph hands over. */
export interface PutArguments {
  /** Its `checkpoint_id` is that of the parent. */
  readonly config: RunnableConfig;
  readonly checkpoint: Checkpoint;
  readonly metadata: CheckpointMetadata;
  readonly newVersions: ChannelVersions | undefined;
}

/** A checkpoint that was taken over: its values in their stored form, nothing of it the caller's any more. */
export interface PutRequest {
  /** Where it goes, and behind which checkpoint. */
  readonly place: CheckpointAddress;
  readonly id: string;
  readonly rest: Omit<StoredCheckpoint, "channel_values">;
  readonly channels: ChannelInput;
  readonly metadata: unknown;
  readonly source: string | undefined;
  /** Checkpoints of the graphs that its graph is in. */
  readonly parents: readonly (readonly [namespace: string, id: string])[];
  /** Has it channels whose values are made of what was written to the checkpoints before it? */
  readonly usesDeltas: boolean;
  /** Is it meant to branch off? */
  readonly isFork: boolean;
  readonly encoder: Encoder;
}

/** @param recall gives a checkpoint that is remembered */
export function parsePutRequest(
  { config, checkpoint, metadata, newVersions }: PutArguments,
  recall: (place: ThreadAddress, id: string | undefined) => StoredCheckpoint | undefined,
): PutRequest {
  const place = requireAddress(config, "A checkpoint");
  const {
    id,
    channel_values: values = {},
    channel_versions: versions = {},
    ...rest
  } = checkpoint as Partial<Checkpoint>;
  if (typeof id !== "string" || id === "") {
    throw new SavepointError("INVALID_ARGUMENT", "A checkpoint without an id cannot be saved. Make one with uuid6().");
  }
  const encoder = new Encoder();
  const encode = (value: unknown): unknown => encoder.encode(value);
  // One that was put before may be put again behind itself.
  const parent = place.checkpoint === id ? undefined : place.checkpoint;
  const whole = { ...checkpoint, channel_values: values, channel_versions: versions };
  const { source, parents, counters_since_delta_snapshot: deltas } = metadata ?? {};
  return {
    place: { ...place, checkpoint: parent },
    id,
    rest: encode({ ...rest, channel_versions: versions }) as PutRequest["rest"],
    channels: encodeChannels(whole, newVersions, recall(place, parent), encode),
    metadata: encode(metadata),
    source,
    parents: Object.entries(parents ?? {}),
    usesDeltas: deltas !== undefined,
    isFork: source === "fork" || config.configurable?.["fork"] === true,
    encoder,
  };
}
