/** Listing checkpoints across sessions and agents, newest first. Reads rows, never states. */
import { type AgentCheckpointInfo, toAgentCheckpointInfo } from "../../agents/index.js";
import { isSavepointError } from "../../errors.js";
import {
  agentHistoryId,
  agentOfHistoryId,
  ALL_SESSIONS,
  branchesOf,
  checkId,
  type CheckpointInfo,
  decodeBranch,
  MAIN,
  sessionsOfAgent,
} from "../../records/index.js";
import type { Context } from "../../context.js";
import { SessionReader, walkHistory } from "../../sessions/index.js";
import { type KeyRange, scan } from "../../store/index.js";

/** A checkpoint of a session or of an agent, without its state. Checkpoints of agents have no `sessionId`. */
export type AnyCheckpointInfo = CheckpointInfo | AgentCheckpointInfo;

/** The public form of a stored checkpoint. In the history of an agent, its own metadata is nested in the stored one. */
export function toAnyInfo(historyId: string, info: CheckpointInfo): AnyCheckpointInfo {
  const agent = agentOfHistoryId(historyId);
  if (agent === undefined) return info;
  return toAgentCheckpointInfo(agent, info, (info.metadata as { own?: Record<string, unknown> }).own ?? {});
}

/** Selects checkpoints. */
export interface CheckpointFilter {
  /** Only checkpoints of this agent and of its sessions. */
  readonly agent?: string;
  /** Only checkpoints of this session. */
  readonly session?: string;
  /**
   * Only checkpoints of whole agents, or only those of sessions.
   * @default both
   */
  readonly of?: "agent" | "session";
}

/**
 * Merges the histories of sessions and agents. Within one history checkpoints are ordered by seq; across histories by time, the
 * only order that they share. A history is opened only when it may contain the next checkpoint.
 */
export async function* walkCheckpoints(context: Context, filter: CheckpointFilter): AsyncGenerator<AnyCheckpointInfo> {
  const unopened: Candidate[] = [];
  for await (const candidate of listCandidates(context, filter)) unopened.push(candidate);
  unopened.sort((a, b) => a.newest - b.newest);
  // Ordered by the time of the next checkpoint, the newest last.
  const open: HistoryCursor[] = [];
  for (;;) {
    const nextTime = (): number => open.at(-1)?.next.createdAt ?? 0;
    for (let last = unopened.at(-1); last && last.newest >= nextTime(); last = unopened.at(-1)) {
      unopened.pop();
      const history = await HistoryCursor.open(new SessionReader(context, last.historyId));
      if (history) insert(open, history);
    }
    const newest = open.pop();
    if (!newest) return;
    yield newest.next;
    if (await newest.advance()) insert(open, newest);
  }
}

/** Keeps the order; searches from the end, where the newest are. */
function insert(open: HistoryCursor[], history: HistoryCursor): void {
  let at = open.length;
  while (at > 0 && (open[at - 1] as HistoryCursor).next.createdAt > history.next.createdAt) at--;
  open.splice(at, 0, history);
}

/** A position in the history of one session or agent. */
class HistoryCursor {
  private constructor(
    readonly rest: AsyncIterator<AnyCheckpointInfo>,
    public next: AnyCheckpointInfo,
  ) {}

  /** `undefined` if the history is empty, or damaged, which is reported by its event. */
  static async open(reader: SessionReader): Promise<HistoryCursor | undefined> {
    const rest = walkInfos(reader)[Symbol.asyncIterator]();
    try {
      const first = await rest.next();
      return first.done ? undefined : new HistoryCursor(rest, first.value);
    } catch (error) {
      if (isSavepointError(error, "DAMAGED")) return undefined;
      throw error;
    }
  }

  /** Moves to the next older checkpoint; `false` at the end. */
  async advance(): Promise<boolean> {
    const next = await this.rest.next();
    if (!next.done) this.next = next.value;
    return !next.done;
  }
}

async function* walkInfos(reader: SessionReader): AsyncGenerator<AnyCheckpointInfo> {
  for await (const info of walkHistory(reader, { allBranches: true }, () => reader.heads(MAIN))) {
    yield toAnyInfo(reader.sessionId, info);
  }
}

/** A session, or the history of an agent, and the time of its newest checkpoint. */
interface Candidate {
  readonly historyId: string;
  readonly newest: number;
}

async function* listCandidates(context: Context, { agent, session, of }: CheckpointFilter): AsyncGenerator<Candidate> {
  const matches = (id: string): boolean =>
    of === undefined || (of === "agent") === (agentOfHistoryId(id) !== undefined);
  if (session === undefined && agent === undefined) {
    yield* candidatesIn(context, ALL_SESSIONS, matches);
    return;
  }
  if (session !== undefined) {
    const owner = (await new SessionReader(context, checkId(session, "session id")).session())?.record.agent;
    if (agent === undefined || owner === agent) yield* candidatesIn(context, branchesOf(session), matches);
    return;
  }
  const ids = [agentHistoryId(checkId(agent as string, "agent id"))];
  for await (const record of scan(context.store, sessionsOfAgent(agent as string))) {
    if ("value" in record) ids.push(record.value);
  }
  for (const id of ids) if (matches(id)) yield* candidatesIn(context, branchesOf(id), matches);
}

/** The candidates whose branch records are in a range. The branches of one candidate are next to each other. */
async function* candidatesIn(
  { store }: Context,
  range: KeyRange,
  matches: (id: string) => boolean,
): AsyncGenerator<Candidate> {
  let last: Candidate | undefined;
  for await (const record of scan(store, range)) {
    const [, historyId = "", branch] = record.key.split("\t");
    if (branch === undefined || !matches(historyId)) continue;
    // A damaged branch may have the newest checkpoint: its history is opened first.
    const time = "value" in record ? decodeBranch(record.value).head?.createdAt : Number.POSITIVE_INFINITY;
    if (last && last.historyId !== historyId) yield last;
    const newest = Math.max(time ?? 0, last?.historyId === historyId ? last.newest : 0);
    last = { historyId, newest };
  }
  if (last) yield last;
}
