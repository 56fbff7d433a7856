/**
 * Queue entries: one for each unfinished run, with the time from which it can be resumed.
 *
 * Each entry also has an index key, so that a worker finds it without reading all entries: under its agent, by priority and
 * time, while no process runs it; under its owner while one does. Where index and entry disagree, the entry is right.
 */
import { type KeyRange, prefixRange, type Put } from "../store/index.js";
import { either, isCounter, isNumber, isString, listOf, oneOf, optional, type Shape, tupleOf } from "../util/index.js";
import { isId } from "./ids.js";
import { encodeTime } from "./keys.js";
import { parseRecord } from "./parse-record.js";

/** An unfinished run of a branch. */
export interface QueueEntry {
  readonly agent: string;
  /** The time from which it can be resumed; `null` while it waits for an answer. */
  readonly readyAt: number | null;
  /** From 0 to 9; the highest is resumed first. */
  readonly priority: number;
  /** The owner of the lease, while a process runs it. */
  readonly owner: string | undefined;
  /** Previous owners whose leases expired, in order, since the last completed step. They crashed or lost their connection. */
  readonly lostOwners: readonly string[];
  /** The seq of the checkpoint that the lost owners started from. */
  readonly lostAtSeq: number | undefined;
  /** The loop is the caller's own (`sp.openRun`): no worker can resume it, so it has no index key. */
  readonly external: boolean;
}

export const LOWEST_PRIORITY = 0;
export const HIGHEST_PRIORITY = 9;

export function newQueueEntry(agent: string, readyAt: number | null, priority = LOWEST_PRIORITY): QueueEntry {
  return { agent, readyAt, priority, owner: undefined, lostOwners: [], lostAtSeq: undefined, external: false };
}

export function encodeQueueEntry(entry: QueueEntry): string {
  const { agent, readyAt, priority, owner, lostOwners, lostAtSeq, external } = entry;
  return JSON.stringify([
    agent,
    readyAt,
    priority,
    owner ?? null,
    lostOwners,
    lostAtSeq ?? null,
    ...(external ? [1] : []),
  ]);
}

type StoredQueueEntry = [string, number | null, number?, (string | null)?, string[]?, (number | null)?, number?];

const isPriority: Shape = (value) => isCounter(value) && (value as number) <= HIGHEST_PRIORITY;
const isStoredQueueEntry = tupleOf(
  isId,
  either(isNumber, oneOf(null)),
  optional(isPriority),
  optional(either(isString, oneOf(null))),
  optional(listOf(isString)),
  optional(either(isCounter, oneOf(null))),
  optional(oneOf(1)),
);

export function decodeQueueEntry(value: string): QueueEntry {
  const [agent, readyAt, priority = LOWEST_PRIORITY, owner, lostOwners = [], lostAtSeq, external] =
    parseRecord<StoredQueueEntry>(value, isStoredQueueEntry, "queue entry");
  return {
    agent,
    readyAt,
    priority,
    owner: owner ?? undefined,
    lostOwners,
    lostAtSeq: lostAtSeq ?? undefined,
    external: external === 1,
  };
}

/**
 * Replaces a queue entry and its index key.
 *
 * @param before the stored entry, which the commit must check; `undefined` if there is none
 * @param after the new entry; `undefined` to remove it
 */
export function changeQueueEntry(
  session: string,
  branch: string,
  before: QueueEntry | undefined,
  after: QueueEntry | undefined,
): { readonly puts: readonly Put[]; readonly deletes: readonly string[] } {
  const [from, to] = [before && queueIndexKey(session, branch, before), after && queueIndexKey(session, branch, after)];
  const key = queueEntryKey(session, branch);
  return {
    puts: [
      ...(after ? [{ key, value: encodeQueueEntry(after) }] : []),
      ...(to !== undefined && to !== from ? [{ key: to, value: "" }] : []),
    ],
    deletes: [...(after ? [] : [key]), ...(from !== undefined && from !== to ? [from] : [])],
  };
}

/** The index key of an entry; `undefined` where no worker must find it. */
export function queueIndexKey(session: string, branch: string, entry: QueueEntry): string | undefined {
  const { agent, readyAt, priority, owner, external } = entry;
  if (external) return undefined;
  if (owner !== undefined) return ownedKey(owner, session, branch);
  return readyAt === null ? undefined : workKey(agent, priority, readyAt, session, branch);
}

/** A branch as a key names it. */
export interface BranchName {
  readonly session: string;
  readonly branch: string;
}

export const queueEntryKey = (session: string, branch: string): string => `q\t${session}\t${branch}`;
export const queueEntriesOf = (session: string): KeyRange => prefixRange(`q\t${session}\t`);
export const ALL_QUEUE_ENTRIES: KeyRange = prefixRange("q");
export function parseQueueEntryKey(key: string): BranchName {
  const [, session = "", branch = ""] = key.split("\t");
  return { session, branch };
}

/** The index of entries without an owner: highest priority first, then earliest `readyAt`. */
export const workKey = (agent: string, priority: number, readyAt: number, session: string, branch: string): string =>
  `${workPrefix(agent, priority)}${encodeTime(readyAt)}\t${session}\t${branch}`;
const workPrefix = (agent: string, priority: number): string => `w\t${agent}\t${HIGHEST_PRIORITY - priority}`;
export const ALL_WORK: KeyRange = prefixRange("w");
/** The entries of an agent with this priority that are ready at `now`. */
export const readyWork = (agent: string, priority: number, now: number): KeyRange => ({
  from: workPrefix(agent, priority),
  to: workPrefix(agent, priority) + encodeTime(now + 1),
});
/** The entries of an agent with this priority or a lower one, ready or not. */
export const workUpToPriority = (agent: string, priority: number): KeyRange => ({
  from: workPrefix(agent, priority),
  to: prefixRange(`w\t${agent}\t`).to,
});
export const priorityOfWorkKey = (key: string): number => HIGHEST_PRIORITY - Number(key.split("\t")[2]?.[0]);
export function parseWorkKey(key: string): BranchName {
  const [, , , session = "", branch = ""] = key.split("\t");
  return { session, branch };
}

/** The index of entries with an owner. */
const ownedKey = (owner: string, session: string, branch: string): string => `u${owner}\t${session}\t${branch}`;
export const ownedBy = (owner: string): KeyRange => prefixRange(`u${owner}\t`);
export const parseOwnedKey = parseQueueEntryKey;
