/** The largest sessions. */
import type { Savepoint } from "../../index.js";
import type { SessionRow } from "../api.js";
import type { SessionIndex } from "./session-index.js";

/** The number of sessions of each kind whose stored size is measured. */
const MEASURED = 50;

/** The sessions with the largest values, the largest first. */
export function largestBy(
  rows: Iterable<SessionRow>,
  valueOf: (row: SessionRow) => number,
  count: number,
): SessionRow[] {
  return [...rows].sort((a, b) => valueOf(b) - valueOf(a)).slice(0, count);
}

export const byState = ({ stateBytes }: SessionRow): number => stateBytes;
export const byCheckpoints = ({ checkpoints }: SessionRow): number => checkpoints;

/** Measures the sessions that are likely to be the largest. */
export async function measureSessions(sp: Savepoint, index: SessionIndex): Promise<Map<string, number>> {
  const candidates = [byState, byCheckpoints].flatMap((by) => largestBy(index.rows(), by, MEASURED));
  const sizes = new Map<string, number>();
  for (const { id } of candidates) {
    const size = sizes.has(id) ? undefined : await sp.sessions.bytes(id);
    if (size !== undefined) sizes.set(id, size);
  }
  return sizes;
}
