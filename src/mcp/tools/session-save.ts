/** The tool that saves a state as the next checkpoint of a session. */
import { z } from "zod";
import { type CheckpointInfo, isSavepointError, type SaveOptions, SavepointError, type Session } from "../../index.js";
import { invalidArgument, sessionNotFound } from "../errors.js";
import { applyPatch, PATCH } from "../json-patch.js";
import { omitUndefined } from "../omit-undefined.js";
import { withProject } from "../project.js";
import { SAVED_CHECKPOINT, toSavedCheckpoint } from "../result-schemas.js";
import type { AgentScope } from "../scope.js";
import { AGENT, JSON_OBJECT, JSON_VALUE, SESSION } from "./arguments.js";
import { defineTool } from "./tool.js";

/** Fields of a new checkpoint, also of the first one of a branch. */
export const CHECKPOINT_FIELDS = {
  label: z.string().optional(),
  description: z.string().optional(),
  resumeHint: z.string().optional().describe("The next step, in one sentence."),
  metadata: JSON_OBJECT.optional(),
  pinned: z.boolean().optional().describe("Never pruned."),
};

const STATUS_FIELDS = {
  status: z.enum(["open", "queued", "running", "waiting", "completed", "failed", "halted"]).optional(),
  reason: z.string().optional(),
  tasksCompleted: z.int().min(0).optional(),
};

const ALL_FIELDS = { ...CHECKPOINT_FIELDS, ...STATUS_FIELDS };

const INPUT = z.strictObject({
  session: SESSION.describe("Any id, such as the name of the task. A new id starts a session."),
  state: JSON_VALUE.optional().describe("The complete state: any JSON."),
  changes: PATCH.optional().describe(
    'Instead of `state`: JSON Patch of the newest state. "/list/-" appends to an array.',
  ),
  after: z.string().optional().describe("Id of the checkpoint that you resumed: CONFLICT if there is a newer one."),
  branch: z.string().optional().describe("Default: main."),
  agent: AGENT.describe("The owner of a new session."),
  ...ALL_FIELDS,
});

type Input = z.output<typeof INPUT>;

/** How often a save without `after` is retried if other processes save at the same time. */
const MAX_ATTEMPTS = 50;

export const sessionSave = defineTool({
  name: "session_save",
  title: "Save a session",
  description:
    "Saves your work as the next checkpoint of a session, so that you or another agent can resume it with session_resume, also after a crash. Call it after every step that must not be lost. Pass the complete `state`, or `changes` to it. Earlier checkpoints are kept. The checkpoint is on disk when this returns.",
  input: INPUT,
  output: z.object({ checkpoint: SAVED_CHECKPOINT }),
  writes: true,
  async run(input, scope) {
    if ((input.state === undefined) === (input.changes === undefined)) {
      throw invalidArgument("Pass either `state` or `changes`, not both.");
    }
    for (let attempt = 1; ; attempt++) {
      try {
        return { checkpoint: toSavedCheckpoint(await save(scope, input)) };
      } catch (error) {
        // Without `after`, the save is based on the newest checkpoint, even if that was saved a moment ago.
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
  return session.save(state, toSaveOptions(input, scope));
}

type CheckpointFields = { readonly [Key in keyof typeof ALL_FIELDS]?: unknown };

/** The options of a save: the fields that the input sets, and the project. */
export function toSaveOptions(input: CheckpointFields, { project }: AgentScope): SaveOptions {
  return { ...pickCheckpointFields(input), metadata: withProject(input.metadata, project) };
}

/** The fields of a new checkpoint that the input sets. */
export function pickCheckpointFields(input: CheckpointFields): SaveOptions {
  const keys = Object.keys(ALL_FIELDS) as (keyof typeof ALL_FIELDS)[];
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
