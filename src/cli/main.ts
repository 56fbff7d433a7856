/** The command line: `savepoint <verb>`. */
import { isSavepointError } from "../index.js";
import { Cli, type CommonOptions } from "./cli.js";
import { EXIT, exitCodeForError, type ExitCode } from "./exit-codes.js";
import { CliError } from "./errors.js";
import { Interruption } from "./interruption.js";
import type { CliIo } from "./io.js";
import { Output } from "./output.js";
import { parseCommand, type ParsedCommand } from "./program.js";
import { Printer } from "./printer.js";
import { toPrintableJson } from "./json.js";
import { sanitize, sanitizeLines } from "./terminal-text.js";
import { VERBS } from "./verbs/index.js";

/** How long a store may take to close after Ctrl-C. Every write is whole or not there, so it need not be waited for. */
const PATIENCE = 2000;

/** Runs one command, and resolves with the exit code for the process. Everything it opened is closed by then. */
export async function main(argv: readonly string[], io: CliIo): Promise<ExitCode> {
  const printer = new Printer(io);
  let common: CommonOptions = {};
  try {
    const found = await parseCommand(VERBS, argv, io, (options) => (common = options));
    return found ? await run(found, common, io, printer) : EXIT.ok;
  } catch (error) {
    return report(error, createOutput(common, io, printer));
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
  const end = async (): Promise<void> => {
    // This also ends work that is still in progress after closing, such as a step of an agent that ignores the signal.
    if (interruption.signal.aborted) setTimeout(() => io.exit(EXIT.interrupted), PATIENCE).unref();
    await cli.close();
  };
  try {
    const code = await interruption.race(verb.run(cli, positionals, options));
    await end();
    for (const warning of output.drainWarnings()) output.error(JSON.stringify({ warning }));
    return code ?? EXIT.ok;
  } catch (error) {
    const code = report(error, output);
    await end();
    // What closing has to say after that is not worth a second line.
    output.drainWarnings();
    return code;
  } finally {
    interruption.close();
  }
}

function createOutput({ json, jsonl, color, quiet = false }: CommonOptions, io: CliIo, printer: Printer): Output {
  return new Output(io, printer, { format: jsonl ? "jsonl" : json ? "json" : "text", color, quiet });
}

/** Says what went wrong: for programs as JSON, if that is what they read. */
function report(error: unknown, output: Output): ExitCode {
  const { code, exitCode, details } = meaningOf(error);
  const message = `${(error as Error).message ?? String(error)}${adviceFor(code)}`;
  if (output.format === "text") {
    output.error(`${output.noteColors.red("error")} ${sanitize(message)}`);
    // What nobody expected should be reported, and then this helps.
    if (code === "UNEXPECTED") output.error(sanitizeLines((error as Error).stack ?? ""));
  } else {
    const warnings = output.drainWarnings();
    const told = { code, message, details, ...(warnings.length > 0 && { warnings }) };
    output.error(JSON.stringify({ error: toPrintableJson(told) }));
  }
  return exitCode;
}

interface Meaning {
  readonly code: string;
  readonly exitCode: ExitCode;
  readonly details: Readonly<Record<string, unknown>>;
}

function meaningOf(error: unknown): Meaning {
  if (error instanceof CliError) return { code: error.code, exitCode: error.exitCode, details: {} };
  if (isSavepointError(error))
    return { code: error.code, exitCode: exitCodeForError(error.code), details: error.details };
  // A file that is not there, or must not be written, is no surprise.
  const { syscall, path } = (error ?? {}) as NodeJS.ErrnoException;
  if (syscall !== undefined) return { code: "IO_FAILED", exitCode: EXIT.failed, details: { path } };
  return { code: "UNEXPECTED", exitCode: EXIT.failed, details: {} };
}

/** What helps here, and not in a program. */
function adviceFor(code: string): string {
  if (code === "STORE_NOT_FOUND") return ' Name another one with --store, or make one here with "savepoint init".';
  return code === "UNEXPECTED" ? " That should not happen: please report it." : "";
}
