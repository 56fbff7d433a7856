/** Errors of the command line itself, each with the exit code that it leads to. */
import { EXIT, type ExitCode } from "./exit-codes.js";

export class CliError extends Error {
  override readonly name = "CliError";
  readonly code: string;
  readonly exitCode: ExitCode;

  constructor(code: string, exitCode: ExitCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
    this.exitCode = exitCode;
  }
}

/** Invalid arguments. */
export const usageError = (message: string, cause?: unknown): CliError =>
  new CliError("USAGE", EXIT.usage, message, { cause });

export const notFoundError = (message: string): CliError => new CliError("NOT_FOUND", EXIT.notFound, message);

/** A name that matches several things. */
export const ambiguousError = (message: string): CliError => new CliError("AMBIGUOUS", EXIT.notFound, message);

/** The command was ended by Ctrl-C or another signal. */
export class InterruptedError extends CliError {
  constructor() {
    super("INTERRUPTED", EXIT.interrupted, "Interrupted. Completed work is saved, and the store is consistent.");
  }
}
