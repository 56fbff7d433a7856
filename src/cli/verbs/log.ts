import type { CheckpointInfo, Savepoint, Session, SessionInfo } from "../../index.js";
import { parseCount } from "../arguments.js";
import type { Cli } from "../cli.js";
import { Lanes } from "../lanes.js";
import { usageError } from "../errors.js";
import { requireBranch, requireSession } from "../checkpoint-lookup.js";
import { formatCheckpointLine, colorStatus } from "../checkpoint-line.js";
import { formatAge, sanitize, truncate } from "../terminal-text.js";
import { defineVerb } from "../verb.js";

interface Options {
  readonly graph?: boolean;
  readonly all?: boolean;
  readonly branch?: string;
  readonly limit?: number;
  readonly oldest?: boolean;
}

export const log = defineVerb<Options>({
  name: "log",
  group: "Look",
  summary: "list checkpoints of a session, or of all sessions, newest first",
  examples: [
    ["savepoint log order-88", "what led to where it is"],
    ["savepoint log order-88 --graph", "all branches, drawn as lanes"],
    ["savepoint log --limit 50", "the newest sessions with their checkpoints"],
    ["savepoint log order-88 --jsonl | jq .seq", "one object per checkpoint"],
  ],
  declare(command) {
    command
      .argument("[session]", "a session; all of them, if it is not said")
      .option("-g, --graph", "draw branches as lanes; shows all of them")
      .option("--all", "checkpoints of all branches, in the order in which they were saved")
      .option("-b, --branch <name>", "those that led to the newest of this branch; main, if it is not said")
      .option("-n, --limit <count>", "at most so many", parseCount)
      .option("--oldest", "oldest first");
  },
  async run(cli, [id], options) {
    const sp = await cli.open();
    if (options.graph && options.oldest)
      throw usageError("Lanes are drawn newest first: leave out --graph or --oldest.");
    const found = id === undefined ? undefined : await requireSession(sp, id);
    if (found !== undefined) await requireBranch(sp, found, options.branch);
    const listed = found === undefined ? sp.sessions.list() : [(await sp.sessions.load(found)) as SessionInfo];
    if (cli.output.format !== "text") return cli.output.stream(checkpoints(sp, listed, options));
    const printed = await printSessions(cli, sp, listed, options);
    if (printed === 0 && !cli.output.closed) cli.output.note("No checkpoints.");
  },
});

async function printSessions(
  cli: Cli,
  sp: Savepoint,
  listed: AsyncIterable<SessionInfo> | Iterable<SessionInfo>,
  options: Options,
): Promise<number> {
  const { output } = cli;
  const limit = options.limit ?? Number.POSITIVE_INFINITY;
  let printed = 0;
  for await (const info of listed) {
    if (printed >= limit || output.closed) break;
    const { colors } = output;
    const parts = [sanitize(info.agent ?? ""), colorStatus(info.status, colors), formatAge(info.updatedAt, Date.now())];
    const heading = `session ${colors.bold(sanitize(info.id))}  ${parts.filter(Boolean).join("  ")}`;
    await output.line(printed === 0 ? heading : `\n${heading}`);
    printed += await printSession(cli, sp.session(info.id, branchOf(options)), { ...options, limit: limit - printed });
  }
  return printed;
}

async function printSession(cli: Cli, session: Session, options: Options): Promise<number> {
  const { output } = cli;
  const heads = new Map<string, string[]>();
  for await (const { name, head } of session.branches()) {
    if (head) heads.set(head.id, [...(heads.get(head.id) ?? []), name]);
  }
  const lanes = options.graph ? new Lanes() : undefined;
  let printed = 0;
  for await (const info of historyOf(session, options)) {
    if (output.closed) break;
    const { before = [], prefix } = lanes?.draw(info) ?? {};
    for (const line of before) await output.line(output.colors.dim(line));
    const line = formatCheckpointLine(info, output.colors, Date.now(), heads.get(info.id));
    const whole = prefix === undefined ? line : `${prefix}  ${line}`;
    await output.line(truncate(whole, output.columns));
    printed++;
  }
  return printed;
}

async function* checkpoints(
  sp: Savepoint,
  listed: AsyncIterable<SessionInfo> | Iterable<SessionInfo>,
  options: Options,
): AsyncGenerator<CheckpointInfo> {
  let left = options.limit ?? Number.POSITIVE_INFINITY;
  for await (const { id } of listed) {
    for await (const info of historyOf(sp.session(id, branchOf(options)), { ...options, limit: left })) {
      yield info;
      left--;
    }
    if (left <= 0) return;
  }
}

function historyOf(session: Session, { graph, all, limit, oldest }: Options): AsyncIterable<CheckpointInfo> {
  return session.history({
    allBranches: Boolean(graph || all),
    ...(limit !== undefined && limit !== Number.POSITIVE_INFINITY && { limit }),
    ...(oldest && { order: "oldest" as const }),
  });
}

function branchOf({ branch }: Options): { branch?: string } {
  return branch === undefined ? {} : { branch };
}
