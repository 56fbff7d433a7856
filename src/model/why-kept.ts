/** Why checkpoints of a session stay: because something needs them, or because they are wanted. */
import type { Row } from "./records.js";
import { isPinned, type KnownCheckpoints } from "./remove-checkpoints.js";
import { type KeepReason, keepReasons, type Retention } from "./retention.js";

/** The reasons by seq; those that go have none. */
export function whyKept(known: KnownCheckpoints, retention: Retention, now: number): Map<number, KeepReason[]> {
  const { rows, notes, needed, heads } = known;
  const wanted = keepReasons(rows, retention, now, (row) => isLabelled(known, row));
  const reasons = new Map<number, KeepReason[]>();
  for (const row of rows) {
    const why: KeepReason[] = [
      ...(heads.has(row.seq) ? (["head"] as const) : []),
      ...(isPinned(row, notes.get(row.seq)) ? (["pinned"] as const) : []),
      ...(needed.has(row.seq) ? (["needed"] as const) : []),
      ...(wanted.get(row.seq) ?? []),
    ];
    if (why.length > 0) reasons.set(row.seq, why);
  }
  return reasons;
}

/** The same where nobody is asked: then the way back from what was just undone is needed as well. */
export function whyKeptByPolicy(known: KnownCheckpoints, retention: Retention, now: number): Map<number, KeepReason[]> {
  const ways = waysBack(known);
  if (ways.length === 0) return whyKept(known, retention, now);
  const needed = new Map([...known.needed, ...ways.map(({ seq }) => [seq, "it is the way back"] as const)]);
  return whyKept({ ...known, needed }, retention, now);
}

/** What was kept right before the heads that something was gone back to. */
export function waysBack({ rows, heads }: KnownCheckpoints): Row[] {
  return rows.filter(({ kind, seq }) => {
    const [next] = heads.get(seq + 1) ?? [];
    return kind === "preOperation" && next?.head?.kind === "recovery";
  });
}

export function isLabelled({ notes }: KnownCheckpoints, row: Row): boolean {
  return Boolean(notes.get(row.seq)?.get("label") ?? row.label);
}
