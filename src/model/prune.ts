/** Removing the checkpoints of sessions and agents that nobody wants to keep. Reads rows, never states. */
import { collectSession } from "./collect.js";
import type { Context } from "./context.js";
import { checkId } from "./ids.js";
import { agentLine, agentOfLine, ALL_NUMBERS, sessionsOfAgent } from "./keys.js";
import type { Row } from "./records.js";
import { isPinned, type KnownCheckpoints, removeCheckpoints } from "./remove-checkpoints.js";
import { type KeepReason, keepReasons, type Retention, type RetentionOptions, takeRetention } from "./retention.js";
import { scan } from "../store/scan.js";
import { SessionReader } from "./session-reader.js";

export interface PruneOptions extends RetentionOptions {
  /**
   * Only say what would go.
   * @default false
   */
  readonly dryRun?: boolean;
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
}

/** Prunes the checkpoints of a store, of an agent with its sessions, or of a session. */
export async function prune(
  context: Context,
  target: PruneTarget,
  options: PruneOptions,
  reset: (sessionId: string) => void,
): Promise<PruneResult> {
  const { dryRun = false, ...kept } = options;
  const retention = takeRetention(kept);
  const total = { dryRun, gone: [] as PrunedCheckpoint[], kept: [] as KeptCheckpoint[], items: 0, bytes: 0 };
  for await (const sessionId of sessionIds(context, target)) {
    const result = await pruneSession(new SessionReader(context, sessionId), retention, dryRun);
    total.gone.push(...result.gone);
    total.kept.push(...result.kept);
    total.items += result.items;
    total.bytes += result.bytes;
    if (result.removed > 0 && !dryRun) reset(sessionId);
  }
  return { ...total, removed: total.gone.length };
}

async function pruneSession(reader: SessionReader, retention: Retention, dryRun: boolean): Promise<PruneResult> {
  const now = reader.context.now();
  const plan = { removed: [] as Row[], kept: [] as KeptCheckpoint[] };
  const session = await reader.session();
  if (!session) return { dryRun, removed: 0, gone: [], kept: [], items: 0, bytes: 0 };
  await removeCheckpoints(reader, (known) => {
    const reasons = reasonsOf(known, retention, now);
    plan.removed = known.rows.filter(({ seq }) => !reasons.has(seq));
    plan.kept = known.rows.flatMap((row) => {
      const why = reasons.get(row.seq);
      return why ? [{ ...describe(reader, row), reasons: why }] : [];
    });
    return { rows: dryRun ? [] : plan.removed };
  });
  const gone = plan.removed.map((row) => describe(reader, row));
  const removed = gone.length;
  const some = !dryRun && removed > 0;
  const freed = some ? await collectSession(reader, session.record.number, new Set(), false) : undefined;
  return { dryRun, removed, gone, kept: plan.kept, items: freed?.items ?? 0, bytes: freed?.bytes ?? 0 };
}

/** Why checkpoints stay: because something needs them, or because they are wanted. */
function reasonsOf(known: KnownCheckpoints, retention: Retention, now: number): Map<number, KeepReason[]> {
  const { rows, notes, needed, heads } = known;
  const isLabelled = (row: Row): boolean => Boolean(notes.get(row.seq)?.get("label") ?? row.label);
  const wanted = keepReasons(rows, retention, now, isLabelled);
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
