/**
 * Which runs are not over, when somebody should go on with them, and how they are found.
 *
 * A run that is not over has one record that says so. Beside it stands one that is found without looking at all the
 * others: under its agent, by priority and time, while it waits for somebody to go on with it; under the process that
 * runs it, while somebody does. Where the two do not agree, the first one counts.
 */
import type { Put } from "../store/index.js";
import { queueEntryKey, ownedKey, workKey } from "./keys.js";

export interface QueueEntry {
  readonly agent: string;
  /** From when on it can be gone on with; `null` where it waits to be told something. */
  readonly readyAt: number | null;
  /** From 0 to 9; the highest first. */
  readonly priority: number;
  /** The leases of the process that runs it. */
  readonly owner: string | undefined;
  /**
   * The leases of the processes that it was taken over from, one after another, without a step having been done in between.
   * They have died, or were only cut off.
   */
  readonly lostOwners: readonly string[];
  /** The checkpoint that they began with. */
  readonly lostAtSeq: number | undefined;
  /** Is it a loop outside that works on it? Then nobody else can go on with it, and nobody is to find it. */
  readonly external: boolean;
}

export const LOWEST_PRIORITY = 0;
export const HIGHEST_PRIORITY = 9;

export function newQueueEntry(agent: string, due: number | null, priority = LOWEST_PRIORITY): QueueEntry {
  return { agent, readyAt: due, priority, owner: undefined, lostOwners: [], lostAtSeq: undefined, external: false };
}

export function encodeQueueEntry({
  agent,
  readyAt,
  priority,
  owner,
  lostOwners,
  lostAtSeq,
  external,
}: QueueEntry): string {
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

export function decodeQueueEntry(value: string): QueueEntry {
  const [agent, due, priority = LOWEST_PRIORITY, owner, lost = [], lostAt, open] = JSON.parse(value) as [
    string,
    number | null,
    number?,
    (string | null)?,
    string[]?,
    (number | null)?,
    number?,
  ];
  return {
    agent,
    readyAt: due,
    priority,
    owner: owner ?? undefined,
    lostOwners: lost,
    lostAtSeq: lostAt ?? undefined,
    external: open === 1,
  };
}

/** Parts of a commit. */
export interface QueueEntryChange {
  readonly puts: readonly Put[];
  readonly deletes: readonly string[];
}

/**
 * Puts one thing in the place of another; `undefined`: it is over, or was not known.
 *
 * @param before what the commit checks to be there
 */
export function changeQueueEntry(
  session: string,
  branch: string,
  before: QueueEntry | undefined,
  after: QueueEntry | undefined,
): QueueEntryChange {
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

/** Where it is found; `undefined` where nobody is to find it. */
export function queueIndexKey(session: string, branch: string, work: QueueEntry): string | undefined {
  const { agent, readyAt, priority, owner, external } = work;
  if (external) return undefined;
  if (owner !== undefined) return ownedKey(owner, session, branch);
  return readyAt === null ? undefined : workKey(agent, priority, readyAt, session, branch);
}
