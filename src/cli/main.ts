/** Runs one command: parses the arguments, runs the verb, closes the store, reports errors. */
import { isSavepointError } from "../index.js";
import { Cli, type CommonOptions } from "./cli.js";
import { CliError } from "./errors.js";
import { EXIT, exitCodeForError, type ExitCode } from "./exit-codes.js";
import { Interruption } from "./interruption.js";
import type { CliIo } from "./io.js";
import { toPrintableJson } from "./json.js";
import { messageForCli } from "./library-message.js";
import { Output } from "./output.js";
import { Printer } from "./printer.js";
import { parseCommand, type ParsedCommand } from "./program.js";
import { colored } from "./text.js";
import { VERBS } from "./verbs/index.js";

/**
 * How long closing the store may take after Ctrl-C, in milliseconds. After that the process is ended. Every write is atomic, so the
 * store stays consistent.
 */
const CLOSE_TIMEOUT = 2000;

/** Runs one command and resolves with its exit code. Everything that it opened is closed by then. */
export async function main(argv: readonly string[], io: CliIo): Promise<ExitCode> {
  const printer = new Printer(io);
  let common: CommonOptions = {};
  try {
    const command = await parseCommand(VERBS, argv, io, (options) => (common = options));
    return command ? await run(command, common, io, printer) : EXIT.ok;
  } catch (error) {
    return reportError(error, createOutput(common, io, printer));
  }
}

async function run(
  { verb, positionals, options }: ParsedCommand,
  common: CommonOptions,
  io: CliIo,
  printer: Printer,
): Promise<ExitCode> {
  const interruption = new Interruption(io);
  const output = createOutput(common, io, printer);
  const cli = new Cli(common, io, output, interruption);
  const close = async (): Promise<void> => {
    // The timer also ends work that continues after closing, such as a step of an agent that ignores the signal.
    if (interruption.signal.aborted) setTimeout(() => io.exit(EXIT.interrupted), CLOSE_TIMEOUT).unref();
    await cli.close();
  };
  try {
    const code = await interruption.race(verb.run(cli, positionals, options));
    await close();
    for (const warning of output.drainWarnings()) output.errorJson({ warning });
    return code ?? EXIT.ok;
  } catch (error) {
    const code = reportError(error, output);
    await close();
    // In JSON formats the error is the only line on stderr, so warnings that closing adds are dropped.
    output.drainWarnings();
    return code;
  } finally {
    interruption.close();
  }
}

function createOutput({ json, jsonl, color, quiet = false }: CommonOptions, io: CliIo, printer: Printer): Output {
  return new Output(io, printer, { format: jsonl ? "jsonl" : json ? "json" : "text", color, quiet });
}

/** Prints an error on stderr, as JSON if that is the output format. */
function reportError(error: unknown, output: Output): ExitCode {
  const { code, exitCode, details } = classifyError(error);
  const message = describeError(error, code);
  if (output.format === "text") {
    output.error(colored`${output.noteColors.red("error")} ${message}`);
    // Indented, so that no line of the message looks like a line of savepoint.
    const stack = code === "UNEXPECTED" ? ((error as Error).stack ?? "").split("\n") : [];
    for (const line of stack) output.error(`    ${line.trimStart()}`);
  } else {
    const warnings = output.drainWarnings();
    const report = { code, message, details, ...(warnings.length > 0 && { warnings }) };
    output.errorJson({ error: toPrintableJson(report) });
  }
  return exitCode;
}

interface ErrorClass {
  readonly code: string;
  readonly exitCode: ExitCode;
  readonly details: Readonly<Record<string, unknown>>;
}

function classifyError(error: unknown): ErrorClass {
  if (error instanceof CliError) return { code: error.code, exitCode: error.exitCode, details: {} };
  if (isSavepointError(error)) {
    return { code: error.code, exitCode: exitCodeForError(error.code), details: error.details };
  }
  // Errors of system calls, such as a missing file, are not bugs.
  const { syscall, path } = (error ?? {}) as NodeJS.ErrnoException;
  if (syscall !== undefined) return { code: "IO_FAILED", exitCode: EXIT.failed, details: { path } };
  return { code: "UNEXPECTED", exitCode: EXIT.failed, details: {} };
}

function describeError(error: unknown, code: string): string {
  if (isSavepointError(error)) return messageForCli(error);
  const message = (error as Error).message ?? String(error);
  return code === "UNEXPECTED" ? `${message} This is a bug in savepoint: please report it.` : message;
}
