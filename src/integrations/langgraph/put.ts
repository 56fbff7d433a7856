/**
 * Putting a checkpoint into a thread: after the newest one of its namespace, beside it, or in place of one with the same id.
 *
 * `put` is the path of LangGraph's own calls. `putCheckpoint` is the part that copies and migrations use as well.
 */
import { isDeepStrictEqual } from "node:util";
import { type CheckpointInfo, isSavepointError, SavepointError, type SaveOptions } from "../../index.js";
import { storedId, type ThreadAddress } from "./address.js";
import { findNodes } from "./nodes.js";
import { type PutRequest, resolveChannels } from "./put-request.js";
import {
  asIntegration,
  joinCheckpoint,
  type Replacement,
  replacementIn,
  REPLACEMENT_NAME,
  splitCheckpoint,
  type StoredCheckpoint,
  type StoredFields,
  type ThreadCheckpoint,
  type ThreadState,
} from "./stored.js";
import { statusOfCheckpoint } from "./status.js";
import type { NamespaceHead, Thread } from "./thread.js";
import type { ThreadCache } from "./thread-cache.js";
import { storeWrites, type TaskWrites, toAnnotations } from "./writes.js";

/** A checkpoint to put, with its values in their stored form. */
export interface EncodedCheckpoint {
  readonly address: ThreadAddress;
  readonly id: string;
  readonly parent: string | undefined;
  readonly state: StoredCheckpoint;
  readonly metadata: unknown;
  /** Why LangGraph puts it. */
  readonly source: string | undefined;
  /** The nodes that ran since its parent, if that is known. */
  readonly nodes: readonly string[];
  /** Keep it and its ancestors from being pruned: its values are computed from the writes of all of them. */
  readonly pinned: boolean;
  /** Reject it with `CONFLICT` if its parent is not the newest checkpoint of the namespace. */
  readonly onlyOnHead: boolean;
  /** Accept a missing parent: it is copied from another thread or saver. */
  readonly mayDangle: boolean;
  /** Writes to its parent that are not stored yet. */
  readonly writes: readonly TaskWrites[];
}

/** Puts a checkpoint of LangGraph's. @param rejectBranching fail with `CONFLICT` if it branches off unintentionally */
export async function put(
  cache: ThreadCache,
  thread: Thread,
  request: PutRequest,
  rejectBranching: boolean,
): Promise<void> {
  const parent = request.address.checkpoint;
  const writes = parent === undefined ? [] : thread.takeWrites(request.address, parent);
  try {
    await putWithWrites(cache, thread, request, rejectBranching, writes);
  } finally {
    await storeWrites(thread, writes);
  }
}

async function putWithWrites(
  cache: ThreadCache,
  thread: Thread,
  request: PutRequest,
  rejectBranching: boolean,
  writes: readonly TaskWrites[],
): Promise<void> {
  const { address, id, metadata, source, pinned } = request;
  const parent = address.checkpoint;
  await request.encoder.verifyDecodable();
  const parentState =
    parent === undefined ? undefined : (cache.recall(address, parent) ?? (await thread.load(address, parent)));
  const values = await resolveChannels(request.channels, parentState, (channel, version) =>
    thread.isVersionStored(address, channel, version),
  );
  const state: StoredCheckpoint = { ...request.rest, channel_values: values };
  const onlyOnHead = rejectBranching && !request.isFork;
  const nodes = source === "loop" ? findNodes(state, parentState) : [];
  const placed = { address, id, parent, pinned, onlyOnHead, mayDangle: false, writes };
  const checkpoint = { ...placed, state, metadata, source, nodes };
  cache.forget(address);
  const info = await putUnlessDeleted(thread, request, checkpoint);
  const { head } = thread.branch(address);
  if (info && typeof head === "object" && head.id === id) {
    cache.remember(address, { id, state, bytes: info.stateBytes });
  }
}

/** Puts a checkpoint into the thread it was created for, and never into one that was created after a deletion. */
async function putUnlessDeleted(
  thread: Thread,
  request: PutRequest,
  checkpoint: EncodedCheckpoint,
): Promise<CheckpointInfo | undefined> {
  try {
    return await putCheckpoint(thread, checkpoint);
  } catch (error) {
    if (!isSavepointError(error, "SESSION_DELETED") || !(await belongsToNewThread(thread, request))) throw error;
    thread.rebind();
    return putCheckpoint(thread, checkpoint);
  }
}

async function belongsToNewThread(thread: Thread, { address, parents }: PutRequest): Promise<boolean> {
  // A missing parent fails the put anyway, and a top-level graph without a parent starts its thread.
  if (address.checkpoint !== undefined || address.namespace === "") return true;
  for (const [namespace, id] of parents) if (await thread.find({ ...address, namespace }, id)) return true;
  return false;
}

/**
 * Puts an encoded checkpoint.
 *
 * @returns the saved checkpoint; `undefined` if one with its id existed, which it replaces
 */
export async function putCheckpoint(
  thread: Thread,
  checkpoint: EncodedCheckpoint,
): Promise<CheckpointInfo | undefined> {
  const { address, id } = checkpoint;
  const branch = thread.branch(address);
  for (;;) {
    // The cached head is good enough to save on, because the save checks it; but not to decide that the parent is older.
    const cached = branch.head === "unknown" || branch.head?.id !== checkpoint.parent ? undefined : branch.head;
    const head = cached ?? (await thread.readHead(address));
    const existing = head && id <= head.id ? await thread.find(address, id) : undefined;
    if (existing) return replace(thread, checkpoint, existing);
    if (checkpoint.pinned) await pinParent(thread, checkpoint, head);
    try {
      const { info, isHead } = await save(thread, checkpoint, head);
      if (isHead) branch.head = { id, seq: info.seq, pinned: info.pinned };
      return info;
    } catch (error) {
      branch.head = "unknown";
      if (!isSavepointError(error, "CONFLICT") || error instanceof ConcurrentWriteError) throw error;
      const hasWrites = checkpoint.writes.some(({ isSettled }) => !isSettled);
      await storeWrites(thread, checkpoint.writes);
      const newHead = await thread.readHead(address);
      // With skewed clocks, an id that exists can be higher than that of the newest checkpoint.
      const sameId = await thread.find(address, id);
      if (sameId) return replace(thread, checkpoint, sameId);
      if (newHead?.id === head?.id && !hasWrites) throw error;
    }
  }
}

/** The first checkpoint with deltas pins its parent, which was saved without a pin. */
async function pinParent(
  thread: Thread,
  checkpoint: EncodedCheckpoint,
  head: NamespaceHead | undefined,
): Promise<void> {
  const { address, parent, mayDangle } = checkpoint;
  if (parent === undefined || (head?.id === parent && head.pinned)) return;
  try {
    await thread.open(address).pin(storedId(address, parent));
  } catch (error) {
    if (!mayDangle || !isSavepointError(error, "CHECKPOINT_NOT_FOUND")) throw error;
  }
}

/** Where a checkpoint whose parent is not the head is saved. */
type Position =
  /** As the first of its namespace. */
  | "first"
  /** As the newest of its namespace: the branch continues from the parent. */
  | "newest"
  /** On an unnamed branch: a checkpoint with a higher id is the newest. */
  | "late";

function positionOf(id: string, head: NamespaceHead | undefined, hasParent: boolean): Position {
  if (!head && !hasParent) return "first";
  return !head || id > head.id ? "newest" : "late";
}

async function save(
  thread: Thread,
  checkpoint: EncodedCheckpoint,
  head: NamespaceHead | undefined,
): Promise<{ info: CheckpointInfo; isHead: boolean }> {
  const { address, id, parent, writes } = checkpoint;
  const { session } = thread.branch(address);
  const { state, options } = buildSave(checkpoint);
  const annotations = head && parent === head.id ? toAnnotations(writes, head.seq) : undefined;
  if (!annotations) await storeWrites(thread, writes);
  if (head && parent === head.id) {
    const info = await session.save(state, annotations ? asIntegration(options, { annotations }) : options);
    for (const each of writes) each.resolve();
    return { info, isHead: true };
  }

  const isDangling = checkpoint.mayDangle && parent !== undefined && !(await thread.find(address, parent));
  const hasParent = parent !== undefined && !isDangling;
  const position = positionOf(id, head, hasParent);
  if (checkpoint.onlyOnHead && position !== "first" && !(await isNewestIntact(thread, address, parent))) {
    throw new ConcurrentWriteError(checkpoint, head);
  }
  const placed = {
    ...options,
    parent: hasParent ? storedId(address, parent) : null,
    metadata: {
      ...options.metadata,
      ...(isDangling && { parent }),
      ...(position === "late" && { late: true }),
    },
  };
  if (position === "late") return { info: await thread.openWithoutBranch().save(state, placed), isHead: false };
  const resetBranch = position === "newest";
  return { info: await session.save(state, { ...placed, resetBranch }), isHead: true };
}

function buildSave(checkpoint: EncodedCheckpoint): {
  readonly state: ThreadState;
  readonly options: SaveOptions & { readonly metadata: StoredFields };
} {
  const { address, id, metadata, source, nodes, pinned } = checkpoint;
  const { state, fields } = splitCheckpoint(checkpoint.state);
  const channels = Object.keys(state.channel_values);
  return {
    state,
    options: asIntegration({
      id: storedId(address, id),
      kind: "automatic" as const,
      status: statusOfCheckpoint(checkpoint.state),
      pinned,
      ...(source !== undefined && { trigger: source }),
      metadata: {
        "savepoint:ns": address.namespace,
        channels,
        ...fields,
        metadata,
        ...(nodes.length > 0 && { nodes }),
      },
    }),
  };
}

/** If newer checkpoints are damaged, work continues from the newest intact one. */
async function isNewestIntact(thread: Thread, address: ThreadAddress, parent: string | undefined): Promise<boolean> {
  const intact = await thread.open(address).latest();
  return (
    intact !== undefined && intact.skipped.length > 0 && parent !== undefined && intact.id === storedId(address, parent)
  );
}

/** Two writers continue from the same checkpoint. */
class ConcurrentWriteError extends SavepointError<"CONFLICT"> {
  constructor({ address, parent }: EncodedCheckpoint, head: NamespaceHead | undefined) {
    super(
      "CONFLICT",
      `Another writer has moved thread ${JSON.stringify(address.thread)} from ${parent ?? "its start"} to ${head?.id ?? "no checkpoint"}. Continue from its newest checkpoint; to branch off, pass { configurable: { thread_id, checkpoint_id, fork: true } }.`,
      { details: { threadId: address.thread, checkpointNs: address.namespace, parent, head: head?.id } },
    );
  }
}

/** Saved checkpoints are immutable, so a replacement is stored as an annotation. */
async function replace(thread: Thread, checkpoint: EncodedCheckpoint, existing: ThreadCheckpoint): Promise<undefined> {
  const { address, id, state, metadata } = checkpoint;
  const { seq } = existing;
  const session = thread.open(address);
  const annotations = await session.annotations(seq);
  const previous = replacementIn(annotations.get(seq));
  const loaded = previous ? undefined : await session.load(storedId(address, id));
  const current = previous ?? { state: loaded && joinCheckpoint(loaded), metadata: existing.metadata };
  const replacement: Replacement = { state, metadata };
  if (!isDeepStrictEqual(current, replacement)) {
    await session.annotate(
      { seq },
      REPLACEMENT_NAME,
      asIntegration(() => replacement),
      { status: statusOfCheckpoint(state) },
    );
  }
  return undefined;
}
