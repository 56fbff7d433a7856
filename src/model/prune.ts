/** Removing the checkpoints of sessions and agents that nobody wants to keep. Reads rows, never states. */
import { collectSession } from "./collect.js";
import type { Context } from "./context.js";
import { checkId } from "./ids.js";
import { agentLine, agentOfLine, ALL_NUMBERS, sessionsOfAgent } from "./keys.js";
import type { Row } from "./records.js";
import { removeCheckpoints } from "./remove-checkpoints.js";
import { type KeepReason, type Retention, type RetentionOptions, takeRetention } from "./retention.js";
import { scan } from "../store/scan.js";
import { SessionReader } from "./session-reader.js";
import { whyKept } from "./why-kept.js";

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

/** Prunes the checkpoints of a store, of an agent with its sessions, or of a session. */
export async function prune(
  context: Context,
  target: PruneTarget,
  options: PruneOptions,
  reset: (sessionId: string) => void,
): Promise<PruneResult> {
  const { dryRun = false, onProgress, ...kept } = options;
  const retention = takeRetention(kept);
  const results: PruneResult[] = [];
  let removed = 0;
  for await (const sessionId of sessionIds(context, target)) {
    const result = await pruneSession(new SessionReader(context, sessionId), retention, whyKept, dryRun);
    if (result.removed > 0 && !dryRun) reset(sessionId);
    results.push(result);
    removed += result.removed;
    onProgress?.({ sessions: results.length, removed });
  }
  return addUp(results, dryRun);
}

/**
 * Prunes the checkpoints of one session.
 *
 * @param why says why checkpoints stay
 */
export async function pruneSession(
  reader: SessionReader,
  retention: Retention,
  why: typeof whyKept,
  dryRun: boolean,
): Promise<PruneResult> {
  const now = reader.context.now();
  const plan = { removed: [] as Row[], kept: [] as KeptCheckpoint[] };
  const session = await reader.session();
  if (!session) return addUp([], dryRun);
  await removeCheckpoints(reader, (known) => {
    const reasons = why(known, retention, now);
    plan.removed = known.rows.filter(({ seq }) => !reasons.has(seq));
    plan.kept = known.rows.flatMap((row) => {
      const ofRow = reasons.get(row.seq);
      return ofRow ? [{ ...describe(reader, row), reasons: ofRow }] : [];
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
export function addUp(results: readonly PruneResult[], dryRun: boolean): PruneResult {
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

function describe({ sessionId }: SessionReader, { id, seq }: Row): PrunedCheckpoint {
  const agent = agentOfLine(sessionId);
  return { id, seq, sessionId: agent === undefined ? sessionId : undefined, agent };
}

async function* sessionIds({ store }: Context, { session, agent }: PruneTarget): AsyncGenerator<string> {
  if (session !== undefined) {
    yield checkId(session, "session id");
    return;
  }
  if (agent !== undefined) yield agentLine(checkId(agent, "agent id"));
  const range = agent === undefined ? ALL_NUMBERS : sessionsOfAgent(agent);
  for await (const record of scan(store, range)) if ("value" in record) yield record.value;
}
