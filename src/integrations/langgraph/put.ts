/**
 * Putting a checkpoint into a thread: after the newest one of its namespace, beside it, or in place of one with the same id.
 *
 * `put` is the path of LangGraph's own calls. `putCheckpoint` is the part that copies and migrations use as well.
 */
import { isDeepStrictEqual } from "node:util";
import { type CheckpointInfo, isSavepointError, SavepointError, type SaveOptions } from "../../index.js";
import { storedId, type ThreadAddress } from "./address.js";
import { findNodes } from "./nodes.js";
import { findUnconfirmed, type PutRequest, resolveChannels } from "./put-request.js";
import {
  asIntegration,
  type HeadAnnotations,
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
import type { NamespaceBranch, NamespaceHead, Thread } from "./thread.js";
import type { ThreadCache } from "./thread-cache.js";
import { hasUnsettled, storeWrites, type TaskWrites, toAnnotations } from "./writes.js";

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

const NO_CHANNELS: ReadonlySet<string> = new Set();

/** Puts a checkpoint of LangGraph's. @param rejectBranching fail with `CONFLICT` if it branches off unintentionally */
export async function put(
  cache: ThreadCache,
  thread: Thread,
  request: PutRequest,
  rejectBranching: boolean,
): Promise<void> {
  const { address, id, metadata, source, pinned } = request;
  const parent = address.checkpoint;
  // LangGraph puts a checkpoint per step, and every promise takes time. So values that are usually available are not awaited.
  const verification = request.encoder.verifyDecodable();
  if (verification) await verification;
  const writes = parent === undefined ? [] : thread.takeWrites(address, parent);
  try {
    const parentState =
      parent === undefined ? undefined : (cache.recall(address, parent) ?? (await thread.load(address, parent)));
    const unconfirmed = findUnconfirmed(request.channels, parentState);
    const rejected = unconfirmed.length === 0 ? NO_CHANNELS : await rejectUnstored(thread, address, unconfirmed);
    const values = resolveChannels(request.channels, parentState, rejected);
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
  } finally {
    if (hasUnsettled(writes)) await storeWrites(thread, writes);
  }
}

/** Finds the channels whose version no checkpoint of the namespace has stored. */
async function rejectUnstored(
  thread: Thread,
  address: ThreadAddress,
  channels: readonly (readonly [channel: string, version: string | number])[],
): Promise<ReadonlySet<string>> {
  const rejected = new Set<string>();
  for (const [channel, version] of channels) {
    if (!(await thread.isVersionStored(address, channel, version))) rejected.add(channel);
  }
  return rejected;
}

/** Puts a checkpoint into the thread it was created for, and never into one that was created after a deletion. */
function putUnlessDeleted(
  thread: Thread,
  request: PutRequest,
  checkpoint: EncodedCheckpoint,
): Promise<CheckpointInfo | undefined> {
  return putCheckpoint(thread, checkpoint).catch(async (error: unknown) => {
    if (!isSavepointError(error, "SESSION_DELETED") || !(await belongsToNewThread(thread, request))) throw error;
    thread.rebind();
    return putCheckpoint(thread, checkpoint);
  });
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
      if (head === undefined || head.id !== checkpoint.parent) {
        return await saveElsewhere(thread, branch, checkpoint, head);
      }
      const { writes } = checkpoint;
      const annotations = toAnnotations(writes, head.seq);
      if (!annotations && hasUnsettled(writes)) await storeWrites(thread, writes);
      const info = await saveOnHead(branch, checkpoint, annotations);
      for (const each of writes) each.resolve();
      branch.head = toHead(id, info);
      return info;
    } catch (error) {
      branch.head = "unknown";
      if (!isSavepointError(error, "CONFLICT") || error instanceof ConcurrentWriteError) throw error;
      const hasWrites = hasUnsettled(checkpoint.writes);
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

function toHead(id: string, { seq, pinned }: CheckpointInfo): NamespaceHead {
  return { id, seq, pinned };
}

/** Saves a checkpoint whose parent is the head, in one commit with the annotations of the head. */
function saveOnHead(
  { session }: NamespaceBranch,
  checkpoint: EncodedCheckpoint,
  annotations: HeadAnnotations | undefined,
): Promise<CheckpointInfo> {
  const { state, options } = buildSave(checkpoint);
  return session.save(state, annotations ? asIntegration(options, { annotations }) : options);
}

/** Saves a checkpoint whose parent is not the head. */
async function saveElsewhere(
  thread: Thread,
  branch: NamespaceBranch,
  checkpoint: EncodedCheckpoint,
  head: NamespaceHead | undefined,
): Promise<CheckpointInfo> {
  const { address, id, parent, writes } = checkpoint;
  const { state, options } = buildSave(checkpoint);
  await storeWrites(thread, writes);
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
  if (position === "late") return thread.openWithoutBranch().save(state, placed);
  const info = await branch.session.save(state, { ...placed, resetBranch: position === "newest" });
  branch.head = toHead(id, info);
  return info;
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
