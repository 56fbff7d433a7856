/**
 * Obeys the limits that are set for a session or an agent, after a save that may have made one checkpoint too many: how
 * many automatic ones there may be, the retention policy in force, and what single checkpoints have said of themselves.
 *
 * The save has succeeded. Whatever fails here is told by the event `backgroundFailure`, and done by the next save.
 */
import { isSavepointError } from "../errors.js";
import { type BranchCursor, describeSession, type SessionReader } from "../sessions/index.js";
import { type CheckpointKind, earliestExpiryOf, type CheckpointRow, type SessionRecord } from "../records/index.js";
import {
  type KeepReason,
  needsSweep,
  type RetentionRules,
  type StoredPolicy,
  parseRetentionOptions,
} from "../policies/index.js";
import { planNextSweep } from "./next-sweep.js";
import { isPinned, type CheckpointSet, removeCheckpoints } from "./removal.js";
import { needsOf, whyKeptByPolicy } from "./keep-reasons.js";

/** The checkpoint that was saved. */
export interface SavedCheckpoint {
  readonly branch: string;
  readonly kind: CheckpointKind;
  readonly expiresAt?: number | undefined;
}

/** Somebody saves at the same time, again and again: the next save does it. */
const MAX_TRIES = 50;

/** In force where there is no policy: checkpoints still go when they want to. */
const NO_POLICY: StoredPolicy = { value: "", rules: parseRetentionOptions({ expired: true }) };

/** Removes what is too many. Reads nothing where nothing can be. */
export async function enforceRetention(
  reader: SessionReader,
  cursor: BranchCursor,
  made: SavedCheckpoint,
): Promise<void> {
  try {
    const { policies } = reader.context;
    if (!policies.isFresh) await policies.refresh();
    const session = cursor.session ?? (await reader.session())?.record;
    if (!session) return;
    let removed = await obeyPolicy(reader, session, made);
    // Going back makes two: one of them is kept before it.
    if (made.kind !== "manual" && session.policy) removed = (await obeyMax(reader, session.policy.max)) || removed;
    if (removed) await cursor.exclusive(() => cursor.refresh());
  } catch (error) {
    // A store that is being closed is no failure.
    if (isSavepointError(error, "CLOSED")) return;
    const message = `checkpoints of ${describeSession(reader.sessionId)} that are too many could not be removed`;
    reader.context.events.emit("backgroundFailure", { message, error });
  }
}

/** @returns whether any was removed */
async function obeyPolicy(reader: SessionReader, session: SessionRecord, made: SavedCheckpoint): Promise<boolean> {
  const { context, sessionId } = reader;
  const { policies } = context;
  const known = policies.policyFor(sessionId, session.agent);
  if (!known && session.earliestExpiry === undefined) return false;
  const { rules, value } = known ?? NO_POLICY;
  const now = context.now();
  policies.recordExpiry(sessionId, made.expiresAt);
  const look = policies.sweepSchedule(sessionId);
  if (!rules || !needsSweep(session, made.branch, rules, value, look, now)) return false;
  // Another process may have changed it since, or deleted the session that it was for.
  const policy = (known && (await policies.readPolicyFor(sessionId, session.agent))) ?? NO_POLICY;
  if (known && policy.value !== value) policies.invalidate();
  return policy.rules ? removeUnwanted(reader, policy, policy.rules, now) : false;
}

async function removeUnwanted(
  reader: SessionReader,
  { value }: StoredPolicy,
  retention: RetentionRules,
  now: number,
): Promise<boolean> {
  let last: { known: CheckpointSet; reasons: Map<number, KeepReason[]> } | undefined;
  const removed = await removeCheckpoints(
    reader,
    (known) => {
      const reasons = whyKeptByPolicy(known, retention, now);
      last = { known, reasons };
      return { rows: known.rows.filter(({ seq }) => !reasons.has(seq)) };
    },
    MAX_TRIES,
  );
  if (last) {
    const { known, reasons } = last;
    const left = known.rows.filter(({ seq }) => reasons.has(seq));
    const session = { ...known.session.record, ...(removed.length > 0 && { earliestExpiry: earliestExpiryOf(left) }) };
    reader.context.policies.recordSweep(
      reader.sessionId,
      planNextSweep(known, reasons, session, retention, value, now),
    );
  }
  return removed.length > 0;
}

/**
 * Removes the oldest of the checkpoints that were taken by themselves, if there are more than `max` of them.
 *
 * @returns whether any was removed
 */
async function obeyMax(reader: SessionReader, max: number): Promise<boolean> {
  // There cannot be too many of them.
  if (((await reader.session())?.record.checkpoints ?? 0) <= max) return false;
  const removed = await removeCheckpoints(reader, (all) => ({ rows: beyondMax(all, max) }), MAX_TRIES);
  return removed.length > 0;
}

function beyondMax(known: CheckpointSet, max: number): CheckpointRow[] {
  const { rows, notes, heads } = known;
  const automatic = rows.filter(
    (row) => (row.kind === "automatic" || row.kind === "preOperation") && !isPinned(row, notes.get(row.seq)),
  );
  // What was there before the last thing that was undone, or done, is the way back from it.
  const wayBack = automatic.filter(({ kind }) => kind === "preOperation").at(-1);
  const removable = automatic.filter(({ seq }) => !heads.has(seq) && seq !== wayBack?.seq);
  const stays = new Set(rows.map(({ seq }) => seq));
  const gone: CheckpointRow[] = [];
  // A checkpoint that later ones need can be removed after those: the next round finds it.
  for (let before = -1; before < gone.length;) {
    before = gone.length;
    for (const row of removable) {
      if (gone.length >= automatic.length - max) return gone;
      if (!stays.has(row.seq) || needsOf(known, row.seq, stays).length > 0) continue;
      stays.delete(row.seq);
      gone.push(row);
    }
  }
  return gone;
}
