/** Listing checkpoints across sessions and agents, newest first. Reads rows, never states. */
import { scan } from "../store/scan.js";
import { toAgentCheckpointInfo } from "./agent-checkpoints.js";
import type { AgentCheckpointInfo, CheckpointInfo } from "./checkpoint.js";
import type { Context } from "./context.js";
import { type HistoryOptions, walkHistory } from "./history.js";
import { checkId } from "./ids.js";
import { agentLine, agentOfLine, ALL_NUMBERS, sessionsOfAgent } from "./keys.js";
import { MAIN } from "./records.js";
import { SessionReader } from "./session-reader.js";

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
  const lines: Line[] = [];
  for await (const sessionId of sessionIds(context, filter)) {
    const line = await Line.begin(new SessionReader(context, sessionId));
    if (line) lines.push(line);
  }
  lines.sort(byTime);
  for (let newest = lines.pop(); newest; newest = lines.pop()) {
    yield newest.next;
    if (!(await newest.advance())) continue;
    // Back into its place: most often near the end, where the newest are.
    let at = lines.length;
    while (at > 0 && byTime(lines[at - 1] as Line, newest) > 0) at--;
    lines.splice(at, 0, newest);
  }
}

/** The checkpoints of one session or agent, and which comes next. */
class Line {
  private constructor(
    readonly rest: AsyncIterator<AnyInfo>,
    public next: AnyInfo,
  ) {}

  static async begin(reader: SessionReader): Promise<Line | undefined> {
    const rest = infosOf(reader)[Symbol.asyncIterator]();
    const first = await rest.next();
    return first.done ? undefined : new Line(rest, first.value);
  }

  async advance(): Promise<boolean> {
    const next = await this.rest.next();
    if (!next.done) this.next = next.value;
    return !next.done;
  }
}

function byTime(a: Line, b: Line): number {
  return a.next.createdAt - b.next.createdAt;
}

async function* infosOf(reader: SessionReader): AsyncGenerator<AnyInfo> {
  const agent = agentOfLine(reader.sessionId);
  for await (const info of walkHistory(reader, NEWEST_FIRST, () => reader.heads(MAIN))) {
    if (agent === undefined) yield info;
    else yield toAgentCheckpointInfo(agent, info, (info.metadata as { own?: Record<string, unknown> }).own ?? {});
  }
}

async function* sessionIds(context: Context, { agent, session, of }: CheckpointFilter): AsyncGenerator<string> {
  const wanted = (id: string): boolean => of === undefined || (of === "agent") === (agentOfLine(id) !== undefined);
  if (session !== undefined) {
    if (wanted(checkId(session, "session id"))) yield session;
    return;
  }
  const range = agent === undefined ? ALL_NUMBERS : sessionsOfAgent(checkId(agent, "agent id"));
  if (agent !== undefined && wanted(agentLine(agent))) yield agentLine(agent);
  for await (const record of scan(context.store, range, true)) {
    if ("value" in record && wanted(record.value)) yield record.value;
  }
}
