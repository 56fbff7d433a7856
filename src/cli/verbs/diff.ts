import { isDeepStrictEqual } from "node:util";
import { type Change, type CheckpointInfo, type Savepoint, toJson } from "../../index.js";
import { findCheckpointPart, findSessionCheckpoint } from "../checkpoint-lookup.js";
import { CliError, usageError } from "../errors.js";
import { EXIT } from "../exit-codes.js";
import { formatCount, quote } from "../format.js";
import { resolvePointer } from "../json-pointer.js";
import { type Colors, colored, type Text } from "../text.js";
import { sanitize, truncate } from "../terminal-text.js";
import { defineVerb } from "../verb.js";

/** How many changes are printed on a terminal. */
const MAX_CHANGES = 100;

interface Options {
  readonly stat?: boolean;
  readonly exitCode?: boolean;
  readonly full?: boolean;
}

export const diff = defineVerb<Options>({
  name: "diff",
  group: "Inspect",
  summary: "print the changes from one checkpoint to another",
  examples: [
    ["savepoint diff order-88#3 order-88#9", "the changes from checkpoint 3 to 9"],
    ["savepoint diff order-88", "the changes of the newest checkpoint"],
    ["savepoint diff order-88 order-88@what-if --stat", "how much two branches differ"],
    ["savepoint diff a1b2c3d4 order-88 --exit-code -q", "exit with 1 if anything differs"],
  ],
  declare(command) {
    command
      .argument("<from>", "a checkpoint; without [to], it is compared with its parent")
      .argument("[to]", "another checkpoint of the same session")
      .option("--stat", "print only how much changed, for each key of the state")
      .option("--full", "print all changes, also if there are very many and on a terminal")
      .option("--exit-code", "exit with 1 if anything differs, and with 0 if not");
  },
  async run(cli, [from = "", to], { stat, exitCode, full }) {
    const sp = await cli.read();
    const { output } = cli;
    const first = await findSessionCheckpoint(sp, from, findCheckpointPart);
    const second = to === undefined ? undefined : await findSessionCheckpoint(sp, to, findCheckpointPart);
    const pointers = [...new Set([first.pointer, second?.pointer ?? ""])].filter((pointer) => pointer !== "");
    if (pointers.length > 1) {
      throw usageError("Different parts of states cannot be compared. Pass one pointer, or the same pointer twice.");
    }
    if (second && second.info.sessionId !== first.info.sessionId) {
      throw usageError(
        `${quote(from)} and ${quote(to ?? "")} belong to different sessions. Only checkpoints of one session can be compared.`,
      );
    }
    const [fromId, toInfo] = second ? [first.info.id, second.info] : [first.info.parentId, first.info];
    const allChanges = await readChanges(sp, fromId, toInfo);
    const changes = allChanges.flatMap((change) => restrictChange(change, pointers[0] ?? ""));
    if (output.format === "text") {
      if (changes.length === 0) output.note("No differences.");
      const isComplete = full || output.columns === Number.POSITIVE_INFINITY;
      const printed = isComplete ? changes : changes.slice(0, MAX_CHANGES);
      const lines: readonly Text[] = stat
        ? formatStats(changes)
        : printed.flatMap((change) => formatChange(change, output.colors, output.columns));
      for (const line of lines) await output.line(line);
      if (!stat && printed.length < changes.length) {
        const left = formatCount(changes.length - printed.length, "more change");
        output.note(`And ${left}. To print all, add --full. To count them for each key, add --stat.`);
      }
    } else await output.stream(stat ? countChanges(changes) : changes.map(toRecord));
    return exitCode && changes.length > 0 ? EXIT.failed : EXIT.ok;
  },
});

/** The changes up to a checkpoint. For the first one of a session, its whole state is added. */
async function readChanges(sp: Savepoint, from: string | undefined, to: CheckpointInfo): Promise<Change[]> {
  const session = sp.session(to.sessionId);
  if (from !== undefined) return session.diff(from, to.id);
  return [{ op: "add", path: "", value: (await session.load(to.id))?.state }];
}

/** A change as it affects the part of the state at a pointer. Empty if it does not affect that part. */
function restrictChange(change: Change, pointer: string): Change[] {
  const { path } = change;
  if (pointer === "" || path === pointer || path.startsWith(`${pointer}/`)) return [change];
  if (!pointer.startsWith(path === "" ? "/" : `${path}/`)) return [];
  // The change replaces a value that contains the part.
  const rest = pointer.slice(path.length);
  const before = "before" in change ? findPart(change.before, rest) : undefined;
  const after = "value" in change ? findPart(change.value, rest) : undefined;
  if (before && after && isDeepStrictEqual(before.value, after.value)) return [];
  if (before && after) return [{ op: "replace", path: pointer, before: before.value, value: after.value }];
  if (after) return [{ op: "add", path: pointer, value: after.value }];
  return before ? [{ op: "remove", path: pointer, before: before.value }] : [];
}

function findPart(value: unknown, pointer: string): { readonly value: unknown } | undefined {
  try {
    return { value: resolvePointer(value, pointer) };
  } catch (error) {
    if (error instanceof CliError) return undefined;
    throw error;
  }
}

/** A change as JSON. A value of `undefined` is printed in its tagged form and not omitted. */
function toRecord(change: Change): object {
  return {
    op: change.op,
    path: change.path,
    ...("before" in change && { before: toJson(change.before) }),
    ...("value" in change && { value: toJson(change.value) }),
  };
}

function formatChange(change: Change, colors: Colors, columns: number): Text[] {
  const format = (value: unknown): string => truncate(sanitize(JSON.stringify(toJson(value))), columns - 4);
  const path = colors.bold(change.path || WHOLE_STATE);
  switch (change.op) {
    case "add":
      return [path, colored`  ${colors.green(`+ ${format(change.value)}`)}`];
    case "remove":
      return [path, colored`  ${colors.red(`- ${format(change.before)}`)}`];
    case "replace":
      return [
        path,
        colored`  ${colors.red(`- ${format(change.before)}`)}`,
        colored`  ${colors.green(`+ ${format(change.value)}`)}`,
      ];
  }
}

const WHOLE_STATE = "(the whole state)";

interface ChangeCounts {
  readonly path: string;
  added: number;
  removed: number;
  replaced: number;
}

/** Counts the changes under each key of the state. */
function countChanges(changes: readonly Change[]): ChangeCounts[] {
  const byPath = new Map<string, ChangeCounts>();
  for (const { path, op } of changes) {
    const top = path.split("/").slice(0, 2).join("/");
    const counts = byPath.get(top) ?? { path: top, added: 0, removed: 0, replaced: 0 };
    byPath.set(top, counts);
    counts[op === "add" ? "added" : op === "remove" ? "removed" : "replaced"]++;
  }
  return [...byPath.values()];
}

function formatStats(changes: readonly Change[]): string[] {
  const counts = countChanges(changes);
  const width = Math.max(...counts.map(({ path }) => (path || WHOLE_STATE).length));
  const lines = counts.map(
    ({ path, added, removed, replaced }) =>
      `${(path || WHOLE_STATE).padEnd(width)}  +${added} -${removed} ~${replaced}`,
  );
  return changes.length === 0 ? [] : [...lines, formatCount(changes.length, "change")];
}
