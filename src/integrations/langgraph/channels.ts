/**
 * Which values a checkpoint has. LangGraph hands over all of them, and says which are new: only those are taken from it.
 * The others are what they were in the checkpoint before, so they cost nothing, and nobody can change them by mistake.
 */
import type { ChannelVersions, Checkpoint } from "@langchain/langgraph-checkpoint";
import { type StoredCheckpoint, versionOf } from "./stored.js";

/** What was handed over: everything by channel, each in its stored form. */
export interface ChannelInput {
  /** All that have a value, in the order in which they were handed over. */
  readonly order: readonly string[];
  readonly versions: ChannelVersions;
  /** What is new; everything, where nobody says. */
  readonly newVersions: ChannelVersions | undefined;
  readonly values: ReadonlyMap<string, unknown>;
}

/**
 * Takes over what has to be taken over at once: the caller may change it as soon as we wait for something.
 *
 * @param parent what it follows, where that is known already: then what is not new need not be looked at
 */
export function encodeChannels(
  checkpoint: Checkpoint,
  newVersions: ChannelVersions | undefined,
  parent: StoredCheckpoint | undefined,
  encode: (value: unknown) => unknown,
): ChannelInput {
  const values = new Map<string, unknown>();
  const order = Object.keys(checkpoint.channel_values);
  const given = { order, versions: { ...checkpoint.channel_versions }, newVersions, values };
  for (const [channel, value] of Object.entries(checkpoint.channel_values)) {
    if (isNew(given, channel) || !isInherited(given, channel, parent)) values.set(channel, encode(value));
  }
  return given;
}

/**
 * The values of the checkpoint.
 *
 * @param isStored was this version of the channel stored with any checkpoint of the namespace?
 */
export async function resolveChannels(
  given: ChannelInput,
  parent: StoredCheckpoint | undefined,
  isStored: (channel: string, version: string | number) => Promise<boolean>,
): Promise<Record<string, unknown>> {
  const settled = new Map<string, unknown>();
  for (const channel of new Set([...given.order, ...Object.keys(given.versions)])) {
    const version = versionOf(given.versions, channel);
    if (isNew(given, channel)) {
      if (given.values.has(channel)) settled.set(channel, given.values.get(channel));
    } else if (isInherited(given, channel, parent)) settled.set(channel, parent?.channel_values[channel]);
    // One without a version has the value that it began with. And a copy of a checkpoint follows what that one follows, and
    // has versions that are that one's.
    else if (given.values.has(channel) && (version === undefined || (await isStored(channel, version)))) {
      settled.set(channel, given.values.get(channel));
    }
  }
  return Object.fromEntries(settled);
}

function isNew({ newVersions }: ChannelInput, channel: string): boolean {
  return newVersions === undefined || Object.hasOwn(newVersions, channel);
}

function isInherited({ versions }: ChannelInput, channel: string, parent: StoredCheckpoint | undefined): boolean {
  if (!parent || !Object.hasOwn(parent.channel_values, channel)) return false;
  const version = versionOf(versions, channel);
  return version !== undefined && version === versionOf(parent.channel_versions, channel);
}
