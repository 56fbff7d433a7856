/** From what is stored to the tuples that LangGraph reads. */
import {
  type Checkpoint,
  type CheckpointPendingWrite,
  type CheckpointTuple,
  maxChannelVersion,
  TASKS,
} from "@langchain/langgraph-checkpoint";
import type { Checkpoint as SavedCheckpoint, Session } from "../../index.js";
import { configOf, storedId } from "./address.js";
import {
  type CheckpointAnnotations,
  decodeCheckpoint,
  decodeMetadata,
  decodeWrites,
  type ThreadCheckpoint,
  joinCheckpoint,
  replacementIn,
  type StoredCheckpoint,
  type ThreadState,
  toThreadCheckpoint,
} from "./stored.js";

/** The version of the format from which on sends are in a channel, and not in what was written to the parent. */
const SENDS_IN_CHANNEL = 4;

/**
 * `undefined` for a checkpoint that is none of LangGraph's.
 *
 * @param tell told what the checkpoint is in its stored form
 */
export async function toTuple(
  session: Session<ThreadState>,
  saved: SavedCheckpoint<ThreadState>,
  tell?: (found: ThreadCheckpoint, stored: StoredCheckpoint) => void,
): Promise<CheckpointTuple | undefined> {
  const found = toThreadCheckpoint(saved);
  if (!found) return undefined;
  const attached = (await session.annotations(found.seq)).get(found.seq);
  const replaced = replacementIn(attached);
  const stored = replaced?.state ?? joinCheckpoint(saved);
  tell?.(found, stored);
  const checkpoint = await decodeCheckpoint(found.id, stored);
  if (checkpoint.v < SENDS_IN_CHANNEL && found.parent !== undefined) await moveSends(session, found, checkpoint);
  return {
    config: configOf(found.place, found.id),
    checkpoint,
    metadata: await decodeMetadata(replaced ? replaced.metadata : found.metadata),
    ...(found.parent !== undefined && { parentConfig: configOf(found.place, found.parent) }),
    pendingWrites: await decodeWrites(attached),
  };
}

/** What is attached to a checkpoint; `undefined` where it is gone. */
export async function loadAnnotations(
  session: Session<ThreadState>,
  { place }: ThreadCheckpoint,
  id: string,
): Promise<CheckpointAnnotations | undefined> {
  const loaded = await session.load(storedId(place, id));
  return loaded && (await session.annotations(loaded.seq)).get(loaded.seq);
}

/** Checkpoints of earlier versions of LangGraph have their sends in what was written to the parent. */
async function moveSends(
  session: Session<ThreadState>,
  found: ThreadCheckpoint,
  checkpoint: Checkpoint,
): Promise<void> {
  const attached = await loadAnnotations(session, found, found.parent as string);
  const writes: CheckpointPendingWrite[] = await decodeWrites(attached);
  const versions = Object.values(checkpoint.channel_versions);
  checkpoint.channel_values[TASKS] = writes.filter(([, channel]) => channel === TASKS).map(([, , value]) => value);
  checkpoint.channel_versions[TASKS] = versions.length > 0 ? maxChannelVersion(...versions) : 1;
}
