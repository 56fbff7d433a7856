/** Building the tuples that LangGraph reads. */
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
  findNewest,
  type ThreadCheckpoint,
  lastPut,
  type StoredCheckpoint,
  type ThreadState,
  toThreadCheckpoint,
} from "./stored.js";
import { decodeWrites } from "./writes.js";

/** From this checkpoint format on, sends are stored in a channel instead of the pending writes of the parent. */
const SENDS_IN_CHANNEL = 4;

/**
 * Builds the tuple of a checkpoint; `undefined` for a checkpoint that another program saved.
 *
 * @param onLoaded called with the checkpoint in its stored form
 */
export async function toTuple(
  session: Session<ThreadState>,
  saved: SavedCheckpoint<ThreadState>,
  onLoaded?: (entry: ThreadCheckpoint, stored: StoredCheckpoint) => void,
): Promise<CheckpointTuple | undefined> {
  const entry = toThreadCheckpoint(saved);
  if (!entry) return undefined;
  const annotations = (await session.annotations(entry.seq)).get(entry.seq);
  const { state, metadata } = lastPut(saved, annotations);
  onLoaded?.(entry, state);
  const checkpoint = await decodeCheckpoint(entry.id, state);
  if (checkpoint.v < SENDS_IN_CHANNEL && entry.parent !== undefined) await addSends(session, entry, checkpoint);
  return {
    config: configOf(entry.address, entry.id),
    checkpoint,
    metadata: await decodeMetadata(metadata),
    ...(entry.parent !== undefined && { parentConfig: configOf(entry.address, entry.parent) }),
    pendingWrites: await decodeWrites(annotations),
  };
}

/** The newest intact checkpoint of the branch that the saver has saved. Those of other programs are skipped. */
export async function loadNewest(session: Session<ThreadState>): Promise<SavedCheckpoint<ThreadState> | undefined> {
  const newest = await session.latest();
  const own = newest && (await findNewest(session, newest));
  return own === newest ? newest : own && session.load({ seq: own.seq });
}

/** The annotations of a checkpoint; `undefined` if it was removed. */
async function loadAnnotations(
  session: Session<ThreadState>,
  { address }: ThreadCheckpoint,
  id: string,
): Promise<CheckpointAnnotations | undefined> {
  const loaded = await session.load(storedId(address, id));
  return loaded && (await session.annotations(loaded.seq)).get(loaded.seq);
}

/** Adds the sends that earlier versions of LangGraph stored in the pending writes of the parent. */
async function addSends(session: Session<ThreadState>, entry: ThreadCheckpoint, checkpoint: Checkpoint): Promise<void> {
  const annotations = await loadAnnotations(session, entry, entry.parent as string);
  const writes: CheckpointPendingWrite[] = await decodeWrites(annotations);
  const versions = Object.values(checkpoint.channel_versions);
  checkpoint.channel_values[TASKS] = writes.filter(([, channel]) => channel === TASKS).map(([, , value]) => value);
  checkpoint.channel_versions[TASKS] = versions.length > 0 ? maxChannelVersion(...versions) : 1;
}
