/**
 * The built command line as a process of its own: in a folder that goes when the test ends, off a terminal or in a
 * pseudo-terminal, with what it prints and what it ends with.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { type IPty, spawn as spawnPty } from "@lydell/node-pty";
import { afterEach, beforeEach, expect } from "vitest";
import { message, type OpenOptions, Savepoint } from "../../src/index.js";
import { QUIET } from "../damage/world.js";

export const BIN = fileURLToPath(new URL("../../dist/bin/savepoint.js", import.meta.url));
/** What `import "savepoint"` gives a program: a copy of the library beside the one that is in the command line. */
export const LIBRARY = new URL("../../dist/index.js", import.meta.url).href;

export type Fields = Record<string, unknown>;

/** What a process has printed, and what it ended with. */
export interface Ended {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stdout: string;
  readonly stderr: string;
}

export interface RunOptions {
  readonly stdin?: string | Uint8Array;
  readonly env?: Readonly<Record<string, string>>;
  readonly cwd?: string;
}

/** A process that is still running. */
export interface Started {
  readonly child: ChildProcess;
  readonly ended: Promise<Ended>;
  /** Resolves as soon as this was printed, on stdout or stderr. */
  readonly seen: (text: string | RegExp) => Promise<void>;
}

/** A process in a pseudo-terminal. */
export interface Terminal {
  readonly pty: IPty;
  readonly ended: Promise<{ readonly code: number; readonly screen: string }>;
  /** All that was printed so far. */
  screen(): string;
  seen(text: string | RegExp): Promise<void>;
  type(keys: string): void;
}

export const CTRL_C = "\u0003";
export const ENTER = "\r";
export const DOWN = "\u001b[B";

export class Tool {
  readonly folder = realpathSync(mkdtempSync(join(tmpdir(), "savepoint-cli-")));
  /** The store that is used where a test says nothing else. */
  readonly url = `sqlite:${join(this.folder, "s.db")}`;
  readonly #opened: Savepoint[] = [];
  readonly #children = new Set<{ kill(signal: "SIGKILL"): unknown }>();

  path(...names: string[]): string {
    return join(this.folder, ...names);
  }

  /** Writes a file, and gives its path. */
  file(name: string, content: string | Uint8Array): string {
    writeFileSync(this.path(name), content);
    return this.path(name);
  }

  /** The store, as a program has it open. */
  async open(url = this.url, options: OpenOptions = {}): Promise<Savepoint> {
    const sp = await Savepoint.open(url, { durability: "process", on: QUIET, ...options });
    this.#opened.push(sp);
    return sp;
  }

  /** Lets a program do something to the store, and leave. */
  async leave<T>(work: (sp: Savepoint) => Promise<T>, url = this.url): Promise<T> {
    const sp = await Savepoint.open(url, { durability: "process", on: QUIET });
    try {
      return await work(sp);
    } finally {
      await sp.close();
    }
  }

  start(args: readonly string[], options: RunOptions = {}): Started {
    const child = spawn(process.execPath, [BIN, ...args], {
      cwd: options.cwd ?? this.folder,
      env: this.#env(options.env),
      stdio: ["pipe", "pipe", "pipe"],
    });
    this.#children.add(child);
    const said = new Said();
    let [stdout, stderr] = ["", ""];
    child.stdout.setEncoding("utf8").on("data", (text: string) => {
      stdout += text;
      said.add(text);
    });
    child.stderr.setEncoding("utf8").on("data", (text: string) => {
      stderr += text;
      said.add(text);
    });
    // It may end before it has read what it is given.
    child.stdin.on("error", () => {});
    if (options.stdin !== undefined) child.stdin.end(options.stdin);
    const ended = new Promise<Ended>((resolve, reject) => {
      child.on("error", reject);
      child.on("close", (code, signal) => {
        this.#children.delete(child);
        said.end();
        resolve({ code, signal, stdout, stderr });
      });
    });
    return { child, ended, seen: (text) => said.seen(text) };
  }

  /** Runs it off a terminal, with nothing on stdin. */
  run(args: readonly string[], options: RunOptions = {}): Promise<Ended> {
    return this.start(args, { stdin: "", ...options }).ended;
  }

  /** Runs it on the store of the test. */
  on(args: readonly string[], options: RunOptions = {}): Promise<Ended> {
    return this.run(["--store", this.url, ...args], options);
  }

  /** Runs it on the store, expects that it ends so, and gives the JSON document that it prints. */
  async json<T = Fields>(args: readonly string[], code = 0, options: RunOptions = {}): Promise<T> {
    const ended = await this.on(["--json", ...args], options);
    expect(ended.code, `savepoint ${args.join(" ")}\n${ended.stderr}${ended.stdout}`).toBe(code);
    const jsonl = args.includes("--jsonl");
    return (
      jsonl
        ? ended.stdout
            .trim()
            .split("\n")
            .map((line) => JSON.parse(line) as unknown)
        : JSON.parse(ended.stdout)
    ) as T;
  }

  /** Runs it on the store, expects that it fails so, and gives the error that it prints as one line of JSON. */
  async fail(
    args: readonly string[],
    code: number,
    options: RunOptions = {},
  ): Promise<{ code: string; message: string }> {
    return errorOf(await this.on(["--json", ...args], options), code);
  }

  terminal(args: readonly string[], options: Omit<RunOptions, "stdin"> = {}): Terminal {
    const pty = spawnPty(process.execPath, [BIN, ...args], {
      cwd: options.cwd ?? this.folder,
      env: { ...this.#env(options.env), TERM: "xterm-256color" },
      cols: 160,
      rows: 40,
    });
    const running = { kill: (signal: string) => pty.kill(signal) };
    this.#children.add(running);
    const said = new Said();
    pty.onData((text) => said.add(text));
    const ended = new Promise<{ code: number; screen: string }>((resolve) => {
      pty.onExit(({ exitCode }) => {
        this.#children.delete(running);
        // What it has printed last may come after it has ended.
        setTimeout(() => {
          said.end();
          resolve({ code: exitCode, screen: said.text });
        }, 50);
      });
    });
    return {
      pty,
      ended,
      screen: () => said.text,
      seen: (text) => said.seen(text),
      type: (keys) => pty.write(keys),
    };
  }

  /** The same, on the store of the test. */
  terminalOn(args: readonly string[]): Terminal {
    return this.terminal(["--store", this.url, ...args]);
  }

  async end(): Promise<void> {
    for (const child of this.#children) child.kill("SIGKILL");
    for (const sp of this.#opened) await sp.close();
    rmSync(this.folder, { recursive: true, force: true });
  }

  #env(own: Readonly<Record<string, string>> = {}): Record<string, string> {
    const { SAVEPOINT_URL: _url, NO_COLOR: _noColor, FORCE_COLOR: _force, CI: _ci, ...rest } = process.env;
    return { ...(rest as Record<string, string>), ...own };
  }
}

/** What was printed, and who waits for something to be printed. */
class Said {
  text = "";
  #waiting: (() => void)[] = [];
  #over = false;

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

/** The error that was printed as JSON: the only line on stderr, and nothing on stdout. */
export function errorOf(ended: Ended, code: number): { code: string; message: string } {
  expect(ended.code, ended.stderr + ended.stdout).toBe(code);
  expect(ended.stdout).toBe("");
  const { error } = JSON.parse(ended.stderr) as { error: { code: string; message: string; details: Fields } };
  expect(Object.keys(error).sort()).toEqual(["code", "details", "message"]);
  return error;
}

/** A tool for each test. */
export function useTool(): () => Tool {
  let tool: Tool;
  beforeEach(() => void (tool = new Tool()));
  afterEach(() => tool.end());
  return () => tool;
}

export interface Trip {
  readonly n: number;
  readonly messages: readonly string[];
}

/** Session "trip" with checkpoints #0 to #4, whose states have as many messages; #1 is labelled, #2 is pinned. */
export async function saveTrip(sp: Savepoint, id = "trip"): Promise<string[]> {
  const session = sp.session<Trip>(id, { agent: "planner" });
  const ids: string[] = [];
  for (let n = 0; n < 5; n++) {
    const messages = Array.from({ length: n }, (_, each) => `message ${each}`);
    ids.push((await session.save({ n, messages }, n === 1 ? { label: "start" } : {})).id);
  }
  await session.pin(ids[2] as string);
  return ids;
}

/** Agent "planner" with two conversations and a checkpoint of all of it; since then everything has changed. */
export async function saveAgent(sp: Savepoint): Promise<string> {
  await sp.agents.save({ id: "planner", name: "Planner", state: { mood: "good" } });
  await sp.conversations.create({ id: "first", agent: "planner", messages: [message.user("Hello")] });
  await sp.conversations.create({ id: "gone", agent: "planner", messages: [message.user("Bye")] });
  const { id } = await sp.checkpoints.create({ agent: "planner", label: "whole" });
  await sp.agents.save({ id: "planner", name: "Planner", state: { mood: "bad" } });
  await sp.conversations.append("first", [message.assistant("Hi")]);
  await sp.conversations.delete("gone");
  await sp.conversations.create({ id: "newer", agent: "planner", messages: [message.user("New")] });
  return id;
}

/** The state of a session's newest checkpoint, as a program that comes after it finds it. */
export function stateOf(tool: Tool, session: string, branch = "main"): Promise<unknown> {
  return tool.leave(async (sp) => (await sp.session(session, { branch }).latest())?.state);
}

/** The numbers of all checkpoints of a session, newest first. */
export function seqsOf(tool: Tool, session: string): Promise<number[]> {
  return tool.leave(async (sp) =>
    (await sp.session(session).history({ allBranches: true }).all()).map(({ seq }) => seq),
  );
}
