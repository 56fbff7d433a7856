/** The tool that returns everything an agent needs to continue a session. */
import { z } from "zod";
import {
  type AnyCheckpointInfo,
  type CheckpointRef,
  SavepointError,
  type Session,
  type SessionInfo,
} from "../../index.js";
import { checkpointNotFound, sessionNotFound } from "../errors.js";
import { omitUndefined } from "../omit-undefined.js";
import { abbreviate, OMITTED, outline } from "../outline.js";
import { projectOf } from "../project.js";
import {
  CHECKPOINT_INFO,
  QUESTION,
  SESSION_INFO,
  shorten,
  SKIPPED,
  toCheckpointInfo,
  toQuestion,
  toSkipped,
  toTime,
} from "../result-schemas.js";
import type { AgentScope } from "../scope.js";
import { AGENT, CHECKPOINT_REF, FROM, POINTER, SESSION } from "./arguments.js";
import { walkSessions } from "./session-list.js";
import { defineTool } from "./tool.js";

const MAX_BRANCHES = 50;

/** How many sessions are listed if none belongs to the project. */
const MAX_CANDIDATES = 10;
/** How many checkpoints are read to find the newest one of the project, before all sessions are. */
const MAX_WALKED = 200;

const CANDIDATE = SESSION_INFO.pick({ session: true, agent: true, project: true, updatedAt: true, label: true });

export const sessionResume = defineTool({
  name: "session_resume",
  title: "Resume a session",
  description:
    "Loads the newest intact state of a session with what is needed to continue: the next step (`resumeHint`), unanswered tool calls, open questions to a person. Call it before you continue earlier work. Without `session` it loads the session of the current project that was saved last; if there is none, it lists `candidates`. With `checkpoint` it returns an earlier state.",
  input: z.strictObject({
    session: SESSION.optional(),
    project: z.enum(["current", "any"]).default("current").describe("Without `session`: any includes other projects."),
    agent: AGENT.describe("Without `session`: only of this agent."),
    checkpoint: CHECKPOINT_REF.optional(),
    branch: z.string().optional().describe("Default: main."),
    pointer: POINTER,
    from: FROM,
    partial: z.boolean().default(false).describe("With `checkpoint`: the intact parts of a damaged state."),
  }),
  output: z.object({
    /** Missing if there is none to resume. Then there are only `candidates` and `message`. */
    session: z.string().optional(),
    candidates: z.array(CANDIDATE).optional(),
    message: z.string().optional(),
    agent: z.string().optional(),
    /** The status of the branch main. */
    status: z.string().optional(),
    reason: z.string().optional(),
    wakeAt: z.string().optional(),
    checkpoint: CHECKPOINT_INFO.optional().describe("Pass its id as `after` to session_save."),
    step: z.number().optional(),
    label: z.string().optional(),
    resumeHint: z.string().optional(),
    state: z.unknown().optional(),
    omitted: OMITTED,
    pendingToolCalls: z.array(z.unknown()).optional(),
    questions: z.array(QUESTION).optional(),
    skipped: SKIPPED.optional(),
    /** With `partial`: the damaged parts. */
    lost: z.unknown().optional(),
    branches: z.array(z.string()).optional(),
  }),
  writes: false,
  async run(input, scope) {
    const found = input.session ?? (await findNewest(scope, input));
    if (typeof found !== "string") return found;
    const id = found;
    const { branch, checkpoint: ref, pointer, from, partial } = input;
    const session = await scope.openSession(id, omitUndefined({ branch }));
    const info = await scope.loadSession(id);
    const branches = await listBranches(session);
    const checkpoint = ref === undefined ? await session.latest() : await session.load(ref, { partial });
    if (!checkpoint || !scope.owns(checkpoint.agent)) throw stateNotFound(session, ref, branches);
    const { value, omitted } = outline(checkpoint.state, { pointer, from });
    const { step, label, resumeHint, pendingToolCalls, skipped, holes } = checkpoint;
    return {
      session: id,
      agent: info.agent,
      status: info.status,
      reason: info.reason,
      wakeAt: info.wakeAt === undefined ? undefined : toTime(info.wakeAt),
      checkpoint: toCheckpointInfo(checkpoint),
      step,
      label,
      resumeHint,
      state: value,
      omitted,
      pendingToolCalls: pendingToolCalls.map((call) => abbreviate(call)),
      questions: info.questions.map(toQuestion),
      skipped: toSkipped(skipped),
      lost: holes.length > 0 ? abbreviate(holes) : undefined,
      branches,
    };
  },
});

type Candidate = z.output<typeof CANDIDATE>;

/** What the tool returns if there is no session to resume. */
interface NothingFound {
  readonly message: string;
  readonly candidates: Candidate[];
}

/** The session that was saved last, by default in the project of the server. */
async function findNewest(
  scope: AgentScope,
  { project, agent }: { readonly project: "current" | "any"; readonly agent?: string | undefined },
): Promise<string | NothingFound> {
  const filter = scope.agentFilter(agent);
  const candidates = new Map<string, Candidate>();
  let walked = 0;
  for await (const info of scope.sp.checkpoints.list({ ...filter, of: "session" })) {
    if (info.sessionId === undefined || !scope.owns(info.agent)) continue;
    if (project === "any" || projectOf(info) === scope.project) return info.sessionId;
    if (candidates.size < MAX_CANDIDATES && !candidates.has(info.sessionId)) {
      candidates.set(info.sessionId, toCandidate(info.sessionId, info));
    }
    // Other projects have saved much since then. There are fewer sessions than checkpoints.
    if (++walked === MAX_WALKED) {
      const newest = await findLastUpdated(scope, agent);
      if (newest !== undefined) return newest;
      break;
    }
  }
  return { message: describeNothing(scope.project, candidates.size), candidates: [...candidates.values()] };
}

async function findLastUpdated(scope: AgentScope, agent: string | undefined): Promise<string | undefined> {
  let newest: SessionInfo | undefined;
  for await (const info of walkSessions(scope, { project: "current", agent })) {
    if (!newest || info.updatedAt > newest.updatedAt) newest = info;
  }
  return newest?.id;
}

function toCandidate(session: string, info: AnyCheckpointInfo): Candidate {
  const { agent, createdAt, label } = info;
  return { session, agent, project: projectOf(info), updatedAt: toTime(createdAt), label: shorten(label) };
}

function describeNothing(project: string, others: number): string {
  const start = "Call session_save to start one.";
  if (others === 0) return `No session is saved yet. ${start}`;
  return `No session of the project ${JSON.stringify(project)} is saved yet. ${start} To resume one of the candidates, ask the user, and pass its id as \`session\`.`;
}

async function listBranches(session: Session): Promise<string[]> {
  const names: string[] = [];
  for await (const { name } of session.branches()) if (names.push(name) === MAX_BRANCHES) break;
  return names;
}

function stateNotFound(session: Session, ref: CheckpointRef | undefined, branches: readonly string[]): SavepointError {
  if (ref !== undefined) return checkpointNotFound(ref);
  if (branches.length === 0) return sessionNotFound(session.id);
  const names = branches.map((name) => JSON.stringify(name)).join(", ");
  return new SavepointError(
    "BRANCH_NOT_FOUND",
    `Session ${JSON.stringify(session.id)} has no branch ${JSON.stringify(session.branch)}. Its branches: ${names}.`,
  );
}
