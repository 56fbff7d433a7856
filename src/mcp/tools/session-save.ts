/** The tool that saves a state as the next checkpoint of a session. */
import { z } from "zod";
import { type CheckpointInfo, isSavepointError, type SaveOptions, SavepointError, type Session } from "../../index.js";
import { invalidArgument, sessionNotFound } from "../errors.js";
import { applyPatch, PATCH } from "../json-patch.js";
import { omitUndefined } from "../omit-undefined.js";
import { CHECKPOINT_INFO, toCheckpointInfo } from "../result-schemas.js";
import type { AgentScope } from "../scope.js";
import { AGENT, JSON_OBJECT, JSON_VALUE } from "./arguments.js";
import { defineTool } from "./tool.js";

/** Fields of a new checkpoint: arguments of `session_save`, and of `checkpoint_fork` for the first one of a branch. */
export const CHECKPOINT_FIELDS = {
  label: z.string().optional().describe("A name to find it by later."),
  description: z.string().optional(),
  resumeHint: z.string().optional().describe("What to do next after a resume, in one sentence."),
  status: z
    .enum(["open", "queued", "running", "waiting", "completed", "failed", "halted"])
    .optional()
    .describe("Status of the work. Default: open."),
  reason: z.string().optional().describe("Why it failed, was halted or waits."),
  tasksCompleted: z.int().min(0).optional(),
  metadata: JSON_OBJECT.optional().describe("Included in lists, so keep it small."),
  pinned: z.boolean().optional().describe("A pinned checkpoint is never pruned."),
};

const INPUT = z.strictObject({
  session: z.string().min(1).describe("Any id, such as the id of the task. A new id starts a session."),
  state: JSON_VALUE.optional().describe("The complete state: any JSON. Only changes are written to disk."),
  changes: PATCH.optional().describe(
    'Instead of `state`: changes to the newest state, applied in order: { op: "add" | "replace" | "remove", path, value }. `path` is a JSON pointer; "/list/-" appends to an array.',
  ),
  after: z
    .string()
    .optional()
    .describe("Id of the checkpoint that you resumed from: fail with CONFLICT if there is a newer one."),
  branch: z.string().optional().describe("Default: main. checkpoint_fork starts branches."),
  agent: AGENT.describe("The agent that owns the session. Only needed when the session starts."),
  ...CHECKPOINT_FIELDS,
});

type Input = z.output<typeof INPUT>;

/** How often a save without `after` is retried if other processes save at the same time. */
const MAX_ATTEMPTS = 50;

export const sessionSave = defineTool({
  name: "session_save",
  title: "Save a session",
  description:
    "Saves the state of your work as the next checkpoint of a session, so that you or another agent can resume it after a crash. Call it after every step that must not be lost. Pass the complete `state`, or `changes` to the newest state, which is shorter. Earlier checkpoints are kept. The checkpoint is on disk when this returns. Returns the new checkpoint; session_resume loads it.",
  input: INPUT,
  output: z.object({ checkpoint: CHECKPOINT_INFO }),
  writes: true,
  async run(input, scope) {
    if ((input.state === undefined) === (input.changes === undefined)) {
      throw invalidArgument("Pass either `state` or `changes`, not both.");
    }
    for (let attempt = 1; ; attempt++) {
      try {
        return { checkpoint: toCheckpointInfo(await save(scope, input)) };
      } catch (error) {
        // Without `after`, the save is based on whatever is newest, also if that was saved a moment ago.
        const changed = isSavepointError(error, "CONFLICT") || isSavepointError(error, "SESSION_DELETED");
        if (!changed || input.after !== undefined || attempt === MAX_ATTEMPTS) throw error;
      }
    }
  },
});

async function save(scope: AgentScope, input: Input): Promise<CheckpointInfo> {
  const { session: id, changes, after, branch, agent } = input;
  const session = await scope.openSession(id, { ...omitUndefined({ branch, agent }), create: true });
  if (after !== undefined) await requireHead(scope, session, after);
  const state = changes === undefined ? input.state : await patchLatest(scope, session, changes);
  return session.save(state, toSaveOptions(input));
}

/** The options of a save that the input sets. */
export function toSaveOptions(input: { readonly [Key in keyof typeof CHECKPOINT_FIELDS]?: unknown }): SaveOptions {
  const keys = Object.keys(CHECKPOINT_FIELDS) as (keyof typeof CHECKPOINT_FIELDS)[];
  return Object.fromEntries(keys.flatMap((key) => (input[key] === undefined ? [] : [[key, input[key]]])));
}

/** Checks the head and binds the handle to it: if another checkpoint is saved afterwards, the store rejects the save. */
async function requireHead(scope: AgentScope, session: Session, after: string): Promise<void> {
  const head = await session.head();
  if (head && !scope.owns(head.agent)) throw sessionNotFound(session.id);
  if (head?.id === after) return;
  const found = head ? `is at checkpoint ${JSON.stringify(head.id)}` : "has no checkpoint";
  throw new SavepointError(
    "CONFLICT",
    `Session ${JSON.stringify(session.id)} ${found}, not at ${JSON.stringify(after)}. Call session_resume to load it.`,
  );
}

async function patchLatest(scope: AgentScope, session: Session, changes: z.output<typeof PATCH>): Promise<unknown> {
  const latest = await session.latest();
  if (latest && !scope.owns(latest.agent)) throw sessionNotFound(session.id);
  if (latest) return applyPatch(latest.state, changes);
  throw invalidArgument(
    `\`changes\`: session ${JSON.stringify(session.id)} has no state yet. Pass the complete \`state\` first.`,
  );
}
