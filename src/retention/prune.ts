/** Removing the checkpoints of sessions and agents that nobody wants to keep. Reads rows, never states. */
import { setImmediate as nextTurn } from "node:timers/promises";
import { collectSession } from "../gc/index.js";
import type { Context } from "../context.js";
import {
  agentHistoryId,
  agentOfHistoryId,
  ALL_SESSION_NUMBERS,
  checkId,
  type CheckpointRow,
  sessionsOfAgent,
} from "../records/index.js";
import { readAhead } from "../util/index.js";
import { type NeededBy, removeCheckpoints } from "./removal.js";
import {
  type KeepReason,
  type RetentionRules,
  type RetentionOptions,
  parseRetentionOptions,
} from "../policies/index.js";
import { scan } from "../store/index.js";
import { SessionReader } from "../sessions/index.js";
import { needsOf, reasonsToKeep, withRewindNeeds } from "./keep-reasons.js";

export interface PruneOptions extends RetentionOptions {
  /**
   * Only say what would go.
   * @default false
   */
  readonly dryRun?: boolean;
  /** Told as it goes on. What it throws ends it, between two sessions. */
  readonly onProgress?: (progress: PruneProgress) => void;
}

export interface PruneProgress {
  /** How many sessions are done; checkpoints of whole agents count as one each. */
  readonly sessions: number;
  readonly removed: number;
}

/** Whose checkpoints are pruned: those of one session; of one agent and its sessions; all of the store, if nothing is said. */
export interface PruneTarget {
  readonly session?: string;
  readonly agent?: string;
}

/** A checkpoint that was pruned, or stays. */
export interface PrunedCheckpoint {
  readonly id: string;
  readonly seq: number;
  /** `undefined` for a checkpoint of a whole agent. */
  readonly sessionId: string | undefined;
  readonly agent: string | undefined;
}

export interface KeptCheckpoint extends PrunedCheckpoint {
  readonly reasons: readonly KeepReason[];
  /** What needs it, if one of the reasons is `needed`. */
  readonly neededBy?: readonly NeededBy[];
}

export interface PruneResult {
  readonly dryRun: boolean;
  /** How many checkpoints went, or would go. */
  readonly removed: number;
  /** Which ones. */
  readonly gone: readonly PrunedCheckpoint[];
  readonly kept: readonly KeptCheckpoint[];
  /** Items that only removed checkpoints needed. Where states only grow there are none: then rows alone are freed. */
  readonly items: number;
  /** Bytes of those items. `compact()` gives the space back. */
  readonly bytes: number;
  /** Were checkpoints removed and no items freed? So it is where states only grow: those that stay need all of them. */
  readonly rowsOnly: boolean;
}

/** Sessions that are pruned concurrently: while the store answers for one, another is decided. */
const SESSIONS_AT_ONCE = 4;

/** Prunes the checkpoints of a store, of an agent with its sessions, or of a session. */
export async function prune(
  context: Context,
  target: PruneTarget,
  options: PruneOptions,
  reset: (sessionId: string) => void,
): Promise<PruneResult> {
  const { dryRun = false, onProgress, ...kept } = options;
  const retention = parseRetentionOptions(kept);
  const results: PruneResult[] = [];
  let removed = 0;
  const pruned = readAhead(sessionIds(context, target), SESSIONS_AT_ONCE, async (sessionId) => {
    await nextTurn();
    const result = await pruneSession(new SessionReader(context, sessionId), retention, false, dryRun);
    if (result.removed > 0 && !dryRun) reset(sessionId);
    return result;
  });
  for await (const result of pruned) {
    results.push(result);
    removed += result.removed;
    onProgress?.({ sessions: results.length, removed });
  }
  return sumPruneResults(results, dryRun);
}

/**
 * Prunes the checkpoints of one session.
 *
 * @param byPolicy is this an automatic policy, not a call? Then the state before the last rewind is kept as well
 */
export async function pruneSession(
  reader: SessionReader,
  retention: RetentionRules,
  byPolicy: boolean,
  dryRun: boolean,
): Promise<PruneResult> {
  const now = reader.context.now();
  const plan = { removed: [] as CheckpointRow[], kept: [] as KeptCheckpoint[] };
  const session = await reader.session();
  if (!session) return sumPruneResults([], dryRun);
  await removeCheckpoints(reader, (found) => {
    const known = byPolicy ? withRewindNeeds(found) : found;
    const reasons = reasonsToKeep(known, retention, now);
    plan.removed = known.rows.filter(({ seq }) => !reasons.has(seq));
    plan.kept = known.rows.flatMap((row) => {
      const ofRow = reasons.get(row.seq);
      if (!ofRow) return [];
      const neededBy = needsOf(known, row.seq, reasons);
      return [{ ...describe(reader, row), reasons: ofRow, ...(neededBy.length > 0 && { neededBy }) }];
    });
    return { rows: dryRun ? [] : plan.removed };
  });
  const gone = plan.removed.map((row) => describe(reader, row));
  const removed = gone.length;
  const some = !dryRun && removed > 0;
  const freed = some ? await collectSession(reader, session.record.number, new Set(), false) : undefined;
  const { items = 0, bytes = 0 } = freed ?? {};
  return { dryRun, removed, gone, kept: plan.kept, items, bytes, rowsOnly: some && items === 0 };
}

/** What was pruned of several sessions, as one. */
export function sumPruneResults(results: readonly PruneResult[], dryRun: boolean): PruneResult {
  const gone = results.flatMap((result) => result.gone);
  const removed = gone.length;
  const items = results.reduce((sum, result) => sum + result.items, 0);
  return {
    dryRun,
    removed,
    gone,
    kept: results.flatMap((result) => result.kept),
    items,
    bytes: results.reduce((sum, result) => sum + result.bytes, 0),
    rowsOnly: !dryRun && removed > 0 && items === 0,
  };
}

function describe({ sessionId }: SessionReader, { id, seq }: CheckpointRow): PrunedCheckpoint {
  const agent = agentOfHistoryId(sessionId);
  return { id, seq, sessionId: agent === undefined ? sessionId : undefined, agent };
}

async function* sessionIds({ store }: Context, { session, agent }: PruneTarget): AsyncGenerator<string> {
  if (session !== undefined) {
    yield checkId(session, "session id");
    return;
  }
  if (agent !== undefined) yield agentHistoryId(checkId(agent, "agent id"));
  const range = agent === undefined ? ALL_SESSION_NUMBERS : sessionsOfAgent(agent);
  for await (const record of scan(store, range)) if ("value" in record) yield record.value;
}
