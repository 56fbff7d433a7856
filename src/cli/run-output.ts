/** Prints the events and the result of a run. */
import type { EndedRun, LoopVerdict, RunError, RunEvent, RunResult } from "../index.js";
import { colorStatus } from "./checkpoint-line.js";
import type { Cli } from "./cli.js";
import { EXIT, type ExitCode } from "./exit-codes.js";
import { formatAge } from "./format.js";
import { formatJson, toPrintableJson } from "./json.js";
import { type Colors, joinParts, type Text } from "./text.js";

/** The texts for the verdicts of the loop detector; `undefined` if the verdict is not printed. */
const LOOP_TEXTS: Readonly<Record<LoopVerdict, string | undefined>> = {
  none: undefined,
  warn: "warning: the model repeats itself",
  alternative: "the model still repeats itself: the agent should ask it to try something else",
  halt: "the model still repeats itself: the run is halted",
};

/** Returns a listener that prints run events on stderr. */
export function printRunEvents({ output }: Cli): (event: RunEvent) => void {
  const { noteColors } = output;
  return (event) => {
    const text = describeEvent(event);
    if (text !== undefined) output.note(noteColors.dim(`${event.sessionId}  ${text}`));
  };
}

/** The text for an event; `undefined` for events that are not printed. */
function describeEvent(event: RunEvent): string | undefined {
  switch (event.type) {
    case "started":
      return event.resumed ? "resumed" : "started";
    case "step":
      return `step ${event.step} completed`;
    case "effect": {
      const effect = describeEffect(event);
      if (event.phase === "start") return `${effect} started`;
      return event.error === undefined ? `${effect} recorded` : `${effect} failed: ${event.error}`;
    }
    case "retry":
      return `${event.name} is retried in ${Math.round(event.delay)} ms: ${event.reason}`;
    case "loop":
      return LOOP_TEXTS[event.verdict];
    case "leaseLost":
      return "lease lost: this run stops and writes nothing more";
    case "checkpoint":
    case "delta":
    case "status":
      return undefined;
  }
}

/** An effect by its kind, its name and the id of its tool call. */
export function describeEffect(effect: {
  readonly kind: string;
  readonly name: string;
  readonly callId?: string | undefined;
}): string {
  const { kind, name, callId } = effect;
  return `${kind} ${callId === undefined ? name : `${name} ${callId}`}`;
}

/** The fields of a result for JSON output. The state is omitted; `savepoint show` prints it. */
export function toResultRecord(result: RunResult): Record<string, unknown> {
  return { ...result, state: undefined };
}

/** @param command the agent and the module of the command that ran it, for the command that resumes it */
export function describeResult(
  cli: Cli,
  result: RunResult,
  command: { readonly agent?: string | undefined; readonly agents?: string | undefined } = {},
): Text[] {
  const status = colorStatus(result.status, cli.output.colors);
  const line = (detail = ""): Text => joinParts([result.session, status, detail]);
  switch (result.status) {
    case "completed":
      return [line(), ...(result.output === undefined ? [] : formatOutput(result.output))];
    case "waiting":
      if (result.question) {
        return [line(result.question.text), `To answer: ${cli.suggest("answer", [result.session])}`];
      }
      return [line(result.wakeAt === undefined ? "" : `wakes ${formatAge(result.wakeAt, Date.now())}`)];
    case "failed":
    case "halted":
      return [line(result.reason), ...formatStack(result.error, cli.output.colors), adviceFor(cli, result, command)];
  }
}

/** The stack of an error, one line each. */
export function formatStack(error: RunError | undefined, colors: Colors): Text[] {
  return (error?.stack ?? "").split("\n").flatMap((line) => (line === "" ? [] : [colors.dim(line)]));
}

/** What to do about a run that has ended. */
function adviceFor(
  cli: Cli,
  { session, branch, needsResume }: EndedRun<unknown>,
  { agent, agents }: { readonly agent?: string | undefined; readonly agents?: string | undefined },
): string {
  const module = agents === undefined ? [] : ["--agents", agents];
  const onBranch = branch === "main" ? [] : ["--branch", branch];
  const options = [...module, "--session", session, ...onBranch, ...(needsResume ? ["--resume"] : [])];
  const suggested = cli.suggest("run", agent === undefined ? [] : [agent], ...options);
  return `${needsResume ? "To resume it" : "To resume it after a fix of the agent"}: ${suggested}`;
}

function formatOutput(value: unknown): string[] {
  return typeof value === "string" ? [value] : formatJson(toPrintableJson(value));
}

/** 1 if any run failed or was halted, else 0. */
export function exitCodeForResults(results: readonly RunResult[]): ExitCode {
  return results.some(({ status }) => status === "failed" || status === "halted") ? EXIT.failed : EXIT.ok;
}
