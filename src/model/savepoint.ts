/** The way in: a store, opened. */
import { SavepointError } from "../errors.js";
import { type AnyStoredClass, ClassRegistry } from "../state/registry.js";
import { openStore } from "../store/open.js";
import type { SqliteDatabase } from "../store/sqlite/driver.js";
import type { BackgroundFailure, SqliteOptions } from "../store/sqlite/options.js";
import type { Store } from "../store/store.js";
import { collectGarbage, type CollectReport } from "./collect.js";
import type { Context } from "./context.js";
import { Cursors } from "./cursors.js";
import { type EventName, Events, type Listener, type Listeners } from "./events.js";
import { findStore } from "./find-store.js";
import { checkId, createIdSource } from "./ids.js";
import { NumberSource } from "./numbers.js";
import { Session, type SessionHost } from "./session.js";
import type { SessionOptions } from "./session-options.js";
import { SessionReader } from "./session-reader.js";
import { Sessions } from "./sessions.js";

/** How a store is opened. */
export interface OpenOptions extends SqliteOptions {
  /** Classes whose instances may be in states, beside those that Savepoint knows. */
  readonly classes?: readonly AnyStoredClass[];
  /** Listeners that are there from the start, so that nothing is missed. */
  readonly on?: Listeners;
  /**
   * Memory for copies of the states of open sessions, in bytes. A session beyond it is read again when it is next saved.
   * @default 134217728 (128 MB)
   */
  readonly cacheBytes?: number;
  /**
   * Makes ids.
   * @default UUIDv7
   */
  readonly newId?: () => string;
}

/** What can be opened: a URL, a store, or a SQLite handle of the caller's own. */
export type OpenTarget = string | Store | SqliteDatabase;

/**
 * An open store.
 *
 * @example
 * const sp = await Savepoint.open("sqlite:./agents.db");
 * const session = sp.session("support-42", { agent: "support" });
 * await session.save({ messages: [{ role: "user", content: "Hello" }] });
 * const { state } = await session.latest();
 * await sp.close();
 */
export class Savepoint implements AsyncDisposable {
  /** The sessions of the store. */
  readonly sessions: Sessions;
  readonly #context: Context;
  readonly #host: SessionHost;
  readonly #ownsStore: boolean;
  readonly #generations = new Map<string, number>();
  #closing: Promise<void> | undefined;

  private constructor(context: Context, cacheBytes: number, ownsStore: boolean) {
    const cursors = new Cursors(new NumberSource(context.store), cacheBytes);
    this.#context = context;
    this.#ownsStore = ownsStore;
    this.#host = {
      cursors,
      generation: (sessionId) => this.#generations.get(sessionId) ?? 0,
      checkOpen: () => void this.#open(),
    };
    this.sessions = new Sessions(
      () => this.#open(),
      (sessionId) => {
        this.#generations.set(sessionId, this.#host.generation(sessionId) + 1);
        cursors.resetSession(sessionId);
      },
    );
  }

  /**
   * Opens a store: `"sqlite:./agents.db"`, `"sqlite::memory:"` or `"memory:"`; without a URL the one in `SAVEPOINT_URL`,
   * or the nearest `.savepoint` folder upwards, which is made in the working folder if there is none.
   */
  static async open(target: OpenTarget = findStore(), options: OpenOptions = {}): Promise<Savepoint> {
    const { classes, on, cacheBytes = 128 * 2 ** 20, newId, ...storeOptions } = options;
    const registry = new ClassRegistry(classes);
    const events = new Events(on);
    const report = (failure: BackgroundFailure): void => events.emit("backgroundFailure", failure);
    const store = await toStore(target, { onBackgroundFailure: report, ...storeOptions });
    const now = options.now ?? Date.now;
    const context = { store, registry, events, now, newId: newId ?? createIdSource(now) };
    return new Savepoint(context, cacheBytes, store !== target);
  }

  /** Where the store is. */
  get url(): string {
    return this.#context.store.url;
  }

  /** A handle on a session. Nothing is read or written yet. */
  session<State = unknown>(id: string, options: SessionOptions = {}): Session<State> {
    const context = this.#open();
    checkId(id, "session id");
    if (options.agent !== undefined) checkId(options.agent, "agent id");
    if (options.branch !== undefined) checkId(options.branch, "branch name");
    return new Session<State>(this.#host, new SessionReader(context, id), options);
  }

  /** Frees what no checkpoint reaches any more, packs the rest and gives the space back. Safe while others save. */
  async compact(): Promise<CollectReport> {
    const context = this.#open();
    const report = await collectGarbage(context, { repack: true });
    await context.store.compact();
    return report;
  }

  /** Bytes that the store takes where it lives. */
  async bytes(): Promise<number> {
    return this.#open().store.bytes();
  }

  /** Listens to an event. Returns the function that takes the listener off again. */
  on<Name extends EventName>(name: Name, listener: Listener<Name>): () => void {
    return this.#context.events.on(name, listener);
  }

  /** Waits for what is being saved and closes the store. Anything after it is `CLOSED`. */
  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    await this.#host.cursors.idle();
    if (this.#ownsStore) await this.#context.store.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  #open(): Context {
    if (!this.#closing) return this.#context;
    throw new SavepointError("CLOSED", `This Savepoint on ${this.url} is closed. Open it again with Savepoint.open().`);
  }
}

async function toStore(target: OpenTarget, options: SqliteOptions): Promise<Store> {
  if (typeof target === "string") return openStore(target, options);
  const given: unknown = target;
  if (typeof given !== "object" || given === null) throw notAStore();
  if ("commit" in target) return target;
  if ("prepare" in target) {
    const { openSqliteStore } = await import("../store/sqlite/store.js");
    return openSqliteStore(target, options);
  }
  throw notAStore();
}

function notAStore(): SavepointError {
  return new SavepointError("INVALID_ARGUMENT", "Savepoint.open() takes a URL, a store, or a SQLite database handle.");
}
