/** The tool that returns everything an agent needs to continue a session. */
import { z } from "zod";
import { type CheckpointRef, SavepointError, type Session } from "../../index.js";
import { checkpointNotFound, sessionNotFound } from "../errors.js";
import { omitUndefined } from "../omit-undefined.js";
import { abbreviate, OMITTED, outline } from "../outline.js";
import { CHECKPOINT_INFO, SKIPPED, toCheckpointInfo, toSkipped, toTime } from "../result-schemas.js";
import type { AgentScope } from "../scope.js";
import { AGENT, CHECKPOINT_REF, FROM, POINTER } from "./arguments.js";
import { defineTool } from "./tool.js";

const MAX_BRANCHES = 50;

export const sessionResume = defineTool({
  name: "session_resume",
  title: "Resume a session",
  description:
    "Loads the newest intact state of a session with everything that is needed to continue: the next step (`resumeHint`), tool calls without an answer, open questions to a person, and damaged checkpoints that were skipped. Call it before you continue earlier work. With `checkpoint` it returns an earlier state. It changes nothing. A large state is returned in parts: `omitted` lists the missing ones; load them with `pointer` and `from`.",
  input: z.strictObject({
    session: z.string().min(1).optional().describe("Default: the session that was saved last."),
    agent: AGENT.describe("Without `session`: only sessions of this agent."),
    checkpoint: CHECKPOINT_REF.optional().describe(
      'An earlier checkpoint: id, "session#seq", { seq }, { step } or { label }.',
    ),
    branch: z.string().optional().describe("Default: main."),
    pointer: POINTER.describe('JSON pointer into the state, such as "/messages". Default: the complete state.'),
    from: FROM,
    partial: z.boolean().default(false).describe("With `checkpoint`: return the intact parts of a damaged state."),
  }),
  output: z.object({
    session: z.string(),
    agent: z.string().optional(),
    status: z.string().describe("Status of the run on main. `interrupted`: its process has crashed."),
    reason: z.string().optional(),
    wakeAt: z.string().optional(),
    checkpoint: CHECKPOINT_INFO.describe("The checkpoint of the state: pass its id as `after` to session_save."),
    step: z.number(),
    label: z.string().optional(),
    resumeHint: z.string().optional(),
    state: z.unknown(),
    omitted: OMITTED,
    pendingToolCalls: z.array(z.unknown()).describe("Tool calls in the state that have no answer yet."),
    questions: z.array(z.unknown()).describe("Questions that the run on main waits for."),
    skipped: SKIPPED,
    lost: z.unknown().optional().describe("With `partial`: the damaged parts of the state."),
    branches: z.array(z.string()),
  }),
  writes: false,
  async run(input, scope) {
    const id = input.session ?? (await newestSession(scope, input.agent));
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
      questions: info.questions.map((question) => abbreviate(question)),
      skipped: toSkipped(skipped),
      lost: holes.length > 0 ? abbreviate(holes) : undefined,
      branches,
    };
  },
});

async function newestSession(scope: AgentScope, agent: string | undefined): Promise<string> {
  const newest = scope.sp.checkpoints.list({ ...scope.agentFilter(agent), of: "session", limit: 1 });
  for await (const { sessionId } of newest) if (sessionId !== undefined) return sessionId;
  throw new SavepointError("SESSION_NOT_FOUND", "No session is saved yet. Call session_save to start one.");
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
