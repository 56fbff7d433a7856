/** The statuses of sessions, as several verbs count and describe them. */
import type { SessionInfo } from "../index.js";
import { formatAge } from "./format.js";

/** All statuses, in the order in which they are counted. */
export const STATUSES = [
  "queued",
  "running",
  "waiting",
  "interrupted",
  "open",
  "completed",
  "failed",
  "halted",
] as const;

/** The numbers of sessions by status. Statuses without a session are left out. */
export type StatusCounts = Readonly<Record<string, number>>;

/**
 * Counts sessions by their statuses.
 * @param onSession is called for each session
 */
export async function countStatuses(
  sessions: AsyncIterable<SessionInfo>,
  onSession: (info: SessionInfo) => void = () => {},
): Promise<{ readonly total: number; readonly byStatus: StatusCounts }> {
  const counts = new Map<string, number>(STATUSES.map((status) => [status, 0]));
  let total = 0;
  for await (const info of sessions) {
    total++;
    counts.set(info.status, (counts.get(info.status) ?? 0) + 1);
    onSession(info);
  }
  return { total, byStatus: Object.fromEntries([...counts].filter(([, count]) => count > 0)) };
}

/** The counts in a sentence: "3 completed, 1 waiting". */
export function formatStatusCounts(counts: StatusCounts): string {
  return Object.entries(counts)
    .map(([status, count]) => `${count.toLocaleString("en-US")} ${status}`)
    .join(", ");
}

/** What a session waits for, why it ended, or the label of its newest checkpoint. */
export function describeSession({ questions, wakeAt, reason, head }: SessionInfo, now: number): string {
  if (questions[0]) return `asks: ${questions[0].text}`;
  if (wakeAt !== undefined) return `wakes ${formatAge(wakeAt, now)}`;
  return reason ?? head?.label ?? "";
}
