import type { CheckpointActivity, Savepoint, Session, SessionInfo } from "../../index.js";
import { parseCount, parseTime } from "../arguments.js";
import { colorStatus, formatCheckpointLine } from "../checkpoint-line.js";
import { requireSession } from "../checkpoint-lookup.js";
import type { Cli } from "../cli.js";
import { usageError } from "../errors.js";
import { formatAge } from "../format.js";
import { Lanes } from "../lanes.js";
import { colored, joinParts, Styled } from "../text.js";
import { truncate } from "../terminal-text.js";
import { defineVerb } from "../verb.js";

interface Options {
  readonly graph?: boolean;
  readonly all?: boolean;
  readonly branch?: string;
  readonly limit?: number;
  readonly oldest?: boolean;
  readonly since?: number;
}

export const log = defineVerb<Options>({
  name: "log",
  group: "Inspect",
  summary: "list the checkpoints of a session, or of all sessions, newest first",
  examples: [
    ["savepoint log order-88", "the history of the newest checkpoint"],
    ["savepoint log order-88 --graph", "all branches, drawn as lanes"],
    ["savepoint log --limit 50", "the newest sessions with their checkpoints"],
    ["savepoint log --since 2h", "what was saved in the last two hours"],
    ["savepoint log order-88 --jsonl | jq .seq", "one object per checkpoint"],
  ],
  declare(command) {
    command
      .argument("[session]", "a session (default: all sessions)")
      .option("-g, --graph", "draw all branches as lanes")
      .option("--all", "list the checkpoints of all branches in the order in which they were saved")
      .option("-b, --branch <name>", "list the history of this branch (default: main)")
      .option("-n, --limit <count>", "list at most this many", parseCount)
      .option("--since <time>", "list only checkpoints saved since a date, or an age such as 3d", parseTime)
      .option("--oldest", "list the oldest first");
  },
  async run(cli, [id], options) {
    const sp = await cli.read();
    if (options.graph && options.oldest) throw usageError("--graph cannot be combined with --oldest.");
    const updated = options.since === undefined ? {} : { since: options.since };
    const sessions = id === undefined ? sp.sessions.list(updated) : [await requireSession(sp, id, options.branch)];
    if (cli.output.format !== "text") return cli.output.stream(listCheckpoints(sp, sessions, options));
    const printed = await printSessions(cli, sp, sessions, options);
    if (printed === 0 && !cli.output.closed) cli.output.note("No checkpoints.");
  },
});

type Sessions = AsyncIterable<SessionInfo> | Iterable<SessionInfo>;

/** Prints sessions with their checkpoints. Returns the number of checkpoints. */
async function printSessions(cli: Cli, sp: Savepoint, sessions: Sessions, options: Options): Promise<number> {
  const { output } = cli;
  const limit = options.limit ?? Number.POSITIVE_INFINITY;
  let printed = 0;
  for await (const info of sessions) {
    if (printed >= limit || output.closed) break;
    const { colors } = output;
    const parts = [info.agent ?? "", colorStatus(info.status, colors), formatAge(info.updatedAt, Date.now())];
    if (printed > 0) await output.line("");
    await output.line(colored`session ${colors.bold(info.id)}  ${joinParts(parts)}`);
    const session = sp.session(info.id, branchOption(options));
    printed += await printHistory(cli, session, { ...options, limit: limit - printed });
  }
  return printed;
}

async function printHistory(cli: Cli, session: Session, options: Options): Promise<number> {
  const { output } = cli;
  const heads = new Map<string, string[]>();
  for await (const { name, head } of session.branches()) {
    if (head) heads.set(head.id, [...(heads.get(head.id) ?? []), name]);
  }
  const lanes = options.graph ? new Lanes() : undefined;
  let printed = 0;
  for await (const info of readHistory(session, options)) {
    if (output.closed) break;
    const { before = [], prefix } = lanes?.draw(info) ?? {};
    for (const line of before) await output.line(output.colors.dim(line));
    const line = formatCheckpointLine(info, output.colors, Date.now(), heads.get(info.id));
    const { ansi } = prefix === undefined ? line : colored`${prefix}  ${line}`;
    await output.line(new Styled(truncate(ansi, output.columns)));
    printed++;
  }
  return printed;
}

async function* listCheckpoints(
  sp: Savepoint,
  sessions: Sessions,
  options: Options,
): AsyncGenerator<CheckpointActivity> {
  let left = options.limit ?? Number.POSITIVE_INFINITY;
  for await (const { id } of sessions) {
    for await (const info of readHistory(sp.session(id, branchOption(options)), { ...options, limit: left })) {
      yield info;
      left--;
    }
    if (left <= 0) return;
  }
}

async function* readHistory(session: Session, options: Options): AsyncGenerator<CheckpointActivity> {
  const { graph, all, limit = Number.POSITIVE_INFINITY, oldest, since } = options;
  // With `since`, checkpoints are skipped that must not count.
  const isLimited = limit !== Number.POSITIVE_INFINITY && !(oldest && since !== undefined);
  const history = session.activity({
    allBranches: Boolean(graph || all),
    ...(isLimited && { limit }),
    ...(oldest && { order: "oldest" as const }),
  });
  let listed = 0;
  for await (const info of history) {
    if (listed >= limit) return;
    if (since !== undefined && info.createdAt < since) {
      // Newest first, everything after it is older.
      if (oldest) continue;
      return;
    }
    yield info;
    listed++;
  }
}

function branchOption({ branch }: Options): { branch?: string } {
  return branch === undefined ? {} : { branch };
}
