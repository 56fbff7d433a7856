/** Putting what LangGraph has handed over: which values it has, and whether its thread is still the one it was made for. */
import { isSavepointError } from "../../index.js";
import { resolveChannels } from "./channels.js";
import type { PutRequest } from "./given.js";
import type { ThreadCache } from "./thread-cache.js";
import { type EncodedCheckpoint, putCheckpoint } from "./put.js";
import type { StoredCheckpoint } from "./stored.js";
import type { Thread } from "./thread.js";

/** @param refuse refuse a checkpoint that branches off without being meant to */
export async function applyPutRequest(
  known: ThreadCache,
  thread: Thread,
  given: PutRequest,
  refuse: boolean,
): Promise<void> {
  const { place, id, channels, rest, metadata, source } = given;
  const parent = place.checkpoint;
  await given.encoder.verifyDecodable();
  const before = parent === undefined ? undefined : (known.recall(place, parent) ?? (await thread.load(place, parent)));
  const values = await resolveChannels(channels, before, (...version) => thread.isVersionStored(place, ...version));
  const state: StoredCheckpoint = { ...rest, channel_values: values };
  const checkpoint: EncodedCheckpoint = {
    place,
    id,
    parent,
    state,
    metadata,
    source,
    pinned: given.usesDeltas,
    onlyOnHead: refuse && !given.isFork,
    mayDangle: false,
  };
  known.forget(place);
  const info = await putToItsThread(thread, given, checkpoint);
  const { head } = thread.branch(place);
  if (info && typeof head === "object" && head.id === id) known.remember(place, { id, state, bytes: info.stateBytes });
}

/** Puts a checkpoint to the thread that it was made for: never to one that was begun after that one was deleted. */
async function putToItsThread(
  thread: Thread,
  given: PutRequest,
  checkpoint: EncodedCheckpoint,
): ReturnType<typeof putCheckpoint> {
  try {
    return await putCheckpoint(thread, checkpoint);
  } catch (error) {
    if (!isSavepointError(error, "SESSION_DELETED") || !(await isOfNow(thread, given))) throw error;
    thread.rebind();
    return putCheckpoint(thread, checkpoint);
  }
}

async function isOfNow(thread: Thread, { place, parents }: PutRequest): Promise<boolean> {
  // What it follows must be there, or it is refused anyway; and a graph that follows nothing begins its thread.
  if (place.checkpoint !== undefined || place.namespace === "") return true;
  for (const [namespace, id] of parents) if (await thread.find({ ...place, namespace }, id)) return true;
  return false;
}
