/** Writes to stdout. A reader that closes the pipe early, such as `head`, is no failure. */
import type { CliIo, OutputStream } from "./io.js";

export class Printer {
  readonly #stdout: OutputStream;
  #closed = false;

  /** Must be created before anything is printed. Its listeners stay: a write may fail after the command has ended. */
  constructor({ stdout, stderr }: CliIo) {
    this.#stdout = stdout;
    for (const stream of [stdout, stderr]) {
      stream.on("error", (error: NodeJS.ErrnoException) => {
        if (error.code !== "EPIPE") throw error;
        if (stream === stdout) this.#closed = true;
      });
    }
  }

  /** Whether the reader has closed the pipe. */
  get closed(): boolean {
    return this.#closed;
  }

  /** Writes data and waits until the stream accepts more. */
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
