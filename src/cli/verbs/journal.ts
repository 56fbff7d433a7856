import type { JournalEntry, JournalHole } from "../../index.js";
import { parseCount } from "../arguments.js";
import { requireSession } from "../checkpoint-lookup.js";
import type { Cli } from "../cli.js";
import { formatAge, formatDateAndClock, formatCount, formatDuration, formatUsage } from "../format.js";
import { formatJson, toPrintableJson } from "../json.js";
import type { ListView } from "../output.js";
import { isThread, suggestResumeOf } from "../resume-hint.js";
import { colored, type Text } from "../text.js";
import { truncate } from "../terminal-text.js";
import { defineVerb } from "../verb.js";

interface Options {
  readonly branch?: string;
  readonly step?: number;
  readonly limit?: number;
  readonly full?: boolean;
}

type Listed = JournalEntry | JournalHole;

export const journal = defineVerb<Options>({
  name: "journal",
  group: "Inspect",
  summary: "list the effects of all steps of a session: model calls, tools, questions",
  examples: [
    ["savepoint journal order-88", "what happened, in order, with durations, tokens and cost"],
    ["savepoint journal order-88 --step 4 --full", "one step, with complete arguments and results"],
    ["savepoint journal order-88 --limit 20", "the newest 20 effects"],
    ["savepoint journal order-88 --json", "all fields"],
  ],
  declare(command) {
    command
      .argument("<session>")
      .option("-b, --branch <name>", "the branch (default: main)")
      .option("--step <number>", "only the effects of this step", parseCount)
      .option("-n, --limit <count>", "only the newest effects, at most this many", parseCount)
      .option("--full", "print complete arguments and results");
  },
  async run(cli, [id = ""], { branch, step, limit, full }) {
    const sp = await cli.read();
    const info = await requireSession(sp, id, branch);
    const { output } = cli;
    const isText = output.format === "text";
    const session = sp.session(id, branch === undefined ? {} : { branch });
    const values = isText && !full ? MAX_VALUE : "full";
    const head = await session.head();
    const totals = new Totals();
    async function* read(): AsyncGenerator<Listed> {
      if (limit === undefined) {
        for await (const each of session.journal({ all: true, values })) if (isOfStep(each, step)) yield each;
        return;
      }
      const newest: Listed[] = [];
      for await (const each of session.journal({ all: true, values, order: "newest" })) {
        if (newest.length >= limit) break;
        if (isOfStep(each, step)) newest.push(each);
      }
      yield* newest.reverse();
    }
    async function* counted(): AsyncGenerator<Listed> {
      for await (const each of read()) {
        totals.add(each);
        yield each;
      }
    }
    let hasCurrent = false;
    const current = (entry: Listed): boolean => {
      const isCurrent = entry.checkpoint === undefined || isInUnfinishedStep(entry, head);
      if (isCurrent) hasCurrent = true;
      return isCurrent;
    };
    const why = isThread(info) ? `: this is a LangGraph thread. To list its nodes: ${cli.suggest("log", [id])}` : ".";
    const empty = step === undefined ? `No effects are recorded${why}` : `No effects of step ${step} are recorded.`;
    if (isText && full) {
      await printFull(cli, counted());
      if (totals.isEmpty) output.note(empty);
    } else await output.list(counted(), { columns: columnsOf(cli, current), empty });
    if (isText && hasCurrent)
      await output.line(output.colors.dim("* belongs to the current step, which has not ended"));
    if (isText && totals.effects > 0) {
      for (const line of totals.describe(output.columns)) await output.line(output.colors.dim(line));
    }
    if (totals.unknown > 0) {
      const what = `${formatCount(totals.unknown, "effect was", "effects were")} interrupted with an unknown outcome.`;
      const isAsked = ((await sp.sessions.load(id))?.questions.length ?? 0) > 0;
      output.note(isAsked ? what : `${what} When the session is resumed, the policy of each effect decides.`);
      output.note(
        isAsked ? `To answer: ${cli.suggest("answer", [id])}` : `To resume, ${await suggestResumeOf(cli, sp, id)}`,
      );
    }
  },
});

/** How much of arguments and results is read for a table. */
const MAX_VALUE = 200;
const MAX_ARGUMENTS = 28;

function isOfStep(entry: Listed, step: number | undefined): boolean {
  return step === undefined || (entry.kind !== "hole" && entry.step === step);
}

/** Whether an effect belongs to a step that has begun and not ended. */
function isInUnfinishedStep(entry: Listed, head: { seq: number; status: string } | undefined): boolean {
  return entry.checkpoint?.seq === head?.seq && head?.status === "waiting";
}

function columnsOf({ output }: Cli, isCurrent: (entry: Listed) => boolean): ListView<Listed>["columns"] {
  const { colors } = output;
  const now = Date.now();
  const maxArguments = output.columns < 100 ? 14 : MAX_ARGUMENTS;
  const ofEffect = (cell: (entry: JournalEntry) => Text) => (entry: Listed) =>
    entry.kind === "hole" ? "" : cell(entry);
  return [
    {
      title: "STEP",
      cell: (entry) => {
        if (entry.kind === "hole") return colors.red("lost");
        const step = `${entry.step ?? "?"}.${entry.index}`;
        return isCurrent(entry) ? colors.cyan(`${step} *`) : step;
      },
    },
    {
      title: "STARTED",
      align: "right",
      cell: ofEffect(({ startedAt }) => colors.dim(formatDateAndClock(startedAt).clock)),
    },
    {
      title: "TOOK",
      align: "right",
      cell: ofEffect(({ duration }) => (duration === undefined ? "" : formatDuration(duration))),
    },
    { title: "EFFECT", cell: ofEffect((entry) => describeCall(entry, maxArguments)) },
    { title: "RESULT", flexible: true, cell: (entry) => describeOutcome(entry, colors, now) },
    { title: "WORKER", optional: true, cell: ofEffect(({ worker }) => colors.dim(worker ?? "")) },
    {
      title: "TOKENS",
      optional: true,
      align: "right",
      cell: ofEffect(({ usage }) => colors.dim(usage?.tokens ? usage.tokens.toLocaleString("en-US") : "")),
    },
    {
      title: "COST",
      optional: true,
      align: "right",
      cell: ofEffect(({ usage }) => colors.dim(usage?.cost ? String(Number(usage.cost.toPrecision(3))) : "")),
    },
  ];
}

/** A call with its arguments, shortened. */
function describeCall({ kind, name, arguments: given }: JournalEntry, maxArguments: number): string {
  const text = given === undefined ? "" : `(${truncate(brief(given), maxArguments)})`;
  return kind === "tool" ? `${name}${text}` : name === kind ? kind : `${kind} ${truncate(name, maxArguments)}`;
}

function describeOutcome(entry: Listed, colors: Cli["output"]["colors"], now: number): Text {
  if (entry.kind === "hole") return colors.red(`cannot be read: ${entry.reason}`);
  const { error, value, reply, outcome, until, attempts, settledBy, duration } = entry;
  const details = [
    attempts > 1 ? `${attempts} attempts` : "",
    settledBy === undefined
      ? ""
      : `${duration === undefined ? "settled by" : "executed again after"} ${SETTLERS[settledBy]}`,
  ].filter(Boolean);
  const more = details.length > 0 ? ` (${details.join(", ")})` : "";
  if (error && outcome !== "again") return colored`${colors.red("failed")} ${`${error.name}: ${error.message}${more}`}`;
  if (outcome === "unknown") return colors.red("unknown outcome");
  if (outcome === "again") return colored`${colors.yellow("to be executed again")}${describeAgain(entry)}`;
  if (outcome === "running" && entry.kind === "ask") return colors.yellow("waits for an answer");
  if (outcome === "running")
    return until === undefined ? colors.yellow("in progress") : `wakes ${formatAge(until, now)}`;
  return `${value === undefined ? (more === "" ? "" : "no result") : brief(reply ?? value)}${more}`;
}

/** What settled an unknown outcome, as it is printed. */
const SETTLERS = { answer: "an answer", verify: "verify" };

/** Why an effect is to be executed again. */
function describeAgain({ error, settledBy }: JournalEntry): string {
  if (error) return `: it failed with ${error.name}: ${error.message}`;
  return settledBy === "answer" ? ": the answer was that it did not happen" : "";
}

/** A value on one line: text as it is, everything else as JSON. */
function brief(value: unknown): string {
  const text = typeof value === "string" ? value : JSON.stringify(toPrintableJson(value));
  return text.replace(/\s+/g, " ").trim();
}

async function printFull({ output }: Cli, entries: AsyncIterable<Listed>): Promise<void> {
  const { colors } = output;
  for await (const entry of entries) {
    if (output.closed) return;
    if (entry.kind === "hole") {
      await output.line(describeOutcome(entry, colors, Date.now()));
      continue;
    }
    const { step, index, startedAt, duration, usage, worker, callId } = entry;
    const { date, clock } = formatDateAndClock(startedAt);
    const took = duration === undefined ? "" : formatDuration(duration);
    const facts = [`${date} ${clock}Z`, took, formatUsage(usage), callId ?? "", worker ?? ""]
      .filter(Boolean)
      .join("  ");
    await output.line(colored`${colors.bold(`${step ?? "?"}.${index}`)} ${describeName(entry)}  ${colors.dim(facts)}`);
    if (entry.arguments !== undefined) await printLines(output, "  arguments ", entry.arguments);
    if (entry.outcome === "recorded") await printLines(output, "  result    ", entry.value);
    else await output.line(colored`  ${describeOutcome({ ...entry }, colors, Date.now())}`);
  }
}

function describeName({ kind, name }: JournalEntry): string {
  return kind === "tool" ? name : name === kind ? kind : `${kind} ${name}`;
}

async function printLines(output: Cli["output"], title: string, value: unknown): Promise<void> {
  const lines =
    typeof value === "string" ? value.split("\n") : value === undefined ? [""] : formatJson(toPrintableJson(value));
  for (const [index, line] of lines.entries()) {
    await output.line(colored`${output.colors.dim(index === 0 ? title : " ".repeat(title.length))}${line}`);
  }
}

/** What the listed effects add up to. */
class Totals {
  /** Whether nothing is listed, not even a damaged entry. */
  isEmpty = true;
  effects = 0;
  unknown = 0;
  #models = 0;
  #tools = 0;
  #failed = 0;
  #tokens = 0;
  #cost = 0;
  #time = 0;
  #first = Number.POSITIVE_INFINITY;
  #last = 0;

  add(entry: Listed): void {
    this.isEmpty = false;
    if (entry.kind === "hole") return;
    this.effects++;
    this.#first = Math.min(this.#first, entry.startedAt);
    this.#last = Math.max(this.#last, entry.startedAt);
    if (entry.outcome === "unknown") this.unknown++;
    if (entry.outcome === "failed") this.#failed++;
    if (entry.kind === "llm") this.#models++;
    if (entry.kind === "tool") this.#tools++;
    this.#tokens += entry.usage?.tokens ?? 0;
    this.#cost += entry.usage?.cost ?? 0;
    if (entry.kind !== "ask" && entry.kind !== "sleep") this.#time += entry.duration ?? 0;
  }

  /** In one line, or in two if the terminal is narrower. */
  describe(columns: number): string[] {
    const parts = [
      formatCount(this.effects, "effect"),
      this.#models > 0 ? formatCount(this.#models, "model call") : "",
      this.#tools > 0 ? formatCount(this.#tools, "tool call") : "",
      this.#failed > 0 ? `${this.#failed} failed` : "",
      formatUsage({ tokens: this.#tokens, cost: this.#cost }),
      formatDuration(this.#time),
    ];
    const [from, to] = [formatDateAndClock(this.#first), formatDateAndClock(this.#last)];
    const end = from.date === to.date ? to.clock : `${to.date} ${to.clock}`;
    const start = `${from.date} ${from.clock}`;
    const lines = [
      `Total: ${parts.filter(Boolean).join(", ")}.`,
      `${start.endsWith(end) ? start : `${start} to ${end}`} UTC.`,
    ];
    const line = lines.join(" ");
    return line.length <= columns ? [line] : lines;
  }
}
