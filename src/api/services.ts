/** The open store and the process-wide state around it, shared by all objects of the public API. */
import { isSavepointError, SavepointError } from "../errors.js";
import { AgentCheckpoints } from "../agents/index.js";
import type { Context } from "../context.js";
import { ConversationWriter } from "../conversations/index.js";
import type { Encryption } from "../encryption/index.js";
import type { ProcessRegistration } from "../events/index.js";
import { LiveRuns, type RunObserver, Runs, type StoreAddress, StreamHub } from "../runs/index.js";
import { Search } from "../search/index.js";
import { Cursors, type Migrations, NumberSource } from "../sessions/index.js";
import type { Scope } from "./scope/scope.js";

/** What {@link Services} are built from. */
export interface ServiceSettings {
  /** Budget of the state cache, in bytes. */
  readonly cacheBytes: number;
  /** Lease time of runs, in milliseconds. */
  readonly lease: number;
  /** How the heartbeat thread opens the same store; `undefined` if it cannot. */
  readonly storeAddress: StoreAddress | undefined;
  readonly migrations: Migrations;
  readonly scope: Scope;
  /** Records that this process has the store open; `undefined` for stores that do not survive the process. */
  readonly registration: ProcessRegistration | undefined;
  readonly encryption: Encryption;
  /** Whether closing also closes the store; `false` for a store that the caller opened. */
  readonly ownsStore: boolean;
}

/** One instance per `Savepoint`. Everything below is shared by its sessions, agents, conversations and runs. */
export class Services {
  readonly cursors: Cursors;
  readonly numbers: NumberSource;
  readonly runs: Runs;
  readonly search: Search;
  readonly migrations: Migrations;
  readonly agentCheckpoints: AgentCheckpoints;
  readonly conversationWriter: ConversationWriter;
  readonly lease: number;
  readonly scope: Scope;
  readonly #context: Context;
  readonly #settings: ServiceSettings;
  /** How often this process has deleted each session: handles from before a deletion are rejected. */
  readonly #deletions = new Map<string, number>();
  /** The runs of this process: its own and those of its workers. */
  readonly #live: LiveRuns[] = [];
  #isClosed = false;

  constructor(context: Context, settings: ServiceSettings) {
    const { cacheBytes, lease, migrations, scope } = settings;
    this.#context = context;
    this.#settings = settings;
    this.lease = lease;
    this.migrations = migrations;
    this.scope = scope;
    this.numbers = new NumberSource(context.store);
    this.cursors = new Cursors(this.numbers, cacheBytes);
    this.runs = this.createRuns(lease);
    if (settings.registration) settings.registration.isIdle = () => this.#live.every(({ size }) => size === 0);
    this.search = new Search(context);
    this.agentCheckpoints = new AgentCheckpoints(context, this.cursors, migrations);
    this.conversationWriter = new ConversationWriter(context, this.numbers);
  }

  /** The store and what belongs to it, for one call. @throws CLOSED */
  open(): Context {
    if (!this.#isClosed) return this.#context;
    const { url } = this.#context.store;
    throw new SavepointError("CLOSED", `This Savepoint on ${url} is closed. Open it again with Savepoint.open().`);
  }

  /** The same without the check, for what works on a closed store too: its URL and its events. */
  get context(): Context {
    return this.#context;
  }

  /** The runs of this process, for one call. @throws CLOSED */
  openRuns(): Runs {
    this.open();
    return this.runs;
  }

  /** Runs with a lease of their own, such as those of a worker. */
  createRuns(lease: number, observer?: RunObserver): Runs {
    const live = new LiveRuns(this.#context, this.cursors, lease, this.#settings.storeAddress, observer);
    this.#live.push(live);
    return new Runs(live);
  }

  /** Rises whenever this process deletes the session. */
  deletionsOf(sessionId: string): number {
    return this.#deletions.get(sessionId) ?? 0;
  }

  /** Invalidates the caches and handles of a session that was just deleted. */
  forgetSession(sessionId: string): void {
    this.#context.policies.invalidate();
    this.#deletions.set(sessionId, this.deletionsOf(sessionId) + 1);
    this.cursors.invalidateSession(sessionId);
  }

  get encryption(): Encryption {
    return this.#settings.encryption;
  }

  /** The key under which this process is registered in the store; `undefined` if it is not. */
  get registrationKey(): string | undefined {
    return this.#settings.registration?.key;
  }

  /** Whether a run of this process is in progress. */
  get hasRuns(): boolean {
    return this.#live.some(({ size }) => size > 0);
  }

  /** Clears all caches, because the store was changed by an operation that does not update them. */
  forgetAll(): void {
    this.#context.policies.invalidate();
    this.cursors.invalidateAll();
    this.conversationWriter.forget();
  }

  /** From now on every call fails with `CLOSED`. */
  refuseCalls(): void {
    this.#isClosed = true;
  }

  /** Stops the runs, waits for saves in progress, and closes the store if it is ours. */
  async close(): Promise<void> {
    const { registration, ownsStore } = this.#settings;
    await this.runs.live.close();
    await this.cursors.idle();
    await StreamHub.of(this.#context).close();
    // If the note stays, the next process that opens the store reports an unclean shutdown, which is true.
    await registration?.remove().catch((error: unknown) => {
      if (isSavepointError(error, "CLOSED")) return;
      const message = "the clean shutdown could not be recorded";
      this.#context.events.emit("backgroundFailure", { message, error });
    });
    if (ownsStore) await this.#context.store.close();
  }
}
