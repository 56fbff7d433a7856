/** The growth of a store over time, estimated from the index of sessions. Pure. */
import type { Growth, SessionRow } from "../api.js";

/** Divides the time since the first session into buckets. */
export function measureGrowth(
  rows: Iterable<SessionRow>,
  storeBytes: number,
  buckets: number,
  now: number,
): Omit<Growth, "isIndexing"> {
  const all = [...rows];
  const from = all.reduce((least, { createdAt }) => Math.min(least, createdAt), now);
  const width = Math.max(1, Math.ceil((now - from + 1) / buckets));
  const bucketOf = (time: number): number => Math.min(buckets - 1, Math.max(0, Math.floor((time - from) / width)));
  const [sessions, checkpoints, added] = [0, 0, 0].map(() => Array.from({ length: buckets }, () => 0)) as [
    number[],
    number[],
    number[],
  ];
  for (const row of all) {
    const [first, last] = [bucketOf(row.createdAt), bucketOf(Math.max(row.createdAt, row.updatedAt))];
    sessions[first] = (sessions[first] ?? 0) + 1;
    const share = 1 / (last - first + 1);
    for (let bucket = first; bucket <= last; bucket++) {
      checkpoints[bucket] = (checkpoints[bucket] ?? 0) + row.checkpoints * share;
      // A checkpoint stores only its changes, so the state is stored about once.
      added[bucket] = (added[bucket] ?? 0) + (row.stateBytes + 200 * row.checkpoints) * share;
    }
  }
  const total = added.reduce((sum, each) => sum + each, 0);
  let sum = 0;
  const bytes = added.map((each) => Math.round(total === 0 ? storeBytes : ((sum += each) / total) * storeBytes));
  return { from, width, sessions, checkpoints: checkpoints.map((each) => Math.round(each)), bytes };
}
