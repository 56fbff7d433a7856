/** What went wrong, and what the process ends with because of it. */
import { EXIT, type ExitCode } from "./exit-codes.js";

/** A failure of the command line itself: what was asked for makes no sense, or is not there. */
export class CliError extends Error {
  override readonly name = "Failure";
  readonly code: string;
  readonly exitCode: ExitCode;

  constructor(code: string, exitCode: ExitCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
    this.exitCode = exitCode;
  }
}

export const usageError = (message: string, cause?: unknown): CliError =>
  new CliError("USAGE", EXIT.usage, message, { cause });

export const notFoundError = (message: string): CliError => new CliError("NOT_FOUND", EXIT.notFound, message);

export const ambiguousError = (message: string): CliError => new CliError("AMBIGUOUS", EXIT.notFound, message);

/** Somebody pressed Ctrl-C, or asked the process to end. */
export class InterruptedError extends CliError {
  constructor() {
    super(
      "INTERRUPTED",
      EXIT.interrupted,
      "Interrupted. What was done until then is saved, and the store is consistent.",
    );
  }
}
