/** The tool that saves work as a session's next checkpoint. */
import { z } from "zod";
import { type CheckpointInfo, isSavepointError, type SaveOptions, SavepointError, type Session } from "../../index.js";
import { applyPatch } from "../json-patch.js";
import { sessionNotFound } from "../not-found.js";
import type { AgentScope } from "../scope.js";
import { CHECKPOINT_INFO, toCheckpointInfo } from "../result-schemas.js";
import { AGENT, CHANGES, defineTool, JSON_OBJECT, JSON_VALUE } from "../tool.js";

/** What can be said about a checkpoint; also where a branch is made with a state of its own. */
export const CHECKPOINT_FIELDS = {
  label: z.string().optional().describe("A name to find it by later."),
  description: z.string().optional(),
  resumeHint: z.string().optional().describe("What whoever resumes should do next, in a sentence."),
  status: z
    .enum(["queued", "running", "waiting", "completed", "failed", "halted"])
    .optional()
    .describe("How the work stands. Default: running."),
  reason: z.string().optional().describe("Why it failed, halted or waits."),
  tasksCompleted: z.int().min(0).optional(),
  metadata: JSON_OBJECT.optional().describe("Listed with it, so keep it small."),
  pinned: z.boolean().optional().describe("Pinned ones are never pruned."),
};

const INPUT = z.strictObject({
  session: z.string().min(1).describe("The session: any id, such as that of the task. A new one begins one."),
  state: JSON_VALUE.optional().describe("The whole state: any JSON. Only what changed in it is written."),
  changes: CHANGES.optional().describe(
    'Instead of `state`: changes to the newest state, in order, by JSON pointers: { op: "add" | "replace" | "remove", path, value }. "/list/-" adds to the end of a list.',
  ),
  after: z
    .string()
    .optional()
    .describe("Id of the checkpoint that you resumed from: fail with CONFLICT if there is a newer one."),
  branch: z.string().optional().describe("Default: main. checkpoint_fork makes branches."),
  agent: AGENT.describe("The agent whose work it is. Said once, when the session begins."),
  ...CHECKPOINT_FIELDS,
});

type Input = z.output<typeof INPUT>;

/** Others may save at the same time; more often than that, they always will. */
const MAX_TRIES = 50;

export const sessionSave = defineTool({
  name: "session_save",
  title: "Save a session",
  description:
    "Saves the state of your work as the session's next checkpoint, so that you, or another agent, can go on from it after a crash. Call it after every step that should not be lost. Give the whole `state`, or `changes` to the newest one, which takes fewer words. Earlier checkpoints stay. It is on disk when this returns. Returns the new checkpoint; session_resume loads it.",
  input: INPUT,
  output: z.object({ checkpoint: CHECKPOINT_INFO }),
  writes: true,
  async run(input, scope) {
    if ((input.state === undefined) === (input.changes === undefined)) throw stateOrChanges();
    for (let tries = 1; ; tries++) {
      try {
        return { checkpoint: toCheckpointInfo(await save(scope, input)) };
      } catch (error) {
        // Who has not said what it builds on builds on what is there, also when that has just come.
        const moved = isSavepointError(error, "CONFLICT") || isSavepointError(error, "SESSION_DELETED");
        if (!moved || input.after !== undefined || tries === MAX_TRIES) throw error;
      }
    }
  },
});

async function save(scope: AgentScope, input: Input): Promise<CheckpointInfo> {
  const { session: id, state, changes, after, branch, agent } = input;
  const options = { ...(branch !== undefined && { branch }), ...(agent !== undefined && { agent }) };
  const session = await scope.openSession(id, { ...options, begin: true });
  if (after !== undefined) await requireHead(scope, session, after);
  if (changes === undefined) return session.save(state, toSaveOptions(input));
  return session.save(await applyTo(scope, session, changes), toSaveOptions(input));
}

/** What the tool was told about the checkpoint, as Savepoint wants it. */
export function toSaveOptions(input: { readonly [Key in keyof typeof CHECKPOINT_FIELDS]?: unknown }): SaveOptions {
  const keys = Object.keys(CHECKPOINT_FIELDS) as (keyof typeof CHECKPOINT_FIELDS)[];
  return Object.fromEntries(keys.flatMap((key) => (input[key] === undefined ? [] : [[key, input[key]]])));
}

/** The handle has seen that head from now on: should another come, saving is refused by the store. */
async function requireHead(scope: AgentScope, session: Session, after: string): Promise<void> {
  const head = await session.head();
  if (head && !scope.owns(head.agent)) throw sessionNotFound(session.id);
  if (head?.id === after) return;
  const found = head ? `checkpoint ${JSON.stringify(head.id)}` : "nothing saved";
  throw new SavepointError(
    "CONFLICT",
    `Session ${JSON.stringify(session.id)} was expected to be at ${JSON.stringify(after)}, and there is ${found}. Call session_resume to see it.`,
  );
}

async function applyTo(scope: AgentScope, session: Session, changes: z.output<typeof CHANGES>): Promise<unknown> {
  const latest = await session.latest();
  if (latest && !scope.owns(latest.agent)) throw sessionNotFound(session.id);
  if (latest) return applyPatch(latest.state, changes);
  throw new SavepointError(
    "INVALID_ARGUMENT",
    `\`changes\`: nothing is saved yet in session ${JSON.stringify(session.id)}. Give the whole \`state\` first.`,
  );
}

function stateOrChanges(): SavepointError {
  return new SavepointError("INVALID_ARGUMENT", "Give either `state` or `changes`, and not both.");
}
