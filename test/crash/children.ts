/** Starting and ending the child processes of the crash tests. */
import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { onTestFinished } from "vitest";

const program = fileURLToPath(new URL("./child.mjs", import.meta.url));

/** An ended child: the lines it printed, and how it ended. */
export interface Ended {
  readonly lines: Record<string, unknown>[];
  readonly signal: NodeJS.Signals | null;
  readonly code: number | null;
  readonly stderr: string;
}

/** A running child. `started` resolves with its first words, or its end. */
export interface Started {
  readonly child: ChildProcess;
  readonly started: Promise<unknown>;
  readonly ended: Promise<Ended>;
}

export function startChild(workload: string, ...args: unknown[]): Started {
  return startProgram(program, workload, ...args);
}

/** Starts another program than the one of these tests, with a job and its arguments. */
export function startProgram(path: string, job: string, ...args: unknown[]): Started {
  const child = spawn(process.execPath, [path, job, JSON.stringify(args)], { stdio: "pipe" });
  let stdout = "";
  let stderr = "";
  child.stdout.setEncoding("utf8").on("data", (text: string) => (stdout += text));
  child.stderr.setEncoding("utf8").on("data", (text: string) => (stderr += text));
  const ended = new Promise<Ended>((resolve) => {
    child.on("close", (code, signal) => {
      // A line that was cut by the kill was not acknowledged.
      const whole = stdout.slice(0, stdout.lastIndexOf("\n") + 1);
      const lines = whole
        .split("\n")
        .filter(Boolean)
        .map((line) => JSON.parse(line) as Record<string, unknown>);
      resolve({ lines, signal, code, stderr });
    });
  });
  const started = Promise.race([new Promise((resolve) => child.stdout.once("data", resolve)), ended]);
  return { child, started, ended };
}

/** The URL of a new SQLite file, removed with its folder when the test has finished. */
export function temporaryStore(): string {
  const folder = mkdtempSync(join(tmpdir(), "savepoint-crash-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return `sqlite:${join(folder, "crash.db")}`;
}

/** The URL of a new store of plain files, likewise. */
export function temporaryFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "savepoint-crash-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return `file:${join(folder, "store")}`;
}
