/** What a verb works with: the store, what it prints, whom it asks, and whether it should end. */
import { resolve } from "node:path";
import type { OpenOptions, Savepoint } from "../index.js";
import { usageError } from "./errors.js";
import type { Interruption } from "./interruption.js";
import type { CliIo } from "./io.js";
import type { Output } from "./output.js";
import { type Progress, type ProgressOptions, showProgress, silentProgress } from "./progress.js";
import { resolveStoreUrl } from "./store-path.js";
import { sanitize } from "./terminal-text.js";

/** Options that every verb takes. */
export interface CommonOptions {
  readonly store?: string;
  readonly json?: boolean;
  readonly jsonl?: boolean;
  readonly color?: boolean;
  readonly quiet?: boolean;
  readonly yes?: boolean;
}

export class Cli {
  readonly io: CliIo;
  readonly output: Output;
  readonly #common: CommonOptions;
  readonly #interruption: Interruption;
  #open: Savepoint | undefined;

  constructor(common: CommonOptions, io: CliIo, output: Output, interruption: Interruption) {
    this.io = io;
    this.#common = common;
    this.output = output;
    this.#interruption = interruption;
  }

  /** Aborted by Ctrl-C. */
  get signal(): AbortSignal {
    return this.#interruption.signal;
  }

  /** The store that was named, if one was. */
  get storeUrl(): string | undefined {
    return this.#common.store;
  }

  /** Opens the store as it is; it is closed when the verb is done. The library is loaded only now. */
  async open(options: OpenOptions = { create: false }, url = this.#common.store): Promise<Savepoint> {
    const { findStore, Savepoint } = await import("../index.js");
    const { cwd, env } = this.io;
    const on = {
      // What is damaged is said with the data, as far as that could be read.
      damage: ({ reason }: { reason: string }) => this.output.warn(`damage: ${sanitize(reason)}`),
      backgroundFailure: ({ message, error }: { message: string; error: unknown }) =>
        this.output.warn(`${sanitize(message)}: ${sanitize((error as Error).message)}`),
    };
    const opened = await Savepoint.open(resolveStoreUrl(url ?? findStore(cwd, env), cwd), { on, ...options });
    this.#open = opened;
    return opened;
  }

  /** Makes a path from the command line absolute. */
  resolvePath(typed: string): string {
    return resolve(this.io.cwd, typed);
  }

  async close(): Promise<void> {
    await this.#open?.close();
  }

  /** Resolves when the verb is told to end, which it then has to do by itself: to be told is no failure. */
  interceptInterruption(): Promise<void> {
    return this.#interruption.intercept();
  }

  /** Ends the verb if it was interrupted. */
  throwIfInterrupted(): void {
    this.#interruption.throwIfInterrupted();
  }

  /** Ends the verb as Ctrl-C does: somebody has pressed it where they were asked. */
  interrupt(): never {
    return this.#interruption.interrupt();
  }

  /** A bar for long work, where somebody watches. */
  progress(options: Omit<ProgressOptions, "check">): Progress {
    const check = (): void => this.throwIfInterrupted();
    const { stderr } = this.io;
    return stderr.isTTY && !this.#common.quiet ? showProgress(stderr, { ...options, check }) : silentProgress(check);
  }

  /** Asks before something that cannot be undone. Where nobody can be asked, `--yes` must have been given. */
  async confirm(question: string): Promise<boolean> {
    if (this.#common.yes) return true;
    if (!this.output.interactive) {
      throw usageError(`${question} Nobody can be asked here: say --yes if that is what you want.`);
    }
    const { confirm, isCancel } = await import("@clack/prompts");
    const { stdin: input, stderr: output } = this.io;
    const answer = await confirm({ message: question, initialValue: false, input, output });
    if (isCancel(answer)) this.interrupt();
    if (answer !== true) this.output.note("Nothing was changed.");
    return answer === true;
  }
}
