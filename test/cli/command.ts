/**
 * Runs commands in three ways: in this process on its own streams, which is fast; as a process of the built program, for
 * what only a process can show; and in a pseudo-terminal, for what only a terminal can show.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { PassThrough, type Readable, Writable } from "node:stream";
import { StringDecoder } from "node:string_decoder";
import { fileURLToPath } from "node:url";
import { type IPty, spawn as spawnPty } from "@lydell/node-pty";
import { expect } from "vitest";
import type { CliIo, OutputStream } from "../../src/cli/io.js";
import { main } from "../../src/cli/main.js";

/** The published program: one bundle that contains a copy of the library. */
export const PROGRAM = fileURLToPath(new URL("../../dist/bin/savepoint.js", import.meta.url));
/** The module that `import "savepoint"` loads: not the copy of the library in the bundle. */
export const BUILT_LIBRARY = new URL("../../dist/index.js", import.meta.url).href;
/** The library for modules that are loaded into this process. */
export const LIBRARY = new URL("../../src/index.ts", import.meta.url).href;

export const CTRL_C = "\u0003";
export const ENTER = "\r";
export const DOWN = "\u001b[B";

export interface CommandOptions {
  readonly cwd?: string;
  readonly env?: Readonly<Record<string, string>>;
  readonly stdin?: string | Uint8Array;
}

/** The output and the exit code of a command. */
export interface Ended {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** A running command in this process. */
export interface Started<E extends Ended = Ended> {
  readonly ended: Promise<E>;
  /** Resolves as soon as this text was printed on stdout or stderr. */
  seen(text: string | RegExp): Promise<void>;
  /** Has the same effect as Ctrl-C or SIGTERM. */
  interrupt(): void;
}

/** A command in its own process. */
export interface StartedProcess extends Started<Ended & { readonly signal: NodeJS.Signals | null }> {
  readonly child: ChildProcess;
}

export interface Terminal {
  readonly ended: Promise<{ readonly code: number; readonly screen: string }>;
  /** Everything that was printed so far. */
  screen(): string;
  seen(text: string | RegExp): Promise<void>;
  type(keys: string): void;
}

/** The environment of the tests without variables that affect stores and colours. */
export function environment(more: Readonly<Record<string, string>> = {}): Record<string, string> {
  const {
    SAVEPOINT_URL: _url,
    NO_COLOR: _no,
    FORCE_COLOR: _force,
    NODE_OPTIONS: _node,
    CI: _ci,
    npm_command: _npm,
    ...rest
  } = process.env;
  return { ...(rest as Record<string, string>), TERM: "xterm-256color", LC_ALL: "C.UTF-8", ...more };
}

/** Runs a command in this process. By default stdin is empty. */
export function run(args: readonly string[], options: CommandOptions = {}): Promise<Ended> {
  return start(args, options).ended;
}

/** Starts a command in this process. */
export function start(args: readonly string[], options: CommandOptions = {}): Started {
  const printed = new Printed();
  const [stdout, stderr] = [printed.stream(), printed.stream()];
  const stdin = new PassThrough();
  stdin.end(options.stdin);
  const command = startMain(args, { ...options, stdin, stdout, stderr });
  const ended = command.ended.then((code): Ended => {
    printed.end();
    return { stdout: stdout.text(), stderr: stderr.text(), code };
  });
  return { ended, seen: (text) => printed.seen(text), interrupt: () => command.interrupt() };
}

/** Starts a command on any streams. */
export function startMain(
  args: readonly string[],
  options: Omit<CommandOptions, "stdin"> & Pick<CliIo, "stdin" | "stdout" | "stderr">,
): { readonly ended: Promise<number>; interrupt(): void } {
  const listeners = new Set<() => void>();
  const { stdin, stdout, stderr } = options;
  const ended = new Promise<number>((resolve, reject) => {
    const io: CliIo = {
      stdin,
      stdout,
      stderr,
      env: environment(options.env),
      cwd: options.cwd ?? process.cwd(),
      node: { path: process.execPath, version: process.versions.node },
      onSignal(listener) {
        listeners.add(listener);
        return () => listeners.delete(listener);
      },
      exit: resolve,
    };
    main(args, io).then((code) => {
      expect(listeners.size, "listeners to signals that are left").toBe(0);
      resolve(code);
    }, reject);
  });
  return {
    ended,
    interrupt() {
      for (const listener of listeners) listener();
    },
  };
}

/** Starts a command in this process on streams that claim to be a terminal. */
export function startInTerminal(
  args: readonly string[],
  { columns = 160, ...options }: Omit<CommandOptions, "stdin"> & { readonly columns?: number } = {},
): Terminal {
  const printed = new Printed();
  const screen = (): OutputStream => Object.assign(printed.stream(), { isTTY: true, columns });
  let isRaw = false;
  const stdin = Object.assign(new PassThrough(), { isTTY: true, setRawMode: (raw: boolean) => void (isRaw = raw) });
  const command = startMain(args, { ...options, stdin, stdout: screen(), stderr: screen() });
  const ended = command.ended.then((code) => {
    printed.end();
    return { code, screen: printed.text };
  });
  return {
    ended,
    screen: () => printed.text,
    seen: (text) => printed.seen(text),
    // A terminal turns Ctrl-C into a signal, except in raw mode.
    type: (keys) => (keys === CTRL_C && !isRaw ? command.interrupt() : void stdin.write(keys)),
  };
}

/** Starts the built program in its own process. Its stdin stays open unless its content is given. */
export function spawnProgram(
  args: readonly string[],
  options: CommandOptions & { readonly nodeArgs?: readonly string[] } = {},
): StartedProcess {
  return spawnCommand(process.execPath, [...(options.nodeArgs ?? []), PROGRAM, ...args], options);
}

/** Starts a shell command line in which `savepoint` is the program. The exit code is that of any failed command of a pipe. */
export function spawnShell(line: string, options: CommandOptions = {}): StartedProcess {
  const script = `set -o pipefail; savepoint() { "$NODE" "$PROGRAM" "$@"; }; ${line}`;
  const env = { NODE: process.execPath, PROGRAM, ...options.env };
  return spawnCommand("bash", ["-c", script], { stdin: "", ...options, env });
}

function spawnCommand(file: string, args: readonly string[], options: CommandOptions): StartedProcess {
  const child = spawn(file, args, { cwd: options.cwd, env: environment(options.env), stdio: ["pipe", "pipe", "pipe"] });
  const printed = new Printed();
  const [stdout, stderr] = [printed.collect(child.stdout), printed.collect(child.stderr)];
  // The program may end before it has read its input.
  child.stdin.on("error", () => {});
  if (options.stdin !== undefined) child.stdin.end(options.stdin);
  const ended = new Promise<Ended & { signal: NodeJS.Signals | null }>((resolve, reject) => {
    child.on("error", reject);
    child.on("close", (code, signal) => {
      printed.end();
      resolve({ code, signal, stdout: stdout(), stderr: stderr() });
    });
  });
  return { child, ended, seen: (text) => printed.seen(text), interrupt: () => void child.kill("SIGINT") };
}

/** Starts the built program in a pseudo-terminal, where stdout and stderr are one stream. */
export function spawnTerminal(
  args: readonly string[],
  options: Omit<CommandOptions, "stdin"> & { readonly columns?: number; readonly before?: string } = {},
): Terminal & { readonly pty: IPty } {
  const command = `${options.before ?? ":"}; exec "$NODE" "$PROGRAM" "$@"`;
  const pty = spawnPty("bash", ["-c", command, "savepoint", ...args], {
    cols: options.columns ?? 160,
    rows: 40,
    cwd: options.cwd ?? process.cwd(),
    env: environment({ NODE: process.execPath, PROGRAM, ...options.env }),
  });
  const printed = new Printed();
  pty.onData((text) => printed.add(text));
  const ended = new Promise<{ code: number; screen: string }>((resolve) => {
    // This event comes after the last output.
    pty.onExit(({ exitCode }) => {
      printed.end();
      resolve({ code: exitCode, screen: printed.text });
    });
  });
  return {
    pty,
    ended,
    screen: () => printed.text,
    seen: (text) => printed.seen(text),
    type: (keys) => pty.write(keys),
  };
}

/** A pipe whose reader has closed it. */
export function brokenPipe(): Writable {
  const error = Object.assign(new Error("write EPIPE"), { code: "EPIPE" });
  return new Writable({ autoDestroy: false, write: (_chunk, _encoding, done) => done(error) });
}

/** Collects output and lets tests wait for a text in it. */
class Printed {
  text = "";
  #waiting: (() => void)[] = [];
  #over = false;

  /** A stream whose output is collected. */
  stream(): Writable & { text(): string } {
    let own = "";
    const decoder = new StringDecoder("utf8");
    const stream = new Writable({
      write: (chunk: Buffer, _, done) => {
        const text = decoder.write(chunk);
        own += text;
        this.add(text);
        done();
      },
    });
    return Object.assign(stream, { text: () => own });
  }

  /** Collects the output of a stream. */
  collect(stream: Readable): () => string {
    let own = "";
    stream.setEncoding("utf8").on("data", (text: string) => {
      own += text;
      this.add(text);
    });
    return () => own;
  }

  add(text: string): void {
    this.text += text;
    for (const look of this.#waiting.splice(0)) look();
  }

  end(): void {
    this.#over = true;
    for (const look of this.#waiting.splice(0)) look();
  }

  seen(wanted: string | RegExp): Promise<void> {
    return new Promise((resolve, reject) => {
      const look = (): void => {
        if (typeof wanted === "string" ? this.text.includes(wanted) : wanted.test(this.text)) resolve();
        else if (this.#over) reject(new Error(`It has ended without ${String(wanted)}:\n${this.text}`));
        else this.#waiting.push(look);
      };
      look();
    });
  }
}

/** Runs a command in this process on a terminal with this many columns. */
export async function inTerminal(
  args: readonly string[],
  options: Omit<CommandOptions, "stdin"> & { readonly columns?: number } = {},
): Promise<{ readonly screen: string; readonly lines: readonly string[]; readonly code: number }> {
  return withLines(await startInTerminal(args, { columns: 80, ...options }).ended);
}

/** Splits the screen into lines. */
export function withLines<T extends { readonly screen: string }>(ended: T): T & { readonly lines: readonly string[] } {
  return { ...ended, lines: ended.screen.replaceAll("\r\n", "\n").trimEnd().split("\n") };
}

export function linesOf(text: string): string[] {
  return text === "" ? [] : text.replace(/\n$/, "").split("\n");
}

/** The error that was printed as JSON. It must be the only line on stderr, and stdout must be empty. */
export function errorOf(ended: Ended, code = ended.code): { code: string; message: string; details: unknown } {
  expect(ended.code, ended.stderr + ended.stdout).toBe(code);
  expect(ended.stdout).toBe("");
  expect(linesOf(ended.stderr), ended.stderr).toHaveLength(1);
  const { error } = JSON.parse(ended.stderr) as { error: { code: string; message: string; details: unknown } };
  expect(Object.keys(error).sort()).toEqual(["code", "details", "message"]);
  return error;
}

/** Replaces ages, whose values and widths differ from run to run. */
export function withoutAges(text: string): string {
  return text.replaceAll(/\d+[smhdy] ago +/g, "0s ago  ").replaceAll(/\d+[smhdy] ago/g, "0s ago");
}
