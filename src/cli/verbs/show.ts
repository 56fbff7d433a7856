import {
  type AgentCheckpoint,
  type AnyCheckpointInfo,
  type Checkpoint,
  type Json,
  type RunError,
  type Savepoint,
  toJson,
} from "../../index.js";
import { checkpointName, findCheckpointPart } from "../checkpoint-lookup.js";
import type { Cli } from "../cli.js";
import { notFoundError } from "../errors.js";
import { formatBytes, formatTime } from "../format.js";
import { resolvePointer } from "../json-pointer.js";
import { toPrintableJson } from "../json.js";
import { formatValue } from "../outline.js";
import { formatStack } from "../run-output.js";
import { type Colors, colored, type Styled } from "../text.js";
import { defineVerb } from "../verb.js";

interface Options {
  readonly partial?: boolean;
  readonly info?: boolean;
  readonly full?: boolean;
}

export const show = defineVerb<Options>({
  name: "show",
  group: "Inspect",
  summary: "print a checkpoint with its state",
  examples: [
    ["savepoint show order-88", "the newest checkpoint of a session"],
    ["savepoint show order-88#14:/messages/3", "a part of a state"],
    ["savepoint show order-88~1", "its parent"],
    ["savepoint show 5e6f7a8b --json", "for programs"],
    ["savepoint show order-88 --partial", "the intact parts of a damaged state"],
  ],
  declare(command) {
    command
      .argument("<checkpoint>", "a checkpoint; savepoint --help lists the forms of names")
      .option("--partial", "print the intact parts of a damaged state, and list the lost ones")
      .option("--full", "print a large state completely, also on a terminal")
      .option("--info", "omit the state");
  },
  async run(cli, [name = ""], { partial = false, info: infoOnly, full = false }) {
    const sp = await cli.read();
    const { info, pointer, headOfBranch } = await findCheckpointPart(sp, name);
    const { output } = cli;
    const { status, error } = await currentStatus(sp, info);
    const withError = error && { error };
    if (infoOnly) {
      return output.result({ ...info, ...withError }, () => formatHeader(info, status, error, output.colors));
    }
    const checkpoint = await load(sp, info, partial, headOfBranch);
    if (pointer !== "") {
      const value = toJson(resolvePointer(checkpoint.state, pointer));
      return printValue(cli, value, full, name);
    }
    for (const hole of "holes" in checkpoint ? checkpoint.holes : []) {
      output.warn(`lost: ${hole.path}: ${hole.reason}`);
    }
    for (const skipped of "skipped" in checkpoint ? checkpoint.skipped : []) {
      output.warn(`skipped the newer checkpoint #${skipped.seq}, which is damaged: ${skipped.reason}`);
    }
    const calls = "pendingToolCalls" in checkpoint && isIdle(status) ? checkpoint.pendingToolCalls : [];
    if (calls.length > 0) {
      const names = calls.map(({ id, name: tool }) => `${tool} (${id})`).join(", ");
      output.warn(
        `tool calls without a result: ${names}. Models reject such a history: answer or drop them with "savepoint answer" or session.resolveToolCalls()`,
      );
    }
    const state = toJson(checkpoint.state);
    const isSame = checkpoint.id === info.id;
    if (output.format !== "text") {
      return output.result({ ...checkpoint, ...(isSame && withError), state }, () => []);
    }
    const current = isSame ? { status, error } : { status: undefined, error: undefined };
    const header = formatHeader(checkpoint, current.status, current.error, output.colors);
    for (const line of [...header, ""]) await output.line(line);
    await printValue(cli, state, full, name);
  },
});

/** Prints a state or a part of it. On a terminal, a large one is printed as an outline. */
async function printValue({ output }: Cli, value: Json, isFull: boolean, name: string): Promise<void> {
  if (output.format !== "text") return output.result(value, () => []);
  const { lines, omitted } = formatValue(value, isFull || output.columns === Number.POSITIVE_INFINITY);
  for (const line of lines) await output.line(line);
  if (omitted === 0) return;
  const part = name.includes(":/") ? `${name}/…` : `${name}:/…`;
  output.note(
    `This is an outline of ${formatBytes(omitted)}. To print everything, add --full. To print a part: savepoint show ${part}`,
  );
}

/** Loads a checkpoint. For the head of a branch, falls back to the newest intact one. */
async function load(
  sp: Savepoint,
  info: AnyCheckpointInfo,
  partial: boolean,
  headOfBranch: string | undefined,
): Promise<Checkpoint | AgentCheckpoint> {
  const { sessionId, branch } = info;
  const session = sessionId === undefined ? undefined : sp.session(sessionId, { branch: headOfBranch ?? branch });
  const checkpoint =
    session && partial
      ? await session.load(info.id, { partial })
      : session && headOfBranch !== undefined
        ? await session.latest()
        : await sp.checkpoints.load(info.id);
  if (!checkpoint) throw notFoundError(`Checkpoint ${checkpointName(info)} has just been removed.`);
  return checkpoint;
}

/** Whether this is the status of a newest checkpoint that no run continues. */
function isIdle(status: string | undefined): boolean {
  return status !== undefined && /^(open|completed|failed)\b/.test(status);
}

/** The current status of a session, and the error that ended it, if this is its newest checkpoint; nothing for an older one. */
async function currentStatus(
  sp: Savepoint,
  info: AnyCheckpointInfo,
): Promise<{ readonly status: string | undefined; readonly error: RunError | undefined }> {
  const session = info.sessionId === undefined ? undefined : await sp.sessions.load(info.sessionId);
  if (session?.head?.id !== info.id) return { status: undefined, error: undefined };
  const { status, reason, error } = session;
  return { status: reason === undefined || reason === info.reason ? status : `${status}: ${reason}`, error };
}

function formatHeader(
  info: AnyCheckpointInfo,
  status: string | undefined,
  error: RunError | undefined,
  colors: Colors,
): Styled[] {
  const { usage, metadata } = info;
  const fields: readonly (readonly [string, string | undefined])[] = [
    ["checkpoint", info.id],
    ["session", info.sessionId === undefined ? undefined : `${info.sessionId} #${info.seq}`],
    ["agent", info.agent],
    ["branch", info.sessionId === undefined ? undefined : info.branch],
    ["parent", info.parentId],
    ["step", String(info.step)],
    ["saved", formatTime(info.createdAt)],
    ["kind", info.kind],
    ["status", info.status],
    ["reason", info.reason],
    // A checkpoint keeps the status that it was saved with; that of the session may have changed since then.
    ["now", status === info.status ? undefined : status],
    ["label", info.label],
    ["description", info.description],
    ["trigger", info.trigger],
    ["resume", info.resumeHint],
    ["tasks", info.tasksCompleted > 0 ? `${info.tasksCompleted} completed` : undefined],
    ["used", usage?.tokens || usage?.cost ? `${usage.tokens ?? 0} tokens, cost ${usage.cost ?? 0}` : undefined],
    ["pinned", info.pinned ? "yes" : undefined],
    ["expires", info.expiresAt === undefined ? undefined : formatTime(info.expiresAt)],
    ["metadata", Object.keys(metadata).length > 0 ? JSON.stringify(toPrintableJson(metadata)) : undefined],
    ["size", `${formatBytes(info.stateBytes)}, ${formatBytes(info.storedBytes)} written`],
  ];
  const lines = fields.flatMap(([title, value]) => {
    const shown = title === "checkpoint" ? colors.yellow(info.id) : value;
    return shown === undefined ? [] : [colored`${colors.dim(title.padEnd(11))} ${shown}`];
  });
  // The stack follows in the lines below, indented like the values.
  return [
    ...lines,
    ...formatStack(error, colors).map(
      (line, index) => colored`${colors.dim((index === 0 ? "error" : "").padEnd(11))} ${line}`,
    ),
  ];
}
