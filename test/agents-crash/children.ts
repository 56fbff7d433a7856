/** Child processes that execute jobs and die in them. */
import { type ChildProcessWithoutNullStreams, spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

const program = fileURLToPath(new URL("./child.mjs", import.meta.url));

/** How a job ended: the child reported a result, or was killed in it. */
export type JobEnd =
  | { readonly done: unknown }
  | { readonly error: string }
  | { readonly killed: NodeJS.Signals | null; readonly stderr: string };

export class Child {
  /** What the child has acknowledged so far. */
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

  /** Starts a job. Resolves when the job is done or the child is dead. */
  async do(job: string, ...args: unknown[]): Promise<JobEnd> {
    const ended = new Promise<JobEnd>((resolve) => (this.#ended = resolve));
    this.#process.stdin.write(`${JSON.stringify([job, ...args])}\n`);
    return Promise.race([ended, this.#closed]);
  }

  /** Resolves when the child acknowledges something or is dead. */
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
      // The child was killed while it wrote this line: nothing was acknowledged.
      return;
    }
    if ("acknowledged" in line) {
      this.acknowledged.push(line["acknowledged"]);
      this.#spoke();
    } else this.#ended(line as unknown as JobEnd);
  }
}

/** Children that are killed: the next one is started while the previous one works, because starting takes longest. */
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
