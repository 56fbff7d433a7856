import { isDeepStrictEqual } from "node:util";
import { type Change, type CheckpointInfo, type Savepoint, toJson } from "../../index.js";
import { EXIT } from "../exit-codes.js";
import { CliError, usageError } from "../errors.js";
import { findCheckpointPart, findSessionCheckpoint, resolvePointer, quote } from "../checkpoint-lookup.js";
import type { Colors } from "../output.js";
import { sanitize, formatCount, truncate } from "../terminal-text.js";
import { defineVerb } from "../verb.js";

interface Options {
  readonly stat?: boolean;
  readonly exitCode?: boolean;
}

export const diff = defineVerb<Options>({
  name: "diff",
  group: "Look",
  summary: "print what changed from one checkpoint to another",
  examples: [
    ["savepoint diff order-88#3 order-88#9", "from step 3 to step 9"],
    ["savepoint diff order-88", "what the newest changed"],
    ["savepoint diff order-88 order-88@what-if --stat", "how much two branches differ"],
    ["savepoint diff a1b2c3d4 order-88 --exit-code -q", "exit code 1 if anything differs"],
  ],
  declare(command) {
    command
      .argument("<from>", "a checkpoint; its parent is compared with it, if there is no other")
      .argument("[to]", "another checkpoint of the same session")
      .option("--stat", "only say how much changed, and where")
      .option("--exit-code", "end with 1 if anything differs, 0 if not");
  },
  async run(cli, [from = "", to], { stat, exitCode }) {
    const sp = await cli.open();
    const { output } = cli;
    const first = await findSessionCheckpoint(sp, from, findCheckpointPart);
    const second = to === undefined ? undefined : await findSessionCheckpoint(sp, to, findCheckpointPart);
    const pointers = [...new Set([first.pointer, second?.pointer ?? ""])].filter((pointer) => pointer !== "");
    if (pointers.length > 1)
      throw usageError("Two parts of states cannot be compared: give one pointer, or the same twice.");
    if (second && second.info.sessionId !== first.info.sessionId) {
      throw usageError(
        `${quote(from)} and ${quote(to ?? "")} are of two sessions. Checkpoints of one session can be compared.`,
      );
    }
    const [a, b] = second ? [first.info.id, second.info] : [first.info.parentId, first.info];
    const all = await changesOf(sp, a, b);
    const changes = all.flatMap((change) => within(change, pointers[0] ?? ""));
    if (output.format === "text") {
      if (changes.length === 0) output.note("Nothing differs.");
      const lines = stat
        ? summary(changes)
        : changes.flatMap((change) => toLines(change, output.colors, output.columns));
      for (const line of lines) await output.line(line);
    } else await output.stream(stat ? statOf(changes) : changes.map(toRecord));
    return exitCode && changes.length > 0 ? EXIT.failed : EXIT.ok;
  },
});

/** Before the first one of a session there is nothing: then all of it is new. */
async function changesOf(sp: Savepoint, from: string | undefined, to: CheckpointInfo): Promise<Change[]> {
  const session = sp.session(to.sessionId);
  if (from !== undefined) return session.diff(from, to.id);
  return [{ op: "add", path: "", value: (await session.load(to.id))?.state }];
}

/** What a change means for the part of a state that a pointer leads to. */
function within(change: Change, pointer: string): Change[] {
  const { path } = change;
  if (pointer === "" || path === pointer || path.startsWith(`${pointer}/`)) return [change];
  if (!pointer.startsWith(path === "" ? "/" : `${path}/`)) return [];
  // Something that it is in was replaced as a whole.
  const rest = pointer.slice(path.length);
  const before = "before" in change ? partOf(change.before, rest) : undefined;
  const after = "value" in change ? partOf(change.value, rest) : undefined;
  if (before && after && isDeepStrictEqual(before.value, after.value)) return [];
  if (before && after) return [{ op: "replace", path: pointer, before: before.value, value: after.value }];
  if (after) return [{ op: "add", path: pointer, value: after.value }];
  return before ? [{ op: "remove", path: pointer, before: before.value }] : [];
}

function partOf(value: unknown, pointer: string): { readonly value: unknown } | undefined {
  try {
    return { value: resolvePointer(value, pointer) };
  } catch (error) {
    if (error instanceof CliError) return undefined;
    throw error;
  }
}

/** A value that is `undefined` is one as well. */
function toRecord(change: Change): object {
  return {
    op: change.op,
    path: change.path,
    ...("before" in change && { before: toJson(change.before) }),
    ...("value" in change && { value: toJson(change.value) }),
  };
}

function toLines(change: Change, colors: Colors, columns: number): string[] {
  const show = (value: unknown): string => truncate(sanitize(JSON.stringify(toJson(value))), columns - 4);
  const path = colors.bold(sanitize(change.path || WHOLE));
  switch (change.op) {
    case "add":
      return [path, `  ${colors.green(`+ ${show(change.value)}`)}`];
    case "remove":
      return [path, `  ${colors.red(`- ${show(change.before)}`)}`];
    case "replace":
      return [path, `  ${colors.red(`- ${show(change.before)}`)}`, `  ${colors.green(`+ ${show(change.value)}`)}`];
  }
}

const WHOLE = "(the whole state)";

interface Stat {
  readonly path: string;
  added: number;
  removed: number;
  replaced: number;
}

/** How often something changed under each key of the state. */
function statOf(changes: readonly Change[]): Stat[] {
  const stats = new Map<string, Stat>();
  for (const { path, op } of changes) {
    const top = path.split("/").slice(0, 2).join("/");
    const stat = stats.get(top) ?? { path: top, added: 0, removed: 0, replaced: 0 };
    stats.set(top, stat);
    stat[op === "add" ? "added" : op === "remove" ? "removed" : "replaced"]++;
  }
  return [...stats.values()];
}

function summary(changes: readonly Change[]): string[] {
  const stats = statOf(changes);
  const width = Math.max(...stats.map(({ path }) => (path || WHOLE).length));
  const lines = stats.map(
    ({ path, added, removed, replaced }) =>
      `${sanitize(path || WHOLE).padEnd(width)}  +${added} -${removed} ~${replaced}`,
  );
  return changes.length === 0 ? [] : [...lines, formatCount(changes.length, "change")];
}
