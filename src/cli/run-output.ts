/** A run, told as it goes on and when it is over. */
import type { RunEvent, RunResult } from "../index.js";
import type { Cli } from "./cli.js";
import { EXIT, type ExitCode } from "./exit-codes.js";
import { colorStatus } from "./checkpoint-line.js";
import { toPrintableJson } from "./json.js";
import { formatAge, sanitize } from "./terminal-text.js";

/** Tells on stderr what happens. */
export function printRunEvents({ output }: Cli): (event: RunEvent) => void {
  const { noteColors } = output;
  return (event) => {
    const line = toLine(event);
    if (line !== undefined) output.note(noteColors.dim(`${sanitize(event.sessionId)}  ${line}`));
  };
}

function toLine(event: RunEvent): string | undefined {
  switch (event.type) {
    case "started":
      return event.resumed ? "goes on" : "begins";
    case "step":
      return `step ${event.step} done`;
    case "effect": {
      const what = `${event.kind} ${sanitize(event.callId === undefined ? event.name : `${event.name} ${event.callId}`)}`;
      if (event.phase === "start") return `${what} begins`;
      return event.error === undefined ? `${what} recorded` : `${what} failed: ${sanitize(event.error)}`;
    }
    case "retry":
      return `${sanitize(event.name)} is tried again in ${Math.round(event.delay)} ms: ${sanitize(event.reason)}`;
    case "loop":
      return event.verdict === "none" ? undefined : `the model goes round in circles: ${event.verdict}`;
    case "leaseLost":
      return "somebody else runs it by now";
    case "checkpoint":
    case "delta":
    case "status":
      return undefined;
  }
}

/** A result, without the state: "savepoint show" has that. */
export function toResultRecord(result: RunResult): Record<string, unknown> {
  return { ...result, state: undefined };
}

export function describeResult(cli: Cli, result: RunResult): string {
  const { colors } = cli.output;
  const line = `${sanitize(result.session)}  ${colorStatus(result.status, colors)}`;
  switch (result.status) {
    case "completed":
      return result.output === undefined ? line : `${line}\n${outputText(result.output)}`;
    case "waiting":
      if (result.question) {
        return `${line}  ${sanitize(result.question.text)}\nAnswer it with: savepoint answer ${sanitize(result.session)}`;
      }
      return result.wakeAt === undefined ? line : `${line}  wakes ${formatAge(result.wakeAt, Date.now())}`;
    case "failed":
    case "halted":
      return `${line}  ${sanitize(result.reason)}`;
  }
}

function outputText(value: unknown): string {
  return typeof value === "string" ? sanitize(value) : JSON.stringify(toPrintableJson(value), undefined, 2);
}

/** 1 where any has failed or was halted. */
export function exitCodeForResults(results: readonly RunResult[]): ExitCode {
  return results.some(({ status }) => status === "failed" || status === "halted") ? EXIT.failed : EXIT.ok;
}
