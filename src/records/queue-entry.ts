/**
 * Which runs are not over, when somebody should go on with them, and how they are found.
 *
 * A run that is not over has one record that says so. Beside it stands one that is found without looking at all the
 * others: under its agent, by priority and time, while it waits for somebody to go on with it; under the process that
 * runs it, while somebody does. Where the two do not agree, the first one counts.
 */
import type { Put } from "../store/index.js";
import { dueKey, ownedKey, workKey } from "./keys.js";

export interface Due {
  readonly agent: string;
  /** From when on it can be gone on with; `null` where it waits to be told something. */
  readonly due: number | null;
  /** From 0 to 9; the highest first. */
  readonly priority: number;
  /** The leases of the process that runs it. */
  readonly owner: string | undefined;
  /**
   * The leases of the processes that it was taken over from, one after another, without a step having been done in between.
   * They have died, or were only cut off.
   */
  readonly lost: readonly string[];
  /** The checkpoint that they began with. */
  readonly lostAt: number | undefined;
  /** Is it a loop outside that works on it? Then nobody else can go on with it, and nobody is to find it. */
  readonly open: boolean;
}

export const LOWEST_PRIORITY = 0;
export const HIGHEST_PRIORITY = 9;

export function newDue(agent: string, due: number | null, priority = LOWEST_PRIORITY): Due {
  return { agent, due, priority, owner: undefined, lost: [], lostAt: undefined, open: false };
}

export function encodeDue({ agent, due, priority, owner, lost, lostAt, open }: Due): string {
  return JSON.stringify([agent, due, priority, owner ?? null, lost, lostAt ?? null, ...(open ? [1] : [])]);
}

export function decodeDue(value: string): Due {
  const [agent, due, priority = LOWEST_PRIORITY, owner, lost = [], lostAt, open] = JSON.parse(value) as [
    string,
    number | null,
    number?,
    (string | null)?,
    string[]?,
    (number | null)?,
    number?,
  ];
  return { agent, due, priority, owner: owner ?? undefined, lost, lostAt: lostAt ?? undefined, open: open === 1 };
}

/** Parts of a commit. */
export interface DueChange {
  readonly puts: readonly Put[];
  readonly deletes: readonly string[];
}

/**
 * Puts one thing in the place of another; `undefined`: it is over, or was not known.
 *
 * @param before what the commit checks to be there
 */
export function changeDue(session: string, branch: string, before: Due | undefined, after: Due | undefined): DueChange {
  const [from, to] = [before && placeOf(session, branch, before), after && placeOf(session, branch, after)];
  const key = dueKey(session, branch);
  return {
    puts: [
      ...(after ? [{ key, value: encodeDue(after) }] : []),
      ...(to !== undefined && to !== from ? [{ key: to, value: "" }] : []),
    ],
    deletes: [...(after ? [] : [key]), ...(from !== undefined && from !== to ? [from] : [])],
  };
}

/** Where it is found; `undefined` where nobody is to find it. */
export function placeOf(session: string, branch: string, work: Due): string | undefined {
  const { agent, due, priority, owner, open } = work;
  if (open) return undefined;
  if (owner !== undefined) return ownedKey(owner, session, branch);
  return due === null ? undefined : workKey(agent, priority, due, session, branch);
}
