/** Child processes that do what they are told, and die in it. */
import { type ChildProcessWithoutNullStreams, spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

const program = fileURLToPath(new URL("./child.mjs", import.meta.url));

/** How a job ended: the child says how, or was killed in it. */
export type JobEnd =
  | { readonly done: unknown }
  | { readonly error: string }
  | { readonly killed: NodeJS.Signals | null; readonly stderr: string };

export class Child {
  /** What it has acknowledged so far. */
  readonly acknowledged: unknown[] = [];
  readonly #process: ChildProcessWithoutNullStreams;
  readonly #closed: Promise<JobEnd>;
  #ended: (end: JobEnd) => void = () => {};
  #spoke: () => void = () => {};

  constructor() {
    this.#process = spawn(process.execPath, [program], { stdio: "pipe" });
    let stderr = "";
    this.#process.stderr.setEncoding("utf8").on("data", (text: string) => (stderr += text));
    this.#process.stdin.on("error", () => {});
    createInterface(this.#process.stdout).on("line", (text) => this.#hear(text));
    this.#closed = new Promise((resolve) => {
      this.#process.on("close", (_, killed) => resolve({ killed, stderr }));
    });
  }

  /** Gives it a job. Resolves when that is done, or the child is. */
  async do(job: string, ...args: unknown[]): Promise<JobEnd> {
    const ended = new Promise<JobEnd>((resolve) => (this.#ended = resolve));
    this.#process.stdin.write(`${JSON.stringify([job, ...args])}\n`);
    return Promise.race([ended, this.#closed]);
  }

  /** Resolves when it acknowledges something, or is dead. */
  async spoke(): Promise<void> {
    await Promise.race([new Promise<void>((resolve) => (this.#spoke = resolve)), this.#closed]);
  }

  async kill(): Promise<JobEnd> {
    this.#process.kill("SIGKILL");
    return this.#closed;
  }

  #hear(text: string): void {
    let line: Record<string, unknown>;
    try {
      line = JSON.parse(text) as Record<string, unknown>;
    } catch {
      // It was killed while it wrote this: nothing was acknowledged.
      return;
    }
    if ("acknowledged" in line) {
      this.acknowledged.push(line["acknowledged"]);
      this.#spoke();
    } else this.#ended(line as unknown as JobEnd);
  }
}

/** Children that are killed: the next one is started while the one before it works, because starting takes longest. */
export class Victims {
  #next: Child | undefined;

  take(): Child {
    const child = this.#next ?? new Child();
    this.#next = new Child();
    return child;
  }

  async close(): Promise<void> {
    await this.#next?.kill();
  }
}
