/** Listing checkpoints across sessions and agents, newest first. Reads rows, never states. */
import { isSavepointError } from "../errors.js";
import { type KeyRange, scan } from "../store/index.js";
import { type AgentCheckpointInfo, toAgentCheckpointInfo } from "../agents/index.js";
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
} from "../records/index.js";
import type { Context } from "../context.js";
import { type HistoryOptions, SessionReader, walkHistory } from "../sessions/index.js";

/** Which checkpoints are wanted. */
export interface CheckpointFilter {
  /** Those of this agent, and of its sessions. */
  readonly agent?: string;
  /** Those of this session. */
  readonly session?: string;
  /**
   * Only those of whole agents, or only those of sessions.
   * @default both
   */
  readonly of?: "agent" | "session";
}

type AnyInfo = CheckpointInfo | AgentCheckpointInfo;

const NEWEST_FIRST: HistoryOptions = { allBranches: true };

/** Within a session or an agent by seq; among them by the clock, which is all that they have in common. */
export async function* walkCheckpoints(context: Context, filter: CheckpointFilter): AsyncGenerator<AnyInfo> {
  const waiting: Candidate[] = [];
  for await (const candidate of candidates(context, filter)) waiting.push(candidate);
  waiting.sort((a, b) => a.newest - b.newest);
  const lines: Line[] = [];
  for (;;) {
    // Whatever may have something newer than what would come next is looked at first; the rest is left alone.
    for (let next = waiting.at(-1); next && next.newest >= (lines.at(-1)?.next.createdAt ?? 0); next = waiting.at(-1)) {
      waiting.pop();
      const line = await Line.begin(new SessionReader(context, next.sessionId));
      if (line) insert(lines, line);
    }
    const newest = lines.pop();
    if (!newest) return;
    yield newest.next;
    if (await newest.advance()) insert(lines, newest);
  }
}

/** Puts a line in its place: most often near the end, where the newest are. */
function insert(lines: Line[], line: Line): void {
  let at = lines.length;
  while (at > 0 && (lines[at - 1] as Line).next.createdAt > line.next.createdAt) at--;
  lines.splice(at, 0, line);
}

/** The checkpoints of one session or agent, and which comes next. */
class Line {
  private constructor(
    readonly rest: AsyncIterator<AnyInfo>,
    public next: AnyInfo,
  ) {}

  static async begin(reader: SessionReader): Promise<Line | undefined> {
    const rest = infosOf(reader)[Symbol.asyncIterator]();
    try {
      const first = await rest.next();
      return first.done ? undefined : new Line(rest, first.value);
    } catch (error) {
      // That is told by its event, and the others are there.
      if (isSavepointError(error, "DAMAGED")) return undefined;
      throw error;
    }
  }

  async advance(): Promise<boolean> {
    const next = await this.rest.next();
    if (!next.done) this.next = next.value;
    return !next.done;
  }
}

async function* infosOf(reader: SessionReader): AsyncGenerator<AnyInfo> {
  const agent = agentOfHistoryId(reader.sessionId);
  for await (const info of walkHistory(reader, NEWEST_FIRST, () => reader.heads(MAIN))) {
    if (agent === undefined) yield info;
    else yield toAgentCheckpointInfo(agent, info, (info.metadata as { own?: Record<string, unknown> }).own ?? {});
  }
}

/** A session, or the line of an agent, and when its newest checkpoint was taken. */
interface Candidate {
  readonly sessionId: string;
  readonly newest: number;
}

async function* candidates(context: Context, { agent, session, of }: CheckpointFilter): AsyncGenerator<Candidate> {
  const wanted = (id: string): boolean => of === undefined || (of === "agent") === (agentOfHistoryId(id) !== undefined);
  if (session === undefined && agent === undefined) {
    yield* candidatesIn(context, ALL_SESSIONS, wanted);
    return;
  }
  if (session !== undefined) {
    const owner = (await new SessionReader(context, checkId(session, "session id")).session())?.record.agent;
    if (agent === undefined || owner === agent) yield* candidatesIn(context, branchesOf(session), wanted);
    return;
  }
  const ids = [agentHistoryId(checkId(agent as string, "agent id"))];
  for await (const record of scan(context.store, sessionsOfAgent(agent as string))) {
    if ("value" in record) ids.push(record.value);
  }
  for (const id of ids) if (wanted(id)) yield* candidatesIn(context, branchesOf(id), wanted);
}

/** Those whose branches are in a range, which has all branches of each. */
async function* candidatesIn(
  { store }: Context,
  range: KeyRange,
  wanted: (id: string) => boolean,
): AsyncGenerator<Candidate> {
  let last: Candidate | undefined;
  for await (const record of scan(store, range)) {
    const [, sessionId = "", branch] = record.key.split("\t");
    if (branch === undefined || !wanted(sessionId)) continue;
    // What a damaged one has is found when it is looked at.
    const time = "value" in record ? decodeBranch(record.value).head?.createdAt : Number.POSITIVE_INFINITY;
    if (last && last.sessionId !== sessionId) yield last;
    const newest = Math.max(time ?? 0, last?.sessionId === sessionId ? last.newest : 0);
    last = { sessionId, newest };
  }
  if (last) yield last;
}
