/** Runs the built command line as people do: a process of its own, on a real store in a folder of its own. */
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { spawn as spawnInTerminal } from "@lydell/node-pty";
import { afterAll, beforeAll, type TestContext } from "vitest";
import { Savepoint } from "../../src/index.js";

export const PROGRAM = fileURLToPath(new URL("../../dist/bin/savepoint.js", import.meta.url));

export interface Ended {
  readonly stdout: string;
  readonly stderr: string;
  readonly code: number | null;
}

export interface RunOptions {
  readonly cwd?: string;
  readonly env?: Readonly<Record<string, string>>;
  readonly input?: string;
  /** For Node itself. */
  readonly nodeArgs?: readonly string[];
}

/** The environment of the tests, without what decides about stores and colours. */
export function environment(more: Readonly<Record<string, string>> = {}): Record<string, string> {
  const { SAVEPOINT_URL: _, NO_COLOR: __, FORCE_COLOR: ___, NODE_OPTIONS: ____, ...rest } = process.env;
  return { ...(rest as Record<string, string>), TERM: "xterm-256color", ...more };
}

export async function run(args: readonly string[], options: RunOptions = {}): Promise<Ended> {
  const child = spawn(process.execPath, [...(options.nodeArgs ?? []), PROGRAM, ...args], {
    cwd: options.cwd,
    env: environment(options.env),
    stdio: "pipe",
  });
  child.stdin.on("error", () => {});
  child.stdin.end(options.input ?? "");
  let [stdout, stderr] = ["", ""];
  child.stdout.setEncoding("utf8").on("data", (text: string) => (stdout += text));
  child.stderr.setEncoding("utf8").on("data", (text: string) => (stderr += text));
  const code = await new Promise<number | null>((resolve, reject) => child.on("close", resolve).on("error", reject));
  return { stdout, stderr, code };
}

/** Runs a line of the shell, in which `savepoint` is the program. Any command of a pipe that fails decides the code. */
export async function shell(line: string, options: RunOptions = {}): Promise<Ended> {
  const child = spawn("bash", ["-c", `set -o pipefail; savepoint() { "$NODE" "$PROGRAM" "$@"; }; ${line}`], {
    cwd: options.cwd,
    env: environment({ NODE: process.execPath, PROGRAM, ...options.env }),
    stdio: ["ignore", "pipe", "pipe"],
  });
  let [stdout, stderr] = ["", ""];
  child.stdout.setEncoding("utf8").on("data", (text: string) => (stdout += text));
  child.stderr.setEncoding("utf8").on("data", (text: string) => (stderr += text));
  const code = await new Promise<number | null>((resolve, reject) => child.on("close", resolve).on("error", reject));
  return { stdout, stderr, code };
}

/** Runs it in a terminal that is so wide. What it prints on stdout and stderr is one text there. */
export async function inTerminal(
  args: readonly string[],
  options: RunOptions & { readonly columns?: number; readonly before?: string } = {},
): Promise<{ readonly screen: string; readonly lines: readonly string[]; readonly code: number }> {
  const command = `${options.before ?? ":"}; exec "$NODE" "$PROGRAM" "$@"`;
  const terminal = spawnInTerminal("bash", ["-c", command, "savepoint", ...args], {
    cols: options.columns ?? 80,
    rows: 24,
    cwd: options.cwd ?? process.cwd(),
    env: environment({ NODE: process.execPath, PROGRAM, ...options.env }),
  });
  let screen = "";
  terminal.onData((text) => (screen += text));
  const code = await new Promise<number>((resolve) => terminal.onExit(({ exitCode }) => resolve(exitCode)));
  return { screen, lines: screen.replaceAll("\r\n", "\n").trimEnd().split("\n"), code };
}

/** A folder with a store in it, if anything was saved. */
export class Place {
  readonly folder = mkdtempSync(join(tmpdir(), "savepoint-cli-"));
  readonly url: string;

  constructor(kind: "sqlite" | "file" = "sqlite") {
    this.url = `${kind}:${join(this.folder, kind === "sqlite" ? "agents.db" : "agents")}`;
  }

  async fill(save: (sp: Savepoint) => Promise<unknown>): Promise<this> {
    const sp = await Savepoint.open(this.url, { durability: "process" });
    try {
      await save(sp);
    } finally {
      await sp.close();
    }
    return this;
  }

  /** Runs a verb on the store. */
  run(args: readonly string[], options: RunOptions = {}): Promise<Ended> {
    return run([...args, "--store", this.url], { cwd: this.folder, ...options });
  }

  /** What it prints for people; it must go well, and say nothing beside. */
  async text(...args: string[]): Promise<string> {
    const { stdout, stderr, code } = await this.run(args);
    if (code !== 0 || stderr !== "") throw new Error(`${args.join(" ")} ended with ${code}: ${stderr}`);
    return stdout;
  }

  /** What it prints for programs; it must go well. */
  // oxlint-disable-next-line typescript/no-explicit-any -- its shape is what the tests are about
  async json<T = any>(...args: string[]): Promise<T> {
    const { stdout, stderr, code } = await this.run([...args, "--json"]);
    if (code !== 0) throw new Error(`${args.join(" ")} ended with ${code}: ${stderr}`);
    return JSON.parse(stdout) as T;
  }

  // oxlint-disable-next-line typescript/no-explicit-any -- its shape is what the tests are about
  async jsonl<T = any>(...args: string[]): Promise<T[]> {
    const { stdout, stderr, code } = await this.run([...args, "--jsonl"]);
    if (code !== 0) throw new Error(`${args.join(" ")} ended with ${code}: ${stderr}`);
    return linesOf(stdout).map((line) => JSON.parse(line) as T);
  }

  remove(): void {
    rmSync(this.folder, { recursive: true, force: true });
  }
}

/** A place for one test. */
export function createPlace({ onTestFinished }: TestContext, kind?: "sqlite" | "file"): Place {
  const place = new Place(kind);
  onTestFinished(() => place.remove());
  return place;
}

/** A place that the tests of a suite look at. */
export function usePlace(save: (sp: Savepoint) => Promise<unknown>, kind?: "sqlite" | "file"): () => Place {
  let place: Place | undefined;
  beforeAll(async () => {
    place = new Place(kind);
    await place.fill(save);
  });
  afterAll(() => place?.remove());
  return () => place as Place;
}

export function linesOf(text: string): string[] {
  return text === "" ? [] : text.replace(/\n$/, "").split("\n");
}

/** The one JSON line on stderr that says what went wrong. */
export function errorOf({ stdout, stderr }: Ended): { code: string; message: string; details?: unknown } {
  if (stdout !== "") throw new Error(`stdout has ${stdout}`);
  const lines = linesOf(stderr);
  if (lines.length !== 1) throw new Error(`stderr has ${stderr}`);
  return (JSON.parse(lines[0] as string) as { error: { code: string; message: string } }).error;
}

/** Ages differ from run to run, and so does how wide they are. */
export function withoutAges(text: string): string {
  return text.replaceAll(/\d+[smhdy] ago +/g, "0s ago  ").replaceAll(/\d+[smhdy] ago/g, "0s ago");
}
