import type { QueuedRun, Savepoint, SessionInfo, WorkerInfo } from "../../index.js";
import { colorStatus } from "../checkpoint-line.js";
import { describeCheckpoint, requireSession } from "../checkpoint-lookup.js";
import type { Cli } from "../cli.js";
import { formatAge, formatCount, formatTime } from "../format.js";
import { toPrintableJson } from "../json.js";
import { ANSWER_THREAD, findQueued, isThread, suggestRestart, suggestResume, suggestWorker } from "../resume-hint.js";
import { formatStack } from "../run-output.js";
import { countStatuses, describeSession, formatStatusCounts } from "../session-status.js";
import { colored, joinParts, Styled, type Text } from "../text.js";
import { displayWidth, truncate } from "../terminal-text.js";
import { defineVerb } from "../verb.js";

/** How many sessions of each kind the summary lists. */
const MAX_LISTED = 10;

export const status = defineVerb({
  name: "status",
  group: "Inspect",
  summary: "summarise the store, or print the status of one session",
  examples: [
    ["savepoint status", "counts, open questions, interrupted sessions, the last crash"],
    ["savepoint status order-88", "why it does not run, who runs it, its place in the queue"],
    ["savepoint status --json", "for programs"],
  ],
  declare(command) {
    command.argument("[session]", "a session (default: the whole store)");
  },
  async run(cli, [id]) {
    const sp = await cli.read();
    return id === undefined ? printSummary(cli, sp) : printSession(cli, sp, await requireSession(sp, id));
  },
});

async function printSummary(cli: Cli, sp: Savepoint): Promise<void> {
  const { output } = cli;
  const asking: SessionInfo[] = [];
  const interrupted: SessionInfo[] = [];
  const stopped: SessionInfo[] = [];
  const { total, byStatus } = await countStatuses(sp.sessions.list(), (info) => {
    if (info.questions.length > 0 || (info.status === "waiting" && isThread(info))) asking.push(info);
    if (info.status === "interrupted") interrupted.push(info);
    if (info.status === "failed" || info.status === "halted") stopped.push(info);
  });
  const { lastShutdown } = sp;
  const record = {
    store: sp.url,
    sessions: total,
    byStatus,
    questions: asking.flatMap(({ id, questions }) => questions.map((question) => ({ session: id, ...question }))),
    interrupted: interrupted.map(({ id }) => id),
    stopped: stopped.map(({ id, status: ended, reason }) => ({ session: id, status: ended, reason })),
    lastShutdown,
  };
  await output.result(record, () => {
    const { colors } = output;
    const counts = `${formatCount(total, "session")}: ${formatStatusCounts(byStatus)}`;
    const crashed = lastShutdown.processes.map(({ host, pid }) => `process ${pid} on ${host}`).join(", ");
    const fields = [
      ["store", sp.url],
      ["sessions", total === 0 ? "none" : counts],
      [
        "last crash",
        lastShutdown.clean ? "none: the last program closed the store" : `${crashed} ended without closing the store`,
      ],
    ] as const;
    return [
      ...fields.map(([title, value]) => colored`${colors.dim(title.padEnd(11))} ${value}`),
      ...listSessions(cli, "Waiting for an answer", "waiting", asking),
      ...listSessions(cli, "Interrupted", "interrupted", interrupted),
      ...listSessions(
        cli,
        "Failed",
        "failed",
        stopped.filter((info) => info.status === "failed"),
      ),
      ...listSessions(
        cli,
        "Halted",
        "halted",
        stopped.filter((info) => info.status === "halted"),
      ),
    ];
  });
  const asked = asking.find(({ questions }) => questions.length > 0);
  if (asked) output.note(`To answer: ${cli.suggest("answer", [asked.id])}`);
  if (asking.some(isThread)) output.note(`To answer a LangGraph thread: ${ANSWER_THREAD}`);
  if (interrupted.length > 0) output.note(`To resume, ${suggestResume(cli)}`);
  if (stopped[0]) output.note(`Why it stopped, and what to do: ${cli.suggest("status", [stopped[0].id])}`);
}

/** A heading with the sessions under it. Empty if there are none. */
function listSessions({ output }: Cli, title: string, filter: string, sessions: readonly SessionInfo[]): Text[] {
  if (sessions.length === 0) return [];
  const listed = sessions.slice(0, MAX_LISTED);
  const width = Math.max(...listed.map(({ id }) => displayWidth(id)));
  const now = Date.now();
  const lines = listed.map((info) => {
    const detail = describeSession(info, now) || `updated ${formatAge(info.updatedAt, now)}`;
    const line = joinParts([`  ${info.id}${" ".repeat(width - displayWidth(info.id))}`, info.agent ?? "", detail]);
    return new Styled(truncate(line.ansi, output.columns));
  });
  const more = sessions.length - listed.length;
  const rest = more > 0 ? [`  and ${more.toLocaleString("en-US")} more: savepoint sessions --status ${filter}`] : [];
  return ["", output.colors.bold(title), ...lines, ...rest];
}

async function printSession(cli: Cli, sp: Savepoint, info: SessionInfo): Promise<void> {
  const { output } = cli;
  const { colors } = output;
  const worker = await findFirst(sp.workers(), ({ runs }) => runs.some(({ sessionId }) => sessionId === info.id));
  const queued = await findQueued(sp, info.id);
  const now = Date.now();
  await output.result({ ...info, worker: worker && { ...worker, runs: undefined }, queue: queued }, () => {
    const fields: readonly (readonly [string, Text | undefined])[] = [
      ["session", colors.bold(info.id)],
      ["agent", info.agent],
      ["status", colorStatus(info.status, colors)],
      // If there is a question, it explains the status.
      ["reason", info.questions.length > 0 ? undefined : info.reason],
      ...info.questions.flatMap(({ text, call, startedAt }) => [
        ["question", text] as const,
        ["call", call && `${call.name}(${JSON.stringify(toPrintableJson(call.arguments ?? {}))})`] as const,
        ["started", startedAt === undefined ? undefined : formatTime(startedAt)] as const,
      ]),
      ["wakes", info.wakeAt === undefined ? undefined : withAge(info.wakeAt, now)],
      ["owner", worker && describeOwner(worker, now)],
      ["queue", queued && describePlace(queued, now)],
      ["step", info.head === undefined ? undefined : String(info.head.step)],
      ["head", info.head && describeCheckpoint(info.head)],
      ["created", withAge(info.createdAt, now)],
      ["updated", withAge(info.updatedAt, now)],
    ];
    const lines = fields.flatMap(([title, value]) =>
      value === undefined ? [] : [colored`${colors.dim(title.padEnd(9))} ${value}`],
    );
    return [...lines, ...formatStack(info.error, colors)];
  });
  const next = suggestNext(cli, info, queued);
  if (next !== undefined) output.note(next);
}

async function findFirst<T>(entries: AsyncIterable<T>, isMatch: (entry: T) => boolean): Promise<T | undefined> {
  for await (const entry of entries) if (isMatch(entry)) return entry;
  return undefined;
}

function withAge(time: number, now: number): string {
  return `${formatTime(time)} (${formatAge(time, now)})`;
}

function describeOwner({ host, pid, alive, leaseUntil }: WorkerInfo, now: number): string {
  const lease = leaseUntil === undefined ? "" : `, lease ${alive ? "until" : "ended"} ${withAge(leaseUntil, now)}`;
  return `process ${pid} on ${host}, ${alive ? "alive" : "gone"}${alive ? lease : ""}`;
}

/** Why a session is in the queue, and where. */
export function describePlace(queued: QueuedRun, now: number): string {
  const { state, position, readyAt, external, priority } = queued;
  switch (state) {
    case "queued":
      if (external) return "ready; only its own program can resume it";
      return `number ${position ?? "?"} of agent ${queued.agent}${priority > 0 ? `, priority ${priority}` : ""}`;
    case "scheduled":
      return readyAt === undefined ? "scheduled" : `scheduled ${formatAge(readyAt, now)}`;
    case "waiting":
      return "waits for an answer";
    case "interrupted":
      return external ? "interrupted; only its own program can resume it" : "interrupted; a worker can resume it";
    case "quarantined":
      return "quarantined; no worker resumes it";
  }
}

/** What to do about a session that does not run. */
function suggestNext(cli: Cli, info: SessionInfo, queued?: QueuedRun): string | undefined {
  const { id, agent, status: current, questions, error, head } = info;
  if (questions.length > 0) return `To answer: ${cli.suggest("answer", [id])}`;
  if (current === "waiting" && isThread(info)) return `To answer: ${ANSWER_THREAD}`;
  const isAnswered = queued?.state === "queued" && head !== undefined;
  if (current === "interrupted" || isAnswered) {
    return `To resume, ${queued?.external ? "run your program again" : suggestResume(cli)}`;
  }
  if (queued?.state === "queued") return `To run it, ${suggestWorker(cli, agent ?? queued.agent)}`;
  if (current !== "failed" && current !== "halted") return undefined;
  return `${current === "failed" && error ? "To resume it after a fix of the agent" : "To resume"}, ${suggestRestart(info)}`;
}
