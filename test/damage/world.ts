/** Helpers for tests of damage: stores that can be damaged, data of every kind, and all that can be read of it. */
import { cpSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach } from "vitest";
import type { Damage, DamageTarget } from "savepoint/testing";
import { defineAgent, isSavepointError, message, type OpenOptions, Savepoint } from "../../src/index.js";
import { openStore } from "../../src/store.js";
import { openDatabase } from "../../src/store/sqlite/driver.js";
import { damageFiles } from "../store/file-damage.js";
import { damageSqlite } from "../store/sqlite-damage.js";
import { makeMemoryFolder } from "../store/temporary-folder.js";

/** A kind of store that outlives its process. */
export interface Place {
  readonly name: string;
  url(folder: string): string;
  damage(folder: string, target: DamageTarget, how: Damage): Promise<void>;
}

export const SQLITE: Place = {
  name: "sqlite:",
  url: (folder) => `sqlite:${join(folder, "s.db")}`,
  async damage(folder, target, how) {
    const database = await openDatabase(join(folder, "s.db"));
    try {
      damageSqlite(database, target, how);
    } finally {
      database.close();
    }
  },
};

export const FILES: Place = {
  name: "file:",
  url: (folder) => `file:${join(folder, "s")}`,
  async damage(folder, target, how) {
    if (target.kind === "blob") damageBlob(join(folder, "s", "blobs", target.hash.slice(0, 2)), target.hash, how);
    else damageFiles(join(folder, "s"), target, how);
  },
};

/** A blob is a file, plain or compressed. */
function damageBlob(folder: string, hash: string, how: Damage): void {
  for (const name of readdirSync(folder).filter((each) => each.startsWith(hash))) {
    const path = join(folder, name);
    const bytes = readFileSync(path);
    const middle = bytes.length >> 1;
    if (how === "remove") rmSync(path);
    else if (how === "truncate") writeFileSync(path, bytes.subarray(0, middle));
    else writeFileSync(path, bytes.fill((bytes[middle] as number) ^ 1, middle, middle + 1));
  }
}

export const PLACES: readonly Place[] = [SQLITE, FILES];

/** Folders and Savepoints that are removed when a test ends. */
export interface Ground {
  folder(): string;
  /** A copy of a folder, without what makes it a store that is in use. */
  copy(folder: string): string;
  open(url: string, options?: OpenOptions): Promise<Savepoint>;
}

export function useGround(): Ground {
  let folders: string[] = [];
  let opened: Savepoint[] = [];
  afterEach(async () => {
    for (const sp of opened) await sp.close();
    for (const each of folders) rmSync(each, { recursive: true, force: true });
    [folders, opened] = [[], []];
  });
  const folder = (): string => {
    const made = makeMemoryFolder();
    folders.push(made);
    return made;
  };
  return {
    folder,
    copy(from) {
      const to = folder();
      cpSync(from, to, { recursive: true });
      return to;
    },
    async open(url, options = {}) {
      const sp = await Savepoint.open(url, { durability: "process", on: QUIET, ...options });
      opened.push(sp);
      return sp;
    },
  };
}

/** Listeners that keep damage off the console. */
export const QUIET: NonNullable<OpenOptions["on"]> = { damage: () => {}, backgroundFailure: () => {} };

export interface State {
  readonly messages: readonly unknown[];
  readonly bytes?: Uint8Array;
}

/** Bytes that can be compressed, and of which every bit counts. */
export function someBytes(length: number): Uint8Array {
  let seed = length;
  return Uint8Array.from({ length }, () => (seed = (seed * 75 + 74) % 65_537) & 1);
}

/** A value as a string; bytes are distinct from other values. */
export function show(value: unknown): string {
  return (
    JSON.stringify(value, (_, each: unknown) =>
      each instanceof Uint8Array ? `bytes ${Buffer.from(each).toString("base64")}` : each,
    ) ?? "undefined"
  );
}

/** An agent that does something, asks, and does something else. */
export function asker(log: string[]) {
  return defineAgent({
    name: "asker",
    initial: (_input: string) => ({ answer: undefined as unknown }),
    async step(run) {
      await run.effect("before", () => void log.push("before"));
      run.state.answer = await run.ask({ text: "May I?" });
      await run.effect("after", () => void log.push("after"));
      return run.complete(run.state.answer);
    },
  });
}

/** What was given out, by which everything can be asked for. */
export interface Known {
  readonly sessions: {
    readonly id: string;
    readonly branches: string[];
    readonly ids: string[];
    readonly labels: string[];
  }[];
  readonly agent: string;
  readonly conversations: readonly string[];
  readonly agentCheckpoints: readonly string[];
}

export const text = (n: number, length = 60): string =>
  `message ${n} ${"lorem ipsum ".repeat(length)}`.slice(0, length);

/** Fills a store with data of every kind. */
export async function fill(sp: Savepoint): Promise<Known> {
  await sp.agents.save({ id: "ag", name: "Agent", state: { n: 1, bytes: someBytes(9_000) } });
  await sp.conversations.create({
    id: "c1",
    agent: "ag",
    messages: [message.user("Hello needle"), message.assistant("Hi")],
  });
  await sp.conversations.create({ id: "c2", agent: "ag", tags: ["x"], messages: [message.user("Second")] });
  await sp.conversations.create({ id: "free", title: "Of nobody", messages: [message.user("Alone needle")] });
  const first = await sp.checkpoints.create({ agent: "ag", label: "one" });
  await sp.conversations.append("c1", [message.user("More")]);
  await sp.conversations.archive("c2");
  await sp.agents.save({ id: "ag", name: "Agent", state: { n: 2 } });
  const second = await sp.checkpoints.create({ agent: "ag" });

  const session = sp.session<State>("s", { agent: "ag" });
  const messages = Array.from({ length: 6 }, (_, n) => ({ role: "user", content: text(n) }));
  const ids = [(await session.save({ messages, bytes: someBytes(20_000) }, { label: "start" })).id];
  ids.push((await session.append("/messages", [{ role: "user", content: text(6) }], { metadata: { why: "more" } })).id);
  ids.push((await session.append("/messages", [{ role: "user", content: text(7) }], { id: "mine" })).id);
  await session.label("mine", "late");
  await session.pin(ids[1] as string);
  const side = await session.fork(ids[1] as string, { branch: "side" });
  ids.push(...(await side.history().all()).map(({ id }) => id).filter((id) => !ids.includes(id)));
  ids.push((await side.append("/messages", [{ role: "user", content: text(8) }])).id);
  ids.push((await session.append("/messages", [{ role: "user", content: text(9) }])).id);

  const plain = sp.session<State>("t");
  const plainIds: string[] = [];
  for (let n = 0; n < 3; n++) plainIds.push((await plain.save({ messages: messages.slice(n) })).id);

  await sp.run(asker([]), { session: "w", input: "go" });
  await sp.send("w", "next", { key: "k" });
  const runIds = (await sp.session("w").history({ allBranches: true }).all()).map(({ id }) => id);
  return {
    sessions: [
      { id: "s", branches: ["main", "side"], ids, labels: ["start", "late"] },
      { id: "t", branches: ["main"], ids: plainIds, labels: [] },
      { id: "w", branches: ["main"], ids: runIds, labels: [] },
    ],
    agent: "ag",
    conversations: ["c1", "c2", "free"],
    agentCheckpoints: [first.id, second.id],
  };
}

/** The result of a read: a value, or the code of a SavepointError. Any other error is thrown. */
export type Part = { readonly value: unknown } | { readonly code: string };

async function part(read: () => Promise<unknown>): Promise<Part> {
  try {
    return { value: await read() };
  } catch (error) {
    if (isSavepointError(error)) return { code: error.code };
    throw error;
  }
}

/** All that can be read, by what was asked. */
export async function readEverything(sp: Savepoint, known: Known): Promise<Map<string, Part>> {
  const parts = new Map<string, Part>();
  const read = async (name: string, work: () => Promise<unknown>): Promise<void> =>
    void parts.set(name, await part(work));
  for (const { id, branches, ids, labels } of known.sessions) {
    await read(`info ${id}`, () => sp.sessions.load(id));
    await read(`branches ${id}`, () => sp.session(id).branches().all());
    await read(`all ${id}`, () => sp.session(id).history({ allBranches: true, order: "oldest" }).all());
    for (const branch of branches) {
      await read(`latest ${id} ${branch}`, () => sp.session(id, { branch }).latest());
      await read(`history ${id} ${branch}`, () => sp.session(id, { branch }).history().all());
    }
    for (const each of ids) await read(`load ${id} ${each}`, () => sp.session(id).load(each));
    for (const label of labels)
      await read(`label ${id} ${label}`, async () => (await sp.session(id).load({ label }))?.id);
  }
  await read("sessions", () => sp.sessions.list().all());
  await read(`agent`, () => sp.agents.load(known.agent));
  await read("agents", () => sp.agents.list().all());
  for (const id of known.conversations) await read(`conversation ${id}`, () => sp.conversations.load(id));
  await read("conversations", () => sp.conversations.list().all());
  for (const at of known.agentCheckpoints) {
    await read(`checkpoint ${at}`, () => sp.checkpoints.load(at));
    for (const id of known.conversations.slice(0, 2)) {
      await read(`conversation ${id} at ${at}`, () => sp.conversations.load(id, { at }));
    }
  }
  await read("checkpoints", () => sp.checkpoints.list().all());
  await read("search", () => sp.search("needle"));
  await read("stats", async () => ({ ...(await sp.stats()), bytes: 0 }));
  return parts;
}

/** Everything in the store that can be damaged: every record, one item of each tape, every blob. */
export async function targetsIn(url: string): Promise<DamageTarget[]> {
  const store = await openStore(url);
  const all = { from: "", to: "\u{10ffff}" };
  const targets: DamageTarget[] = [];
  for (const { key } of await store.list(all, { limit: 10_000 })) targets.push({ kind: "record", key });
  for (const tape of await store.tapes(all)) {
    for (let item = 0; ; item++) {
      const [found] = await store.items([{ tape, start: item, count: 1 }]);
      if (found && !("unreadable" in found)) {
        targets.push({ kind: "item", tape, item });
        break;
      }
    }
  }
  for (const hash of await store.blobs({ after: "", limit: 100 })) targets.push({ kind: "blob", hash });
  await store.close();
  return targets;
}

/** Every file of a folder, by name, without the files that only mark who has it open. */
export function filesIn(folder: string): Map<string, Buffer> {
  const files = new Map<string, Buffer>();
  for (const name of readdirSync(folder, { recursive: true, encoding: "utf8" }).sort()) {
    const path = join(folder, name);
    if (statSync(path).isFile() && !/-shm$|(^|\/)lock(\/|$)/.test(name)) files.set(name, readFileSync(path));
  }
  return files;
}
