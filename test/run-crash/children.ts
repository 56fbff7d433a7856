/** Child processes that do one job after another, and may be killed in one. */
import { type ChildProcessWithoutNullStreams, spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

const program = fileURLToPath(new URL("./child.mjs", import.meta.url));

/** A job that takes longer than this counts as hung. */
const PATIENCE = 60_000;

/** How a job ended: with the outcome that the child reported, or because the child was killed. */
export type JobEnd =
  | { readonly done: unknown }
  | { readonly error: string }
  | { readonly killed: NodeJS.Signals | null; readonly stderr: string };

export class Child {
  readonly #process: ChildProcessWithoutNullStreams;
  readonly #closed: Promise<JobEnd>;
  readonly #listeners = new Set<(line: Record<string, unknown>) => void>();

  /**
   * @param path the program
   * @param node what runs it
   */
  constructor(path = program, node = process.execPath) {
    this.#process = spawn(node, [path], { stdio: "pipe" });
    let stderr = "";
    this.#process.stderr.setEncoding("utf8").on("data", (text: string) => (stderr += text));
    this.#process.stdin.on("error", () => {});
    createInterface(this.#process.stdout).on("line", (text) => {
      const line = JSON.parse(text) as Record<string, unknown>;
      for (const listener of this.#listeners) listener(line);
    });
    this.#closed = new Promise((resolve) => {
      this.#process.on("close", (_, killed) => resolve({ killed, stderr }));
    });
  }

  /** Sends a job to the child. Resolves when the job is done or the child is dead. */
  async do(job: string, ...args: unknown[]): Promise<JobEnd> {
    const ended = this.#line((line) => "done" in line || "error" in line) as Promise<JobEnd>;
    this.#process.stdin.write(`${JSON.stringify([job, ...args])}\n`);
    let timer: NodeJS.Timeout | undefined;
    const silence = new Promise<JobEnd>((resolve) => {
      timer = setTimeout(() => resolve({ error: `${job} said nothing for ${PATIENCE} ms` }), PATIENCE);
    });
    const end = await Promise.race([ended, this.#closed, silence]);
    clearTimeout(timer);
    return end;
  }

  /** Resolves when the child reports that a job has begun, or when the child is dead. */
  async begun(): Promise<void> {
    await Promise.race([this.#line((line) => "begun" in line), this.#closed]);
  }

  async kill(): Promise<void> {
    this.#process.kill("SIGKILL");
    await this.#closed;
  }

  #line(fits: (line: Record<string, unknown>) => boolean): Promise<Record<string, unknown>> {
    return new Promise((resolve) => {
      const listener = (line: Record<string, unknown>): void => {
        if (!fits(line)) return;
        this.#listeners.delete(listener);
        resolve(line);
      };
      this.#listeners.add(listener);
    });
  }
}

/** Children that are killed: the next one is started while the one before it works, because starting takes longest. */
export class Victims {
  readonly #make: () => Child;
  #next: Child | undefined;

  constructor(make = () => new Child()) {
    this.#make = make;
  }

  take(): Child {
    const child = this.#next ?? this.#make();
    this.#next = this.#make();
    return child;
  }

  async close(): Promise<void> {
    await this.#next?.kill();
  }
}
