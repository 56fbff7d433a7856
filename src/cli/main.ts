#!/usr/bin/env node
/** The command line: `savepoint <verb>`. */
import { isSavepointError } from "../errors.js";
import { Cli, type CommonOptions } from "./cli.js";
import { EXIT, exitCodeOf, type ExitCode } from "./exit-codes.js";
import { Failure } from "./failure.js";
import { Interruption } from "./interruption.js";
import { Output } from "./output.js";
import { parse, type Typed } from "./program.js";
import { clean } from "./text.js";
import { VERBS } from "./verbs/index.js";

/** How long a store may take to close after Ctrl-C. Every write is whole or not there, so it need not be waited for. */
const PATIENCE = 2000;

process.exitCode = await main(process.argv.slice(2));

async function main(typed: readonly string[]): Promise<ExitCode> {
  let common: CommonOptions = {};
  try {
    const found = await parse(VERBS, typed, (options) => (common = options));
    return found ? await run(found, common) : EXIT.ok;
  } catch (error) {
    return report(error, common);
  }
}

async function run({ verb, positionals, options }: Typed, common: CommonOptions): Promise<ExitCode> {
  const interruption = new Interruption();
  const cli = new Cli(common, createOutput(common), interruption);
  try {
    return (await interruption.race(verb.run(cli, positionals, options))) ?? EXIT.ok;
  } catch (error) {
    return report(error, common);
  } finally {
    if (interruption.signal.aborted) setTimeout(() => process.exit(EXIT.interrupted), PATIENCE).unref();
    await cli.close();
  }
}

function createOutput({ json, jsonl, color, quiet = false }: CommonOptions): Output {
  return new Output({ format: jsonl ? "jsonl" : json ? "json" : "text", color, quiet });
}

/** Says what went wrong: for programs as JSON, if that is what they read. */
function report(error: unknown, common: CommonOptions): ExitCode {
  const { format, noteColors } = createOutput(common);
  const known = error instanceof Failure || isSavepointError(error);
  const code = known ? error.code : "UNEXPECTED";
  const message = `${(error as Error).message ?? String(error)}${adviceFor(code)}`;
  if (format === "text") {
    process.stderr.write(`${noteColors.red("error")} ${clean(message)}\n`);
    // What nobody expected should be reported, and then this helps.
    if (!known) process.stderr.write(`${(error as Error).stack ?? ""}\n`);
  } else {
    const details = isSavepointError(error) ? error.details : {};
    process.stderr.write(`${JSON.stringify({ error: { code, message, ...(known ? { details } : {}) } })}\n`);
  }
  if (error instanceof Failure) return error.exitCode;
  return isSavepointError(error) ? exitCodeOf(error.code) : EXIT.failed;
}

/** What helps here, and not in a program. */
function adviceFor(code: string): string {
  if (code === "STORE_NOT_FOUND") return ' Name another one with --store, or make one here with "savepoint init".';
  return code === "UNEXPECTED" ? " That should not happen: please report it." : "";
}
