/** The context of a verb: the store, the output, prompts, progress and interruption. */
import { resolve } from "node:path";
import type { OpenOptions, Savepoint } from "../index.js";
import { usageError } from "./errors.js";
import { createAsciiStream } from "./glyphs.js";
import type { Interruption } from "./interruption.js";
import type { CliIo, OutputStream } from "./io.js";
import type { Output } from "./output.js";
import { ProgressBar, type ProgressOptions, type ProgressUnit } from "./progress.js";
import { suggestCommand } from "./shell.js";
import { resolveStoreUrl } from "./store-path.js";
import { sanitize } from "./terminal-text.js";

/** Options that every verb accepts. */
export interface CommonOptions {
  readonly store?: string;
  readonly json?: boolean;
  readonly jsonl?: boolean;
  readonly color?: boolean;
  readonly quiet?: boolean;
  readonly yes?: boolean;
}

/** Ends the line of a prompt and shows the cursor that it has hidden. */
const SHOW_CURSOR = "\u001B[?25h\n";

export class Cli {
  readonly io: CliIo;
  readonly output: Output;
  readonly #common: CommonOptions;
  readonly #interruption: Interruption;
  #store: Savepoint | undefined;
  #asciiTerminal: OutputStream | undefined;

  constructor(common: CommonOptions, io: CliIo, output: Output, interruption: Interruption) {
    this.io = io;
    this.#common = common;
    this.output = output;
    this.#interruption = interruption;
  }

  /** Aborted by Ctrl-C and other signals that end the process. */
  get signal(): AbortSignal {
    return this.#interruption.signal;
  }

  /** The value of `--store`. */
  get storeUrl(): string | undefined {
    return this.#common.store;
  }

  /**
   * Opens the store. By default it must exist and have the current format. {@link close} closes it. The library is
   * loaded here and not earlier, so that help and usage errors are fast.
   */
  async open(options: OpenOptions = { create: false }, url = this.#common.store): Promise<Savepoint> {
    return this.#open({ ...(await this.readKeys()), ...options }, url);
  }

  /** Opens a plain store, although SAVEPOINT_KEY_FILE names keys. It must exist. */
  openPlain(): Promise<Savepoint> {
    return this.#open({ create: false }, this.#common.store);
  }

  async #open(options: OpenOptions, url: string | undefined): Promise<Savepoint> {
    const { findStore, Savepoint } = await import("../index.js");
    const { cwd, env } = this.io;
    const on = {
      damage: ({ reason }: { reason: string }) => this.output.warn(`damage: ${reason}`),
      backgroundFailure: ({ message, error }: { message: string; error: unknown }) =>
        this.output.warn(`${message}: ${(error as Error).message}`),
    };
    const target = resolveStoreUrl(url ?? findStore(cwd, env), cwd);
    this.#store = await Savepoint.open(target, { on, ...options });
    return this.#store;
  }

  /** The option `encryption` for opening a store: the keys in the file that SAVEPOINT_KEY_FILE names; no option if it is not set. */
  async readKeys(): Promise<Pick<OpenOptions, "encryption">> {
    return this.readKeyFile(this.io.env["SAVEPOINT_KEY_FILE"]);
  }

  /** The option `encryption`: the keys in a file; no option if there is no file. */
  async readKeyFile(path: string | undefined): Promise<Pick<OpenOptions, "encryption">> {
    if (!path) return {};
    const { readKeyFile } = await import("../index.js");
    return { encryption: await readKeyFile(this.resolvePath(path)) };
  }

  /** Opens the store read-only: for verbs that only show something. Nothing is written to it. */
  read(): Promise<Savepoint> {
    return this.open({ readOnly: true });
  }

  /** A command to copy, with the store if `--store` named one, and with `npx` if npx started this program. */
  suggest(verb: string, names: readonly string[], ...options: readonly string[]): string {
    const store = this.#common.store === undefined ? [] : ["--store", this.#common.store];
    const npx = this.io.env["npm_command"] === "exec" ? "npx " : "";
    return `${npx}${suggestCommand(verb, names, ...options, ...store)}`;
  }

  /** The terminal for prompts and progress. */
  get terminal(): OutputStream {
    return this.output.unicode ? this.io.stderr : (this.#asciiTerminal ??= createAsciiStream(this.io.stderr));
  }

  /** Makes a path from the command line absolute. */
  resolvePath(path: string): string {
    return resolve(this.io.cwd, path);
  }

  async close(): Promise<void> {
    await this.#store?.close();
  }

  /** Lets the verb handle an interruption itself and end normally, not with an error. Resolves when the interruption comes. */
  interceptInterruption(): Promise<void> {
    return this.#interruption.intercept();
  }

  /** Ends the verb as Ctrl-C does. For prompts, which receive Ctrl-C as a key and not as a signal. */
  interrupt(): never {
    return this.#interruption.interrupt();
  }

  /**
   * Runs long work with a progress bar on stderr, if that is a terminal. Reporting progress throws after Ctrl-C, so that
   * the work ends as after any error.
   */
  async withProgress<Unit extends ProgressUnit, Result>(
    options: ProgressOptions<Unit>,
    work: (onProgress: (progress: Readonly<Record<Unit, number>>) => void) => Promise<Result>,
  ): Promise<Result> {
    const { stderr } = this.io;
    const bar = stderr.isTTY && !this.#common.quiet ? new ProgressBar(this.terminal, options) : undefined;
    try {
      return await work((progress) => {
        this.#interruption.throwIfInterrupted();
        bar?.update(progress[options.unit]);
      });
    } finally {
      bar?.clear();
    }
  }

  /** The answer to a prompt. Ctrl-D and the end of the input end the verb like Ctrl-C; otherwise the prompt would never settle. */
  async ask<T>(prompt: Promise<T>): Promise<T> {
    const { stdin, stderr } = this.io;
    let stop = (): void => {};
    const ended = new Promise<true>((resolve) => {
      const onKey = (_: unknown, key?: { readonly name?: string; readonly ctrl?: boolean }): void => {
        if (key?.ctrl && key.name === "d") resolve(true);
      };
      const onEnd = (): void => resolve(true);
      stdin.on("keypress", onKey).once("end", onEnd);
      stop = () => void stdin.off("keypress", onKey).off("end", onEnd);
    });
    const outcome = await Promise.race([prompt.then((answer) => ({ answer })), ended]).finally(stop);
    if (outcome !== true) return outcome.answer;
    stderr.write(SHOW_CURSOR);
    this.interrupt();
  }

  /**
   * Asks for confirmation. Returns `true` with `--yes`.
   * @throws a usage error without `--yes` and without a terminal
   */
  async confirm(question: string): Promise<boolean> {
    if (this.#common.yes) return true;
    if (!this.output.interactive) {
      throw usageError(`${question} There is no terminal to ask on: pass --yes to confirm.`);
    }
    const { confirm, isCancel } = await import("@clack/prompts");
    const [{ stdin: input }, output] = [this.io, this.terminal];
    const answer = await this.ask(confirm({ message: sanitize(question), initialValue: false, input, output }));
    if (isCancel(answer)) this.interrupt();
    if (answer !== true) this.output.note("Nothing was changed.");
    return answer === true;
  }
}
