import type { Change } from "../../index.js";
import { EXIT } from "../exit-codes.js";
import { usage } from "../failure.js";
import { describe, findOfSession, quote } from "../names.js";
import type { Colors } from "../output.js";
import { toPlain } from "../plain.js";
import { clean, count, truncate } from "../text.js";
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
    const first = await findOfSession(sp, from);
    const second = to === undefined ? undefined : await findOfSession(sp, to);
    const [a, b] = second ? [first.info.id, second.info] : [first.info.parentId, first.info];
    const sessionId = b.sessionId;
    if (first.info.sessionId !== sessionId) {
      throw usage(
        `${quote(from)} and ${quote(to ?? "")} are of two sessions. Checkpoints of one session can be compared.`,
      );
    }
    if (a === undefined) throw usage(`${describe(b)} is the first of its session: there is nothing before it.`);
    const pointer = (second ?? first).pointer;
    const all = await sp.session(sessionId).diff(a, b.id);
    const changes = all.filter(({ path }) => pointer === "" || path === pointer || path.startsWith(`${pointer}/`));
    if (output.format === "text") {
      if (changes.length === 0) output.note("Nothing differs.");
      const lines = stat
        ? summary(changes)
        : changes.flatMap((change) => toLines(change, output.colors, output.columns));
      for (const line of lines) await output.line(line);
    } else if (stat) await output.result(statOf(changes), () => "");
    else await output.stream(changes);
    return exitCode && changes.length > 0 ? EXIT.failed : EXIT.ok;
  },
});

function toLines(change: Change, colors: Colors, columns: number): string[] {
  const show = (value: unknown): string => truncate(clean(JSON.stringify(toPlain(value))), Math.min(columns, 2000) - 4);
  const path = colors.bold(clean(change.path || "(the whole state)"));
  switch (change.op) {
    case "add":
      return [path, `  ${colors.green(`+ ${show(change.value)}`)}`];
    case "remove":
      return [path, `  ${colors.red(`- ${show(change.before)}`)}`];
    case "replace":
      return [path, `  ${colors.red(`- ${show(change.before)}`)}`, `  ${colors.green(`+ ${show(change.value)}`)}`];
  }
}

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
  const width = Math.max(...stats.map(({ path }) => path.length));
  const lines = stats.map(
    ({ path, added, removed, replaced }) => `${clean(path).padEnd(width)}  +${added} -${removed} ~${replaced}`,
  );
  return changes.length === 0 ? [] : [...lines, count(changes.length, "change")];
}
