import { type AgentCheckpoint, type AnyCheckpointInfo, type Checkpoint, type Savepoint, toJson } from "../../index.js";
import { checkpointName, findCheckpointPart } from "../checkpoint-lookup.js";
import { notFoundError } from "../errors.js";
import { formatBytes, formatTime } from "../format.js";
import { resolvePointer } from "../json-pointer.js";
import { formatJson, toPrintableJson } from "../json.js";
import { type Colors, colored, type Styled } from "../text.js";
import { defineVerb } from "../verb.js";

interface Options {
  readonly partial?: boolean;
  readonly info?: boolean;
}

export const show = defineVerb<Options>({
  name: "show",
  group: "Inspect",
  summary: "print a checkpoint with its state",
  examples: [
    ["savepoint show order-88", "the newest checkpoint of a session"],
    ["savepoint show order-88#14:/messages/3", "a part of a state"],
    ["savepoint show 5e6f7a8b --json", "for programs"],
    ["savepoint show order-88 --partial", "the intact parts of a damaged state"],
  ],
  declare(command) {
    command
      .argument("<checkpoint>", "a checkpoint; savepoint --help lists the forms of names")
      .option("--partial", "print the intact parts of a damaged state, and list the lost ones")
      .option("--info", "omit the state");
  },
  async run(cli, [name = ""], { partial = false, info: infoOnly }) {
    const sp = await cli.read();
    const { info, pointer, headOfBranch } = await findCheckpointPart(sp, name);
    const { output } = cli;
    const status = await currentStatus(sp, info);
    if (infoOnly) return output.result(info, () => formatHeader(info, status, output.colors));
    const checkpoint = await load(sp, info, partial, headOfBranch);
    if (pointer !== "") {
      const value = toJson(resolvePointer(checkpoint.state, pointer));
      return output.result(value, () => formatJson(value));
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
        `tool calls without a result: ${names}. Models reject such a history: answer or drop them with session.resolveToolCalls()`,
      );
    }
    const state = toJson(checkpoint.state);
    await output.result({ ...checkpoint, state }, () => {
      const header = formatHeader(checkpoint, checkpoint.id === info.id ? status : undefined, output.colors);
      return [...header, "", ...formatJson(state)];
    });
  },
});

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

/** The current status of a session, if this is its newest checkpoint; `undefined` for an older one. */
async function currentStatus(sp: Savepoint, info: AnyCheckpointInfo): Promise<string | undefined> {
  const session = info.sessionId === undefined ? undefined : await sp.sessions.load(info.sessionId);
  if (session?.head?.id !== info.id) return undefined;
  return session.reason === undefined ? session.status : `${session.status}: ${session.reason}`;
}

function formatHeader(info: AnyCheckpointInfo, status: string | undefined, colors: Colors): Styled[] {
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
  return fields.flatMap(([title, value]) => {
    const shown = title === "checkpoint" ? colors.yellow(info.id) : value;
    return shown === undefined ? [] : [colored`${colors.dim(title.padEnd(11))} ${shown}`];
  });
}
