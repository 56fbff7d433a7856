/** Helpers for tests of runs: a clock under control, several Savepoints on the same data, and a world that hangs on demand. */
import { join } from "node:path";
import { afterEach, beforeEach, type TestContext } from "vitest";
import {
  type Agent,
  defineAgent,
  isSavepointError,
  type OpenOptions,
  type Run,
  Savepoint,
  type SavepointErrorCode,
  type SessionInfo,
} from "../../src/index.js";
import { openStore, type Store } from "../../src/store.js";
import type { Commit } from "../../src/store/contract/contract.js";
import { borrowMigratedUrl, returnMigratedUrl } from "../postgres/schemas.js";
import { makeFolder, removeFolder } from "../store/temporary-folder.js";
import { chooseStores } from "../support/choose-stores.js";
import { StoreActivity } from "../support/store-activity.js";

import { until } from "../support/until.mjs";

export { createGate, type Gate } from "../support/gate.js";
export { orHung, until } from "../support/until.mjs";

/** The default length of a lease. */
export const LEASE = 30_000;

export interface Lab {
  /** A further Savepoint on the same data, as another process would have. */
  open(options?: OpenOptions): Promise<Savepoint>;
  readonly now: () => number;
  advance(milliseconds: number): void;
  /** Lets all leases expire: runs whose lease is not renewed count as crashed. */
  crash(): void;
  /** Resolves when all runs wait for the test or for a time, and everything that can be recorded is recorded. */
  idle(): Promise<void>;
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
export const ALL_KINDS: readonly Kind[] = chooseStores([MEMORY, SQLITE_MEMORY, SQLITE_FILE, POSTGRES]);

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
  const url = await borrowMigratedUrl();
  return storesAt(url, () => returnMigratedUrl(url));
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
  let lab: (Lab & { teardown(): Promise<void> }) | undefined;
  const current = (): Lab => {
    if (!lab) throw new Error("There is no test under way.");
    return lab;
  };
  beforeEach(async () => {
    lab = await createLab(kind);
  });
  afterEach(() => lab?.teardown());
  return {
    open: async (options) => current().open(options),
    now: () => current().now(),
    advance: (milliseconds) => current().advance(milliseconds),
    crash: () => current().crash(),
    idle: () => current().idle(),
    store: () => current().store(),
  };
}

/** Fresh data and a clock for one test, so that tests of a file can run at the same time. */
export async function openLab({ onTestFinished }: TestContext, kind = MEMORY): Promise<Lab> {
  const lab = await createLab(kind);
  onTestFinished(() => lab.teardown());
  return lab;
}

async function createLab(kind: Kind): Promise<Lab & { teardown(): Promise<void> }> {
  let time = Date.parse("2026-01-01T00:00:00Z");
  const now = (): number => time;
  const activity = new StoreActivity();
  const place = await kind.setup();
  let store: Store | undefined;
  return {
    async open(options = {}) {
      store = activity.watch(await place.openStore(now));
      // Runs that outlive the test find their store closed: nothing handles that error. Errors and retries are not printed.
      const { on, ...rest } = options;
      const ignore = (): void => {};
      const listeners = { backgroundFailure: ignore, run: ignore, runError: ignore, ...on };
      return Savepoint.open(store, { now, on: listeners, ...rest });
    },
    now,
    advance: (milliseconds) => void (time += milliseconds),
    crash: () => void (time += LEASE + 1),
    idle: () => activity.idle(),
    store() {
      if (!store) throw new Error("Nothing was opened yet.");
      return store;
    },
    // Stores are closed, but Savepoints are not: closing them would wait for hung effects.
    teardown: () => place.teardown(),
  };
}

/** The outside world: logs each action, and hangs in the actions that a test chooses. */
export class World {
  readonly log: string[] = [];
  #hangs: { name: string; reached: () => void } | undefined;

  /** The next execution of this action never ends. Resolves when it is reached. */
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

  /** Resolves when the action was executed that many times. */
  async reached(name: string, times = 1): Promise<void> {
    await until(
      () => this.count(name) >= times,
      () => `${JSON.stringify(name)} to be done ${times} time(s): done were ${JSON.stringify(this.log)}`,
    );
  }

  /** How often the action was executed. */
  count(name: string): number {
    return this.log.filter((entry) => entry === name).length;
  }
}

/** An error after which a step is tried again, although no effect has thrown it. */
export function transient(message: string): Error {
  return Object.assign(new Error(message), { transient: true });
}

export interface Notes {
  notes: unknown[];
}

/** An agent of one step that completes with the value that the step returns. */
export function once<Output>(step: (run: Run<Notes>) => Promise<Output>, attempts = 1) {
  return defineAgent({
    name: "once",
    initial: (_input: string): Notes => ({ notes: [] }),
    retry: { attempts, delay: 1 },
    step: async (run) => run.complete(await step(run)),
  });
}

/** Runs an agent until the world hangs in the given action, and lets the lease expire. */
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
  await lab.idle();
  lab.crash();
}

/** Waits until a session has a status. */
export async function untilStatus(sp: Savepoint, status: SessionInfo["status"], session = "s"): Promise<void> {
  const standing = async (): Promise<string | undefined> => (await sp.sessions.load(session))?.status;
  await until(async () => (await standing()) === status, `session ${JSON.stringify(session)} to be ${status}`);
}

/** Returns whether work has settled. */
export function watchEnd(work: Promise<unknown>): { readonly isOver: boolean } {
  const end = { isOver: false };
  const over = (): void => void (end.isOver = true);
  work.then(over, over);
  return end;
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

/** A store on the same data whose reads or commits first wait for an action of the test. */
export function intercept(
  store: Store,
  before: { get?: (keys: readonly string[]) => Promise<void>; commit?: (commit: Commit) => Promise<void> },
): Store {
  return new Proxy(store, {
    get(target, name) {
      if (name === "get" && before.get) {
        return async (keys: readonly string[]) => {
          await before.get?.(keys);
          return target.get(keys);
        };
      }
      if (name === "commit" && before.commit) {
        return async (commit: Commit) => {
          await before.commit?.(commit);
          return target.commit(commit);
        };
      }
      const value: unknown = Reflect.get(target, name, target);
      return typeof value === "function" ? (value.bind(target) as unknown) : value;
    },
  });
}
