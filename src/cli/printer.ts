/** Printing to a stream whose reader, such as `head`, may stop reading early: that is no failure. */
import type { CliIo, OutputStream } from "./io.js";

/** The standard output of one command. */
export class Printer {
  readonly #stdout: OutputStream;
  #closed = false;

  /** Before anything is printed. The listeners stay: a write may fail after the command has ended. */
  constructor({ stdout, stderr }: CliIo) {
    this.#stdout = stdout;
    for (const stream of [stdout, stderr]) {
      stream.on("error", (error: NodeJS.ErrnoException) => {
        if (error.code !== "EPIPE") throw error;
        if (stream === stdout) this.#closed = true;
      });
    }
  }

  /** Has the reader stopped reading? */
  get closed(): boolean {
    return this.#closed;
  }

  /** Prints, and waits until there is room for more. */
  async print(data: string | Uint8Array): Promise<void> {
    const stdout = this.#stdout;
    if (this.#closed || stdout.write(data)) return;
    await new Promise<void>((resolve) => {
      const events = ["drain", "close", "error"] as const;
      const done = (): void => {
        for (const event of events) stdout.off(event, done);
        resolve();
      };
      for (const event of events) stdout.on(event, done);
    });
  }
}
