import { type AgentCheckpoint, type AnyCheckpointInfo, type Checkpoint, type Savepoint, toJson } from "../../index.js";
import { resolvePointer, findCheckpointPart, checkpointName } from "../checkpoint-lookup.js";
import { notFoundError } from "../errors.js";
import type { Colors } from "../output.js";
import { toPrintableJson } from "../json.js";
import { formatBytes, sanitize, sanitizeLines, formatTime } from "../terminal-text.js";
import { defineVerb } from "../verb.js";

interface Options {
  readonly partial?: boolean;
  readonly info?: boolean;
}

export const show = defineVerb<Options>({
  name: "show",
  group: "Look",
  summary: "print a checkpoint: what is known about it, and its state",
  examples: [
    ["savepoint show order-88", "the newest of a session"],
    ["savepoint show order-88#14:/messages/3", "a part of the state, there"],
    ["savepoint show 5e6f7a8b --json", "all of it, for programs"],
    ["savepoint show order-88 --partial", "what is left of a damaged one"],
  ],
  declare(command) {
    command
      .argument("<checkpoint>", "see savepoint --help for how checkpoints are named")
      .option("--partial", "print what is left of a damaged state, and name its holes")
      .option("--info", "leave the state out");
  },
  async run(cli, [name = ""], { partial, info: only }) {
    const sp = await cli.open();
    const { info, pointer, headOfBranch } = await findCheckpointPart(sp, name);
    const { output } = cli;
    const work = await describeWork(sp, info);
    if (only) return output.result(info, () => header(info, work, output.colors));
    const found = await load(sp, info, partial ?? false, headOfBranch);
    if (pointer !== "") {
      const value = toJson(resolvePointer(found.state, pointer));
      return output.result(value, () => sanitizeLines(JSON.stringify(value, undefined, 2)));
    }
    for (const hole of "holes" in found ? found.holes : [])
      output.warn(`lost: ${sanitize(hole.path)}: ${sanitize(hole.reason)}`);
    for (const skipped of "skipped" in found ? found.skipped : []) {
      output.warn(`#${skipped.seq} is newer, and damaged: ${sanitize(skipped.reason)}`);
    }
    const state = toJson(found.state);
    await output.result({ ...found, state }, () => {
      const shown = sanitizeLines(JSON.stringify(state, undefined, 2));
      return `${header(found, found.id === info.id ? work : undefined, output.colors)}\n\n${shown}`;
    });
  },
});

/** @param newestOf the branch whose newest whole one is wanted, where the newest is damaged */
async function load(
  sp: Savepoint,
  info: AnyCheckpointInfo,
  partial: boolean,
  newestOf: string | undefined,
): Promise<Checkpoint | AgentCheckpoint> {
  const { sessionId, branch } = info;
  const session = sessionId === undefined ? undefined : sp.session(sessionId, { branch: newestOf ?? branch });
  const found =
    session && partial
      ? await session.load(info.id, { partial })
      : session && newestOf !== undefined
        ? await session.latest()
        : await sp.checkpoints.load(info.id);
  if (!found) throw notFoundError(`Checkpoint ${sanitize(checkpointName(info))} was removed just now.`);
  return found;
}

/** The status of a session's work, if this is its newest checkpoint; `undefined` for an older one. */
async function describeWork(sp: Savepoint, info: AnyCheckpointInfo): Promise<string | undefined> {
  const session = info.sessionId === undefined ? undefined : await sp.sessions.load(info.sessionId);
  if (session?.head?.id !== info.id) return undefined;
  return session.reason === undefined ? session.status : `${session.status}: ${session.reason}`;
}

function header(info: AnyCheckpointInfo, work: string | undefined, colors: Colors): string {
  const { usage, metadata } = info;
  const known: readonly (readonly [string, string | undefined])[] = [
    ["checkpoint", colors.yellow(sanitize(info.id))],
    ["session", info.sessionId === undefined ? undefined : `${sanitize(info.sessionId)} #${info.seq}`],
    ["agent", info.agent],
    ["branch", info.sessionId === undefined ? undefined : info.branch],
    ["parent", info.parentId],
    ["step", String(info.step)],
    ["saved", formatTime(info.createdAt)],
    ["kind", info.kind],
    ["status", info.status],
    ["reason", info.reason],
    // A checkpoint keeps the status that it was saved with.
    ["now", work === info.status ? undefined : work],
    ["label", info.label],
    ["description", info.description],
    ["trigger", info.trigger],
    ["resume", info.resumeHint],
    ["tasks", info.tasksCompleted > 0 ? `${info.tasksCompleted} completed` : undefined],
    ["used", usage?.tokens || usage?.cost ? `${usage.tokens ?? 0} tokens, cost ${usage.cost ?? 0}` : undefined],
    ["pinned", info.pinned ? "yes" : undefined],
    ["expires", info.expiresAt === undefined ? undefined : formatTime(info.expiresAt)],
    ["metadata", Object.keys(metadata).length > 0 ? JSON.stringify(toPrintableJson(metadata)) : undefined],
    ["size", `${formatBytes(info.stateBytes)}; saving it took ${formatBytes(info.storedBytes)}`],
  ];
  return known
    .flatMap(([title, value]) =>
      value === undefined
        ? []
        : [`${colors.dim(title.padEnd(11))} ${title === "checkpoint" ? value : sanitize(value)}`],
    )
    .join("\n");
}
