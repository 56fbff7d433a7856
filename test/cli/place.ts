/** A temporary folder with a store, commands that run there, and data to fill the store with. */
import { mkdtempSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, expect, type TestContext } from "vitest";
import { message, type OpenOptions, Savepoint } from "../../src/index.js";
import { QUIET } from "../damage/world.js";
import {
  type CommandOptions,
  type Ended,
  errorOf,
  linesOf,
  run,
  spawnProgram,
  spawnTerminal,
  start,
  type Started,
  type StartedProcess,
  startInTerminal,
  type Terminal,
} from "./command.js";

export type Fields = Record<string, unknown>;

export class Place {
  readonly folder = realpathSync(mkdtempSync(join(tmpdir(), "savepoint-cli-")));
  /** The default store of the test. It is created on first use. */
  readonly url: string;
  readonly #opened: Savepoint[] = [];
  readonly #commands: Started[] = [];
  readonly #children: { kill(signal: "SIGKILL"): unknown }[] = [];

  constructor(kind: "sqlite" | "file" = "sqlite") {
    this.url = `${kind}:${this.path(kind === "sqlite" ? "s.db" : "s")}`;
  }

  path(...names: string[]): string {
    return join(this.folder, ...names);
  }

  /** Writes a file and returns its path. */
  file(name: string, content: string | Uint8Array): string {
    writeFileSync(this.path(name), content);
    return this.path(name);
  }

  /** Opens the store as a program does. It is closed when the test ends. */
  async open(url = this.url, options: OpenOptions = {}): Promise<Savepoint> {
    const sp = await Savepoint.open(url, { durability: "process", on: QUIET, ...options });
    this.#opened.push(sp);
    return sp;
  }

  /** Opens the store, runs `work` on it and closes it. */
  async leave<T>(work: (sp: Savepoint) => Promise<T>, url = this.url): Promise<T> {
    const sp = await Savepoint.open(url, { durability: "process", on: QUIET });
    try {
      return await work(sp);
    } finally {
      await sp.close();
    }
  }

  /** Like {@link leave}, and returns this place. */
  async fill(save: (sp: Savepoint) => Promise<unknown>): Promise<this> {
    await this.leave(save);
    return this;
  }

  /** Runs a command in the folder without naming a store. */
  run(args: readonly string[], options: CommandOptions = {}): Promise<Ended> {
    return run(args, { cwd: this.folder, ...options });
  }

  /** Runs a command on the store. */
  on(args: readonly string[], options: CommandOptions = {}): Promise<Ended> {
    return this.run(["--store", this.url, ...args], options);
  }

  /** The text output of a command, which must exit with 0 and print nothing on stderr. */
  async text(args: readonly string[]): Promise<string> {
    const { stdout, stderr, code } = await this.on(args);
    expect({ stderr, code }, `savepoint ${args.join(" ")}`).toEqual({ stderr: "", code: 0 });
    return stdout;
  }

  /** The JSON document that a command prints. */
  // oxlint-disable-next-line typescript/no-explicit-any -- the tests check its shape
  async json<T = any>(args: readonly string[], code = 0, options: CommandOptions = {}): Promise<T> {
    return JSON.parse(await this.#data(["--json", ...args], code, options)) as T;
  }

  /** The JSON objects that a command prints, one per line. */
  // oxlint-disable-next-line typescript/no-explicit-any -- the tests check its shape
  async jsonl<T = any>(args: readonly string[], code = 0, options: CommandOptions = {}): Promise<T[]> {
    return linesOf(await this.#data(["--jsonl", ...args], code, options)).map((line) => JSON.parse(line) as T);
  }

  async #data(args: readonly string[], code: number, options: CommandOptions): Promise<string> {
    const ended = await this.on(args, options);
    expect(ended.code, `savepoint ${args.join(" ")}\n${ended.stderr}${ended.stdout}`).toBe(code);
    return ended.stdout;
  }

  /** Runs a command that must fail with this exit code, and returns the error that it prints as one line of JSON. */
  async fail(
    args: readonly string[],
    code: number,
    options: CommandOptions = {},
  ): Promise<{ code: string; message: string }> {
    return errorOf(await this.on(["--json", ...args], options), code);
  }

  /** Starts a command on the store. It is interrupted when the test ends. */
  startOn(args: readonly string[], options: CommandOptions = {}): Started {
    const started = start(["--store", this.url, ...args], { cwd: this.folder, ...options });
    this.#commands.push(started);
    return started;
  }

  /** Like {@link startOn}, on streams that claim to be a terminal. */
  terminalOn(args: readonly string[]): Terminal {
    return startInTerminal(["--store", this.url, ...args], { cwd: this.folder });
  }

  /** Starts the built program. It is killed when the test ends. */
  spawn(args: readonly string[], options: CommandOptions = {}): StartedProcess {
    const started = spawnProgram(args, { cwd: this.folder, ...options });
    this.#children.push(started.child);
    return started;
  }

  spawnOn(args: readonly string[], options: CommandOptions = {}): StartedProcess {
    return this.spawn(["--store", this.url, ...args], options);
  }

  /** Like {@link spawnOn}, in a pseudo-terminal. */
  spawnTerminalOn(args: readonly string[]): ReturnType<typeof spawnTerminal> {
    const terminal = spawnTerminal(["--store", this.url, ...args], { cwd: this.folder });
    let isOver = false;
    void terminal.ended.then(() => (isOver = true));
    this.#children.push({ kill: (signal) => isOver || terminal.pty.kill(signal) });
    return terminal;
  }

  async end(): Promise<void> {
    for (const child of this.#children) child.kill("SIGKILL");
    for (const command of this.#commands) {
      command.interrupt();
      await command.ended;
    }
    for (const sp of this.#opened) await sp.close();
    rmSync(this.folder, { recursive: true, force: true });
  }
}

/** A place for one test. */
export function createPlace({ onTestFinished }: TestContext, kind?: "sqlite" | "file"): Place {
  const place = new Place(kind);
  onTestFinished(() => place.end());
  return place;
}

/** A place for each test. */
export function usePlace(): () => Place {
  let place: Place;
  beforeEach(() => void (place = new Place()));
  afterEach(() => place.end());
  return () => place;
}

/** A place that all tests of a suite read. */
export function useFilledPlace(save: (sp: Savepoint) => Promise<unknown>, kind?: "sqlite" | "file"): () => Place {
  let place: Place | undefined;
  beforeAll(async () => {
    place = new Place(kind);
    await place.fill(save);
  });
  afterAll(() => place?.end());
  return () => place as Place;
}

export interface Trip {
  readonly n: number;
  readonly messages: readonly string[];
}

/** Session "trip" with checkpoints #0 to #4, whose states contain as many messages; #1 is labelled, #2 is pinned. */
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

/** Agent "planner" with two conversations and a checkpoint. Everything has changed since the checkpoint. */
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

/** The state of a session's newest checkpoint, as a later program loads it. */
export function stateOf(place: Place, session: string, branch = "main"): Promise<unknown> {
  return place.leave(async (sp) => (await sp.session(session, { branch }).latest())?.state);
}

/** The numbers of all checkpoints of a session, newest first. */
export function seqsOf(place: Place, session: string): Promise<number[]> {
  return place.leave(async (sp) =>
    (await sp.session(session).history({ allBranches: true }).all()).map(({ seq }) => seq),
  );
}
