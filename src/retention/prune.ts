/** Pruning: removes all checkpoints of sessions and agents that the given rules do not keep. Reads rows, never states. */
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
import type { NeededBy } from "./checkpoint-set.js";
import { removeCheckpoints } from "./removal.js";
import {
  type KeepReason,
  type RetentionRules,
  type RetentionOptions,
  parseRetentionOptions,
} from "../policies/index.js";
import { scan } from "../store/index.js";
import { SessionReader } from "../sessions/index.js";
import { needsOf, reasonsToKeep, withRewindNeeds } from "./keep-reasons.js";

/** What to keep, and how to prune. */
export interface PruneOptions extends RetentionOptions {
  /**
   * Only report what would be removed.
   * @default false
   */
  readonly dryRun?: boolean;
  /** Called after each session. An error that it throws stops the pruning there; earlier sessions stay pruned. */
  readonly onProgress?: (progress: PruneProgress) => void;
}

/** How far a prune has come. */
export interface PruneProgress {
  /** How many sessions are done. The checkpoints of one agent count as one session. */
  readonly sessions: number;
  readonly removed: number;
}

/** Which checkpoints are pruned: those of one session, or of one agent and its sessions. @default all of the store */
export interface PruneTarget {
  readonly session?: string;
  readonly agent?: string;
}

/** A checkpoint that was removed or kept. */
export interface PrunedCheckpoint {
  readonly id: string;
  readonly seq: number;
  /** `undefined` for a checkpoint of an agent. */
  readonly sessionId: string | undefined;
  readonly agent: string | undefined;
}

/** A checkpoint that was kept, and why. */
export interface KeptCheckpoint extends PrunedCheckpoint {
  readonly reasons: readonly KeepReason[];
  /** Set if one of the reasons is `needed`. */
  readonly neededBy?: readonly NeededBy[];
}

/** What a prune has removed and kept. */
export interface PruneResult {
  readonly dryRun: boolean;
  /** How many checkpoints were removed; with `dryRun`, how many would be. */
  readonly removed: number;
  /** The removed checkpoints. */
  readonly gone: readonly PrunedCheckpoint[];
  readonly kept: readonly KeptCheckpoint[];
  /** How many items were freed: those that only removed checkpoints needed. None if states only grow. */
  readonly items: number;
  /** Bytes of those items. `compact()` returns the space to the file system. */
  readonly bytes: number;
  /** Whether checkpoints were removed, but no items. This is normal if states only grow, because kept checkpoints need all items. */
  readonly rowsOnly: boolean;
}

/** Sessions that are pruned concurrently, so that the store is busy while another one is decided. */
const SESSIONS_AT_ONCE = 4;

/**
 * Prunes the checkpoints of a store, of an agent with its sessions, or of a session.
 *
 * @param reset called for each session that has changed, to drop its cursors
 */
export async function prune(
  context: Context,
  target: PruneTarget,
  options: PruneOptions,
  reset: (sessionId: string) => void,
): Promise<PruneResult> {
  const { dryRun = false, onProgress, ...retention } = options;
  const rules = parseRetentionOptions(retention);
  const results: PruneResult[] = [];
  let removed = 0;
  const pruned = readAhead(sessionIds(context, target), SESSIONS_AT_ONCE, async (sessionId) => {
    await nextTurn();
    const result = await pruneSession(new SessionReader(context, sessionId), rules, false, dryRun);
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
 * @param byPolicy whether an automatic policy prunes, not a call by the user; a policy also keeps the state before the last rewind
 */
export async function pruneSession(
  reader: SessionReader,
  rules: RetentionRules,
  byPolicy: boolean,
  dryRun: boolean,
): Promise<PruneResult> {
  const now = reader.context.now();
  const plan = { removed: [] as CheckpointRow[], kept: [] as KeptCheckpoint[] };
  const session = await reader.session();
  if (!session) return sumPruneResults([], dryRun);
  await removeCheckpoints(reader, (all) => {
    const checkpoints = byPolicy ? withRewindNeeds(all) : all;
    const reasons = reasonsToKeep(checkpoints, rules, now);
    plan.removed = checkpoints.rows.filter(({ seq }) => !reasons.has(seq));
    plan.kept = checkpoints.rows.flatMap((row) => {
      const ofRow = reasons.get(row.seq);
      if (!ofRow) return [];
      const neededBy = needsOf(checkpoints, row.seq, reasons);
      return [{ ...describe(reader, row), reasons: ofRow, ...(neededBy.length > 0 && { neededBy }) }];
    });
    return { rows: dryRun ? [] : plan.removed };
  });
  const gone = plan.removed.map((row) => describe(reader, row));
  const removed = gone.length;
  const isChanged = !dryRun && removed > 0;
  const freed = isChanged ? await collectSession(reader, session.record.number, new Set(), false) : undefined;
  const { items = 0, bytes = 0 } = freed ?? {};
  return { dryRun, removed, gone, kept: plan.kept, items, bytes, rowsOnly: isChanged && items === 0 };
}

/** The results of several sessions as one. */
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
