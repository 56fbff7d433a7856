/** Putting a checkpoint: on top of the newest of its namespace, beside it, or in the place of one that has its id. */
import { isDeepStrictEqual } from "node:util";
import { type CheckpointInfo, isSavepointError, SavepointError, type SaveOptions } from "../../index.js";
import { type ThreadAddress, storedId } from "./address.js";
import {
  type ThreadCheckpoint,
  joinCheckpoint,
  replacementIn,
  replacementName,
  type Replacement,
  type StoredCheckpoint,
  splitCheckpoint,
  type StoredFields,
  type ThreadState,
} from "./stored.js";
import type { NamespaceHead, Thread } from "./thread.js";

/** A checkpoint to put, in its stored form. */
export interface EncodedCheckpoint {
  readonly place: ThreadAddress;
  readonly id: string;
  /** What it follows. */
  readonly parent: string | undefined;
  readonly state: StoredCheckpoint;
  readonly metadata: unknown;
  /** What made LangGraph put it. */
  readonly source: string | undefined;
  /** Nothing prunes it, nor what it follows: it can only be read with what was written to those before it. */
  readonly pinned: boolean;
  /** Refuse it where what it follows is not the newest of its namespace. */
  readonly onlyOnHead: boolean;
  /** What it follows may be missing: it is copied from somewhere else. */
  readonly mayDangle: boolean;
}

/** Puts a checkpoint. Returns what was saved; `undefined` where one with its id was there. */
export async function putCheckpoint(
  thread: Thread,
  checkpoint: EncodedCheckpoint,
): Promise<CheckpointInfo | undefined> {
  const { place, id } = checkpoint;
  const branch = thread.branch(place);
  for (;;) {
    // What is remembered is good enough to build on, because that is checked; but not to decide that something is elsewhere.
    const remembered = branch.head === "unknown" || branch.head?.id !== checkpoint.parent ? undefined : branch.head;
    const head = remembered ?? (await thread.readHead(place));
    const before = head && id <= head.id ? await thread.find(place, id) : undefined;
    if (before) return replace(thread, checkpoint, before);
    if (checkpoint.pinned) await pinParent(thread, checkpoint, head);
    try {
      const { info, isHead } = await save(thread, checkpoint, head);
      if (isHead) branch.head = { id, seq: info.seq, pinned: info.pinned };
      return info;
    } catch (error) {
      branch.head = "unknown";
      if (!isSavepointError(error, "CONFLICT") || error instanceof SecondWriter) throw error;
      const now = await thread.readHead(place);
      // Where the clocks of two machines differ, an id that is taken may be higher than that of the newest.
      const taken = await thread.find(place, id);
      if (taken) return replace(thread, checkpoint, taken);
      if (now?.id === head?.id) throw error;
    }
  }
}

/** What others can only be read with begins with a checkpoint that does not know that yet. */
async function pinParent(
  thread: Thread,
  checkpoint: EncodedCheckpoint,
  head: NamespaceHead | undefined,
): Promise<void> {
  const { place, parent, mayDangle } = checkpoint;
  if (parent === undefined || (head?.id === parent && head.pinned)) return;
  try {
    await thread.open(place).pin(storedId(place, parent));
  } catch (error) {
    if (!mayDangle || !isSavepointError(error, "CHECKPOINT_NOT_FOUND")) throw error;
  }
}

/** One of two writers that go on from the same checkpoint. */
class SecondWriter extends SavepointError<"CONFLICT"> {
  constructor({ place, parent }: EncodedCheckpoint, head: NamespaceHead | undefined) {
    super(
      "CONFLICT",
      `Thread ${JSON.stringify(place.thread)} has moved on from ${parent ?? "its beginning"} to ${head?.id ?? "nothing"}: somebody else works on it. Start again from its newest checkpoint; to branch off on purpose, pass { configurable: { thread_id, checkpoint_id, fork: true } }.`,
      { details: { threadId: place.thread, checkpointNs: place.namespace, parent, head: head?.id } },
    );
  }
}

async function save(
  thread: Thread,
  checkpoint: EncodedCheckpoint,
  head: NamespaceHead | undefined,
): Promise<{ info: CheckpointInfo; isHead: boolean }> {
  const { place, id, parent, mayDangle } = checkpoint;
  const { session } = thread.branch(place);
  const { state, options } = toSave(checkpoint);
  if (head && parent === head.id) return { info: await session.save(state, options), isHead: true };
  const dangles = mayDangle && parent !== undefined && !(await thread.find(place, parent));
  const follows = parent === undefined || dangles ? null : storedId(place, parent);
  if (!head && follows === null) {
    return { info: await session.save(state, { ...dangling(options, dangles, parent), parent: null }), isHead: true };
  }
  if (checkpoint.onlyOnHead && !(await isNewestWhole(thread, place, parent))) throw new SecondWriter(checkpoint, head);
  const elsewhere = { ...dangling(options, dangles, parent), parent: follows };
  if (!head || id > head.id)
    return { info: await session.save(state, { ...elsewhere, resetBranch: true }), isHead: true };
  const late = { ...elsewhere, metadata: { ...elsewhere.metadata, late: true } };
  return { info: await thread.openWithoutBranch().save(state, late), isHead: false };
}

/** Where newer ones are damaged, work goes on from the newest that is whole. */
async function isNewestWhole(thread: Thread, place: ThreadAddress, parent: string | undefined): Promise<boolean> {
  const whole = await thread.open(place).latest();
  return (
    whole !== undefined && whole.skipped.length > 0 && parent !== undefined && whole.id === storedId(place, parent)
  );
}

type Options = SaveOptions & { readonly metadata: StoredFields };

function toSave(checkpoint: EncodedCheckpoint): { readonly state: ThreadState; readonly options: Options } {
  const { place, id, metadata, source, pinned } = checkpoint;
  const { state, fields } = splitCheckpoint(checkpoint.state);
  const channels = Object.keys(state.channel_values);
  return {
    state,
    options: {
      id: storedId(place, id),
      kind: "automatic",
      pinned,
      ...(source !== undefined && { trigger: source }),
      metadata: { checkpoint_ns: place.namespace, channels, ...fields, metadata },
    },
  };
}

function dangling(options: Options, dangles: boolean, parent: string | undefined): Options {
  return dangles && parent !== undefined ? { ...options, metadata: { ...options.metadata, parent } } : options;
}

/** What is saved is never changed: what takes its place stands beside it. */
async function replace(thread: Thread, checkpoint: EncodedCheckpoint, before: ThreadCheckpoint): Promise<undefined> {
  const { place, id, state, metadata } = checkpoint;
  const { seq } = before;
  const session = thread.open(place);
  const attached = await session.annotations(seq);
  const replaced = replacementIn(attached.get(seq));
  const loaded = replaced ? undefined : await session.load(storedId(place, id));
  const present = replaced ?? { state: loaded && joinCheckpoint(loaded), metadata: before.metadata };
  const replacement: Replacement = { state, metadata };
  if (!isDeepStrictEqual(present, replacement)) await session.annotate({ seq }, replacementName, () => replacement);
  return undefined;
}
