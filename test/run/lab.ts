/** What tests of runs need: a clock that they move, several Savepoints on the same data, and a world that hangs on demand. */
import { join } from "node:path";
import { afterEach, beforeEach } from "vitest";
import { type Agent, isSavepointError, type OpenOptions, Savepoint, type SavepointErrorCode } from "../../src/index.js";
import { openStore, type Store } from "../../src/store/index.js";
import { dropSchema, newPostgresUrl } from "../postgres/schemas.js";
import { makeFolder, removeFolder } from "../store/temporary-folder.js";

/** How long a lease lasts unless it is said. */
export const LEASE = 30_000;

export interface Lab {
  /** A further Savepoint on the same data, as another process would have. */
  open(options?: OpenOptions): Promise<Savepoint>;
  readonly now: () => number;
  advance(milliseconds: number): void;
  /** Lets all leases end: whoever runs something and does not renew is gone. */
  crash(): void;
  /** The shared store, or the newest one. */
  store(): Store;
}

interface Place {
  openStore(now: () => number): Promise<Store>;
  teardown(): Promise<void>;
}

export interface Kind {
  readonly name: string;
  setup(): Promise<Place>;
}

const MEMORY: Kind = { name: "memory:", setup: () => sharedStore("memory:") };
const SQLITE_MEMORY: Kind = { name: "sqlite::memory:", setup: () => sharedStore("sqlite::memory:") };
const SQLITE_FILE: Kind = { name: "sqlite: (a file)", setup: fileStores };

const POSTGRES: Kind = { name: "postgres:", setup: postgresStores };

export const KINDS: readonly Kind[] = [MEMORY, SQLITE_FILE];
export const ALL_KINDS: readonly Kind[] = [MEMORY, SQLITE_MEMORY, SQLITE_FILE, POSTGRES];

async function sharedStore(url: string): Promise<Place> {
  let store: Store | undefined;
  return {
    openStore: async (now) => (store ??= await openStore(url, { now })),
    teardown: async () => store?.close(),
  };
}

async function fileStores(): Promise<Place> {
  const folder = await makeFolder();
  return storesAt(`sqlite:${join(folder, "store.db")}`, () => removeFolder(folder));
}

async function postgresStores(): Promise<Place> {
  const url = newPostgresUrl();
  return storesAt(url, () => dropSchema(url));
}

function storesAt(url: string, remove: () => Promise<void>): Place {
  const stores: Store[] = [];
  return {
    async openStore(now) {
      const store = await openStore(url, { now, durability: "process" });
      stores.push(store);
      return store;
    },
    async teardown() {
      for (const store of stores) await store.close();
      await remove();
    },
  };
}

/** Fresh data and a fresh clock for every test of a suite. */
export function useLab(kind: Kind): Lab {
  let place: Place | undefined;
  let store: Store | undefined;
  let time = 0;
  const now = (): number => time;
  beforeEach(async () => {
    time = Date.parse("2026-01-01T00:00:00Z");
    place = await kind.setup();
  });
  // Savepoints are not closed: what hangs in them would be waited for. Their stores are.
  afterEach(() => place?.teardown());
  return {
    async open(options = {}) {
      if (!place) throw new Error("There is no test under way.");
      store = await place.openStore(now);
      // What still runs when the test is over finds its store closed: that is told to nobody.
      const { on, ...rest } = options;
      return Savepoint.open(store, { now, on: { backgroundFailure: () => {}, ...on }, ...rest });
    },
    now,
    advance: (milliseconds) => void (time += milliseconds),
    crash: () => void (time += LEASE + 1),
    store() {
      if (!store) throw new Error("Nothing was opened yet.");
      return store;
    },
  };
}

/** The outside world: notes what is done to it, and hangs where it is told to. */
export class World {
  readonly log: string[] = [];
  #hangs: { name: string; reached: () => void } | undefined;

  /** The next time this is done, it never ends. Resolves when it was reached. */
  hangIn(name: string): Promise<void> {
    return new Promise((reached) => (this.#hangs = { name, reached }));
  }

  do<T>(name: string, result?: T): Promise<T> | T {
    this.log.push(name);
    if (this.#hangs?.name !== name) return result as T;
    this.#hangs.reached();
    this.#hangs = undefined;
    return new Promise<T>(() => {});
  }

  /** How often it was done. */
  count(name: string): number {
    return this.log.filter((entry) => entry === name).length;
  }
}

/** Runs an agent until the world hangs where it is told to, and lets the lease end. */
export async function interruptIn<Input>(
  lab: Lab,
  sp: Savepoint,
  agent: Agent<Input>,
  input: Input,
  world: World,
  name: string,
  session = "s",
): Promise<void> {
  const reached = world.hangIn(name);
  await sp.start(agent, { session, input: input as never });
  await reached;
  await settle();
  lab.crash();
}

/** A promise that somebody else decides. */
export interface Gate<T = void> {
  readonly promise: Promise<T>;
  open(value: T): void;
  fail(error: Error): void;
}

export function createGate<T = void>(): Gate<T> {
  let [open, fail]: [(value: T) => void, (error: Error) => void] = [() => {}, () => {}];
  const promise = new Promise<T>((resolve, reject) => ([open, fail] = [resolve, reject]));
  promise.catch(() => {});
  return { promise, open: (value) => open(value), fail: (error) => fail(error) };
}

/** Lets everything that is ready happen, and a few writes. */
export async function settle(): Promise<void> {
  for (let turn = 0; turn < 20; turn++) await new Promise((resolve) => setImmediate(resolve));
}

/** Waits until something is so; no longer than any test should take. */
export async function until(condition: () => boolean | Promise<boolean>): Promise<void> {
  for (let tries = 0; tries < 2000; tries++) {
    if (await condition()) return;
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  throw new Error("It never came to be.");
}

/** For work that must not hang: what it resolves with, or `"hung"`. */
export async function orHung<T>(work: Promise<T>, patience = 700): Promise<T | "hung"> {
  let timer: NodeJS.Timeout | undefined;
  const hung = new Promise<"hung">((resolve) => (timer = setTimeout(() => resolve("hung"), patience)));
  try {
    return await Promise.race([work, hung]);
  } finally {
    clearTimeout(timer);
  }
}

/** The code of the error that work fails with. */
export async function codeOf(work: Promise<unknown>): Promise<SavepointErrorCode | "none" | `other: ${string}`> {
  try {
    await work;
    return "none";
  } catch (error) {
    return isSavepointError(error) ? error.code : `other: ${String(error)}`;
  }
}

/** The error that work fails with. */
export async function errorOf(
  work: Promise<unknown>,
): Promise<Error & { code?: string; details?: Record<string, unknown> }> {
  try {
    await work;
  } catch (error) {
    return error as Error;
  }
  throw new Error("It did not fail.");
}
