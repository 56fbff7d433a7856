/** The tool that gives an agent everything it needs to go on. */
import { z } from "zod";
import { type Checkpoint, type CheckpointRef, SavepointError, type Session } from "../../index.js";
import { checkpointNotFound, sessionNotFound } from "../not-found.js";
import { abbreviate, OMITTED, outline } from "../outline.js";
import type { AgentScope } from "../scope.js";
import { CHECKPOINT_INFO, SKIPPED, toCheckpointInfo, toSkipped, toTime } from "../result-schemas.js";
import { AGENT, CHECKPOINT_REF, defineTool, FROM, POINTER } from "../tool.js";

const MAX_BRANCHES = 50;

export const sessionResume = defineTool({
  name: "session_resume",
  title: "Resume a session",
  description:
    "Loads the newest whole state of a session, with all that is needed to go on: what the next step is (`resumeHint`), tool calls that were never answered, questions that wait for a person, damaged checkpoints that had to be skipped. Call it first, before you continue work that was begun earlier. With `checkpoint` it shows an earlier moment instead; nothing is changed. A state that is too large comes in parts: `omitted` says what is missing; ask for it with `pointer` and `from`.",
  input: z.strictObject({
    session: z.string().min(1).optional().describe("Default: the one in which something was saved last."),
    agent: AGENT.describe("Without `session`: only sessions of this agent."),
    checkpoint: CHECKPOINT_REF.optional().describe(
      'An earlier checkpoint: id, "session#seq", { seq }, { step } or { label }.',
    ),
    branch: z.string().optional().describe("Default: main."),
    pointer: POINTER.describe('JSON pointer into the state, such as "/messages". Default: the whole state.'),
    from: FROM,
    partial: z.boolean().default(false).describe("With `checkpoint`: show what is left of a damaged state."),
  }),
  output: z.object({
    session: z.string(),
    agent: z.string().optional(),
    status: z.string().describe("How the work on main stands; `interrupted`: its process is gone."),
    reason: z.string().optional(),
    wakeAt: z.string().optional(),
    checkpoint: CHECKPOINT_INFO.describe(
      "The checkpoint that the state is of: pass its id as `after` to session_save.",
    ),
    step: z.number(),
    label: z.string().optional(),
    resumeHint: z.string().optional(),
    state: z.unknown(),
    omitted: OMITTED,
    pendingToolCalls: z.array(z.unknown()).describe("Tool calls in the state that nothing answers yet."),
    questions: z.array(z.unknown()).describe("What the work on main waits to be told."),
    skipped: SKIPPED,
    lost: z.unknown().optional().describe("With `partial`: the parts of the state that are damaged."),
    branches: z.array(z.string()),
  }),
  writes: false,
  async run(input, scope) {
    const id = input.session ?? (await newestSession(scope, input.agent));
    const { branch, checkpoint, pointer, from, partial } = input;
    const session = await scope.openSession(id, branch === undefined ? {} : { branch });
    const info = await scope.loadSession(id);
    const branches = await branchesOf(session);
    const found = await load(session, checkpoint, partial);
    if (!found || !scope.owns(found.agent)) throw notThere(session, checkpoint, branches);
    const { value, omitted } = outline(found.state, { pointer, from });
    const { step, label, resumeHint, pendingToolCalls, skipped, holes } = found;
    return {
      session: id,
      ...(info.agent !== undefined && { agent: info.agent }),
      status: info.status,
      ...(info.reason !== undefined && { reason: info.reason }),
      ...(info.wakeAt !== undefined && { wakeAt: toTime(info.wakeAt) }),
      checkpoint: toCheckpointInfo(found),
      step,
      ...(label !== undefined && { label }),
      ...(resumeHint !== undefined && { resumeHint }),
      state: value,
      omitted,
      pendingToolCalls: pendingToolCalls.map((call) => abbreviate(call)),
      questions: info.questions.map((question) => abbreviate(question)),
      skipped: toSkipped(skipped),
      ...(holes.length > 0 && { lost: abbreviate(holes) }),
      branches,
    };
  },
});

function load(session: Session, ref: CheckpointRef | undefined, partial: boolean): Promise<Checkpoint | undefined> {
  return ref === undefined ? session.latest() : session.load(ref, { partial });
}

async function newestSession(scope: AgentScope, agent: string | undefined): Promise<string> {
  for await (const { sessionId } of scope.sp.checkpoints.list({
    ...scope.agentFilter(agent),
    of: "session",
    limit: 1,
  })) {
    if (sessionId !== undefined) return sessionId;
  }
  throw new SavepointError("SESSION_NOT_FOUND", "Nothing is saved in any session yet. Begin one with session_save.");
}

async function branchesOf(session: Session): Promise<string[]> {
  const names: string[] = [];
  for await (const { name } of session.branches()) if (names.push(name) === MAX_BRANCHES) break;
  return names;
}

function notThere(session: Session, ref: CheckpointRef | undefined, branches: readonly string[]): SavepointError {
  if (ref !== undefined) return checkpointNotFound(ref);
  if (branches.length === 0) return sessionNotFound(session.id);
  return new SavepointError(
    "BRANCH_NOT_FOUND",
    `Nothing is saved on branch ${JSON.stringify(session.branch)} of session ${JSON.stringify(session.id)}. There is ${branches.map((name) => JSON.stringify(name)).join(", ")}.`,
  );
}
