/** The way in: a store, opened. */
import { isSavepointError, SavepointError } from "./errors.js";
import { AgentCheckpoints, AgentRestorer } from "./agents/index.js";
import {
  Agents,
  AutoCheckpoints,
  Checkpoints,
  Conversations,
  readStats,
  RetentionPolicies,
  Session,
  type SessionHost,
  Sessions,
  type Stats,
} from "./api/index.js";
import {
  AutoBackups,
  backup,
  type BackupOptions,
  type BackupResult,
  type Bundle,
  type BundleSource,
  exportBundle,
  type ExportOptions,
  type ExportTarget,
  importBundle,
  type ImportOptions,
  type ImportResult,
} from "./bundle/index.js";
import { collectGarbage, type CollectOptions, type CollectReport } from "./gc/index.js";
import type { Context } from "./context.js";
import { ConversationWriter } from "./conversations/index.js";
import {
  type AgentMigrations,
  Cursors,
  Migrations,
  NumberSource,
  type SessionOptions,
  SessionReader,
} from "./sessions/index.js";
import {
  type EventName,
  Events,
  type LastShutdown,
  type Listener,
  type Listeners,
  ProcessRegistration,
} from "./events/index.js";
import { createListing, type Duration, type Listing, thisProcess, toMilliseconds } from "./util/index.js";
import { type BackgroundFailure, findStore, openTarget, type OpenTarget, type StoreOptions } from "./store/index.js";
import { checkId, createIdSource } from "./records/index.js";
import {
  type Agent,
  checkAgent,
  type EnqueueOptions,
  forkWithResults,
  type JournalEntry,
  type OpenRun,
  type OpenRunOptions,
  readJournal,
  readLastShutdown,
  type RecoverOptions,
  type StoreAddress,
  type RunHandle,
  type RunOptions,
  type RunResult,
  Runs,
  parseAgents,
  parseBranchName,
  parseWorkerOptions,
  type WatchEvent,
  type WatchOptions,
  watchSession,
  Worker,
  type WorkerOptions,
} from "./runs/index.js";
import { PolicyCache, SweepSchedules } from "./policies/index.js";
import { prune, type PruneOptions, type PruneResult, type PruneTarget } from "./retention/index.js";
import { Search, type SearchHit, type SearchOptions } from "./search/index.js";
import {
  repair,
  type RepairOptions,
  type RepairReport,
  verify,
  type VerifyOptions,
  type VerifyReport,
} from "./verify/index.js";
import { type AnyStoredClass, ClassRegistry } from "./state/index.js";

/** How a store is opened. */
export interface OpenOptions extends StoreOptions {
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
  /**
   * How long a run of this process is left alone after its last sign of life. Shorter means that others take over sooner
   * what a dead machine left; on the same machine a dead process is noticed at once.
   * @default "30s"
   */
  readonly lease?: Duration;
  /**
   * Migrations of agents, by their ids: functions that bring states of earlier versions up to date when they are loaded.
   */
  readonly migrations?: Readonly<Record<string, AgentMigrations>>;
}

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
  /** The agents of the store: who acts, and their own durable states. */
  readonly agents: Agents;
  /** The conversations of the store, and searching them. */
  readonly conversations: Conversations;
  /** All checkpoints: those of whole agents, and those of sessions. */
  readonly checkpoints: Checkpoints;
  /** Checkpoints that are taken by themselves. */
  readonly autoCheckpoints: AutoCheckpoints;
  /** Backups that are taken by themselves. */
  readonly backups: AutoBackups;
  /**
   * How the store was left before it was opened: whether a process died with it, and what that interrupted. Each crash is
   * told once; opening with `create: false` reports it and leaves it for the next process to report.
   */
  readonly lastShutdown: LastShutdown;
  /** What is kept of all that is saved, in the store and for every process. */
  readonly retention: RetentionPolicies;
  readonly #context: Context;
  readonly #note: ProcessRegistration | undefined;
  readonly #host: SessionHost;
  readonly #cursors: Cursors;
  readonly #lease: number;
  readonly #reopening: StoreAddress | undefined;
  readonly #runs: Runs;
  readonly #workers = new Set<Worker>();
  readonly #search: Search;
  readonly #ownsStore: boolean;
  readonly #generations = new Map<string, number>();
  #closing: Promise<void> | undefined;

  private constructor(context: Context, options: TakenOpenOptions) {
    const numbers = new NumberSource(context.store);
    const cursors = new Cursors(numbers, options.cacheBytes);
    const { migrations } = options;
    this.#context = context;
    this.#ownsStore = options.ownsStore;
    this.#note = options.note;
    this.lastShutdown = options.lastShutdown;
    this.#cursors = cursors;
    this.#lease = options.lease;
    this.#reopening = options.reopening;
    this.#runs = new Runs(context, cursors, options.lease, options.reopening);
    this.#host = {
      cursors,
      migrations,
      generation: (sessionId) => this.#generations.get(sessionId) ?? 0,
      checkOpen: () => void this.#open(),
      release: (reader, branch) => this.#runs.release(reader, branch),
      forkWithResults,
    };
    const open = (): Context => this.#open();
    const forget = (sessionId: string): void => {
      context.policies.invalidate();
      this.#generations.set(sessionId, this.#host.generation(sessionId) + 1);
      cursors.invalidateSession(sessionId);
    };
    const reset = (sessionId: string): void => cursors.invalidateSession(sessionId);
    const writer = new ConversationWriter(context, numbers);
    const agents = new AgentCheckpoints(context, cursors, migrations);
    this.#search = new Search(context);
    this.backups = new AutoBackups(context, (options) => this.backup(options));
    this.sessions = new Sessions(open, forget);
    this.checkpoints = new Checkpoints({
      open,
      agents,
      restore: (agent) => new AgentRestorer(agents.repository(agent), cursors, numbers),
      session: (id, branch) => this.session(id, { branch }),
      resetCursors: reset,
    });
    this.autoCheckpoints = new AutoCheckpoints({
      open,
      events: context.events,
      numbers,
      agents,
      checkpoints: this.checkpoints,
      session: (id, branch) => this.session(id, { branch }),
      resetCursors: reset,
    });
    this.retention = new RetentionPolicies({ open, resetCursors: reset });
    this.agents = new Agents({
      open,
      cursors,
      migrations,
      beforeMigration: (agent) => this.autoCheckpoints.beforeOperation(agent, "migrate"),
      forget: (sessions) => {
        for (const sessionId of sessions) forget(sessionId);
        writer.forget();
      },
    });
    this.conversations = new Conversations({
      open,
      writer,
      search: this.#search,
      checkpoints: agents,
      beforeDelete: (agent) => this.autoCheckpoints.beforeOperation(agent, "delete"),
    });
  }

  /**
   * Opens a store: `"sqlite:./agents.db"`, `"sqlite::memory:"` or `"memory:"`; without a URL the one in `SAVEPOINT_URL`,
   * or the nearest `.savepoint` folder upwards, which is made in the working folder if there is none.
   */
  static async open(target: OpenTarget = findStore(), options: OpenOptions = {}): Promise<Savepoint> {
    const { classes, on, cacheBytes = 128 * 2 ** 20, newId, lease = 30_000, migrations, ...storeOptions } = options;
    const leaseTime = toMilliseconds(lease, "lease");
    if (leaseTime < 100)
      throw new SavepointError("INVALID_ARGUMENT", `A lease of ${leaseTime} ms is too short to be renewed.`);
    const registry = new ClassRegistry(classes);
    const declared = new Migrations(migrations);
    const events = new Events(on);
    const report = (failure: BackgroundFailure): void => events.emit("backgroundFailure", failure);
    const onDamage = (reason: string): void =>
      events.emit("damage", { sessionId: undefined, checkpointId: undefined, seq: undefined, reason });
    const opened = await openTarget(target, { onBackgroundFailure: report, onDamage, ...storeOptions });
    const note = opened.capabilities.durable ? new ProcessRegistration(opened) : undefined;
    const store = note?.store ?? opened;
    const now = options.now ?? Date.now;
    const policies = new PolicyCache(store, events, now);
    const sweeps = new SweepSchedules();
    const context = { store, registry, events, policies, sweeps, now, newId: newId ?? createIdSource(now) };
    const lastShutdown = await readLastShutdown({ ...context, store: opened }, options.create === false).catch(
      async (error: unknown) => {
        // An error of closing follows from the first error, and must not replace it.
        if (opened !== target) await opened.close().catch(() => {});
        throw error;
      },
    );
    if (!lastShutdown.clean) events.emit("uncleanShutdown", lastShutdown);
    // Another thread can open the same store, and knows the same time.
    const shared = typeof target === "string" && store.capabilities.shared && options.now === undefined;
    const { schema } = storeOptions;
    const threadOptions = { connections: 1, ...(schema !== undefined && { schema }) };
    const reopening = shared ? { url: target, options: threadOptions } : undefined;
    return new Savepoint(context, {
      cacheBytes,
      lease: leaseTime,
      reopening,
      ownsStore: opened !== target,
      migrations: declared,
      note,
      lastShutdown,
    });
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

  /**
   * Runs an agent on a session, and resolves when the work is over or waits.
   *
   * A new session is begun with the input. One that was interrupted goes on where it was. One that this process runs
   * already is joined. A completed one returns what it returned; if the agent has `receive`, the input is its next turn.
   */
  async run<Input, State, Output>(
    agent: Agent<Input, State, Output>,
    options: RunOptions<NoInfer<Input>>,
  ): Promise<RunResult<State, Output>> {
    this.#open();
    return (await this.#runs.run(agent as Agent, options)) as RunResult<State, Output>;
  }

  /** The same, and resolves as soon as the work has begun. */
  async start<Input, State, Output>(
    agent: Agent<Input, State, Output>,
    options: RunOptions<NoInfer<Input>>,
  ): Promise<RunHandle<State, Output>> {
    this.#open();
    return (await this.#runs.start(agent as Agent, options)) as RunHandle<State, Output>;
  }

  /**
   * Opens a turn of a session for a loop that is not Savepoint's to call, such as that of an SDK: what it asks models and
   * tools through the run is recorded, and given again when the turn is gone on with. Everything up to `complete()` or
   * `fail()` is one turn.
   *
   * @example
   * const run = await sp.openRun({ session: "chat-1", turn: "message-7", initial: () => ({ messages: [] }) });
   * const reply = await run.llm(() => model(run.state.messages));
   * await run.complete(reply);
   */
  async openRun<State>(options: OpenRunOptions<State>): Promise<OpenRun<State>> {
    this.#open();
    return (await this.#runs.open(options)) as OpenRun<State>;
  }

  /**
   * Goes on with whatever of these agents was interrupted, has been told what it asked, is to be woken, or has an input
   * left for it. Any number of processes may do so at once: each run is gone on with by one of them.
   */
  async recover<State, Output>(
    agents: readonly Agent<never, State, Output>[],
    options: RecoverOptions = {},
  ): Promise<RunHandle<State, Output>[]> {
    this.#open();
    return (await this.#runs.recover(agents, options)) as RunHandle<State, Output>[];
  }

  /**
   * Leaves a session for whoever has time for it: a {@link worker} of this process or another. The same session is left
   * once, however often it is asked for.
   *
   * @param agent the agent, or its name where its code lives elsewhere
   * @returns whether it was left now: `false` where the session is there already
   */
  async enqueue<Input, State, Output>(
    agent: Agent<Input, State, Output> | string,
    options: EnqueueOptions<NoInfer<Input>>,
  ): Promise<boolean> {
    this.#open();
    const name = typeof agent === "string" ? agent : checkAgent(agent as Agent).name;
    return this.#runs.enqueue(name, options);
  }

  /**
   * A worker: goes on with whatever sessions of these agents are queued, have come due, have been told what they asked, or
   * were left by a process that is gone. Nothing happens before it is started.
   *
   * @example
   * const worker = sp.worker([shop], { concurrency: 20 });
   * await worker.start();
   */
  worker<State, Output>(agents: readonly Agent<never, State, Output>[], options: WorkerOptions = {}): Worker {
    const context = this.#open();
    const byName = new Map(parseAgents(agents, "sp.worker").map((agent) => [agent.name, agent]));
    const { host, pid } = thisProcess();
    const poll = context.store.listen ? 1000 : 200;
    const taken = parseWorkerOptions(options, { lease: this.#lease, name: `${host}:${pid}`, poll });
    const runs = new Runs(context, this.#cursors, taken.lease, this.#reopening, (event) => worker.emit(event));
    const worker = new Worker(
      { context, runs, close: () => this.close(), stopped: (one) => this.#workers.delete(one) },
      byName,
      taken,
    );
    this.#workers.add(worker);
    return worker;
  }

  /**
   * Queues an input for a session. The process that runs or recovers the session takes it after those that were queued before
   * it; if the session was enqueued and has not started, after the enqueued input.
   *
   * @param options.key the same input under the same key is left once
   * @returns whether it was left, and not before
   */
  async send(
    session: string,
    input: unknown,
    options: { readonly key?: string; readonly branch?: string } = {},
  ): Promise<boolean> {
    this.#open();
    return this.#runs.send(session, input, options);
  }

  /**
   * Answers what a session waits to be told. Nothing is run: whoever runs or recovers it next goes on with the answer.
   *
   * @param options.question which one, by its id, where it asks several things; the first, if it is not said
   */
  async answer(
    session: string,
    value: unknown,
    options: { readonly question?: string; readonly branch?: string } = {},
  ): Promise<void> {
    this.#open();
    await this.#runs.answer(session, value, options);
  }

  /**
   * Stops the work on a session, whoever does it: it is halted with this reason.
   *
   * @returns whether there was anything to stop
   */
  async cancel(session: string, reason?: string, options: { readonly branch?: string } = {}): Promise<boolean> {
    this.#open();
    return this.#runs.cancel(session, reason, options);
  }

  /** How a session stands, then whatever changes, whoever runs it. Ends when the work is over. */
  watch(session: string, options: WatchOptions = {}): AsyncGenerator<WatchEvent> {
    const reader = new SessionReader(this.#open(), checkId(session, "session id"));
    return watchSession(reader, options, () => void this.#open());
  }

  /**
   * What a session has recorded in the step that it is in: its effects in the order in which they began, with what they
   * returned, and those of which nobody knows whether they happened. Empty between steps: then the state has it all.
   */
  journal(session: string, options: { readonly branch?: string } = {}): Listing<JournalEntry> {
    const reader = new SessionReader(this.#open(), checkId(session, "session id"));
    return createListing(() => readJournal(reader, parseBranchName(options.branch)));
  }

  /**
   * Finds what was said in conversations, and in the newest states of sessions whose messages are recognised: any part of
   * a text, in any case, taken literally. One hit per conversation or session, the best first.
   */
  async search(text: string, options: SearchOptions = {}): Promise<SearchHit[]> {
    this.#open();
    return this.#search.all(text, options);
  }

  /** How much there is in the store, or of one agent. Reads no states. */
  async stats(options: { readonly agent?: string } = {}): Promise<Stats> {
    const context = this.#open();
    return readStats(context, options.agent === undefined ? undefined : checkId(options.agent, "agent id"));
  }

  /**
   * Removes checkpoints that nobody wants to keep: of a session, of an agent with its sessions, or of the whole store.
   * Heads, pinned ones, and those that a branch or a step starts from always stay. Reads no states.
   *
   * @example
   * await sp.prune({ session: "s", keepLast: 20, keepDaily: 7 });
   * await sp.prune({ expired: true });
   */
  async prune(options: PruneTarget & PruneOptions): Promise<PruneResult> {
    const context = this.#open();
    const { session, agent, ...kept } = options;
    if (agent !== undefined && !kept.dryRun) await this.autoCheckpoints.beforeOperation(agent, "prune");
    const target = { ...(session !== undefined && { session }), ...(agent !== undefined && { agent }) };
    return prune(context, target, kept, (sessionId) => this.#host.cursors.invalidateSession(sessionId));
  }

  /**
   * Exports a checkpoint, a session, an agent with its conversations and sessions, or everything, as one stream with
   * checksums that any other store can import. It may be saved meanwhile.
   *
   * @example
   * await sp.export({ session: "order-88" }).save("order-88.savepoint");
   * const bytes = await sp.export({}).bytes();
   */
  export(target: ExportTarget = {}, options: ExportOptions = {}): Bundle {
    return exportBundle(this.#open(), target, options);
  }

  /**
   * Takes in what was exported, from any store: ids, parents and branches stay what they are. A bundle that was changed is
   * `DAMAGED`, and nothing of the section that was changed is taken. An import that was interrupted goes on when the same
   * bundle is given again.
   */
  async import(source: BundleSource, options: ImportOptions = {}): Promise<ImportResult> {
    return importBundle(this.#open(), source, options);
  }

  /**
   * Looks whether everything that was saved is there, and whole; of the whole store, or of a part of it, or a bundle.
   * Nothing is changed. It may be saved meanwhile.
   *
   * @example
   * const { ok, problems } = await sp.verify({ deep: true });
   */
  async verify(options: VerifyOptions = {}): Promise<VerifyReport> {
    return verify(this.#open(), options);
  }

  /**
   * Brings back what is damaged: from backups and bundles, and from what follows from the rest. What can be read is never
   * touched; what cannot be brought back is named in the report.
   *
   * @example
   * const { ok, healed, holes } = await sp.repair({ from: "./backups" });
   */
  async repair(options: RepairOptions = {}): Promise<RepairReport> {
    const report = await repair(this.#open(), options);
    if (!report.dryRun && report.healed.length > 0) this.#host.cursors.invalidateAll();
    return report;
  }

  /**
   * Writes everything to a file in a folder, reads it back, and removes the oldest such files beyond `keep`. It may be
   * saved meanwhile. `sp.repair({ from: folder })` heals from it; `sp.import(path)` brings all of it to another store.
   */
  async backup(options: BackupOptions): Promise<BackupResult> {
    return backup(this.#open(), options);
  }

  /** Frees what no checkpoint reaches any more, packs the rest and gives the space back. Safe while others save. */
  async compact(options: CollectOptions = {}): Promise<CollectReport> {
    const context = this.#open();
    const report = await collectGarbage(context, { ...options, repack: true });
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

  /**
   * Waits for what is being saved and closes the store. Anything after it is `CLOSED`. What runs here starts nothing any
   * more and gets a moment to record what is under way; others can go on with it at once.
   */
  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    await this.autoCheckpoints.stop();
    await this.backups.stop();
    await Promise.all([...this.#workers].map((worker) => worker.stop({ grace: 0 })));
    await this.#runs.close();
    await this.#host.cursors.idle();
    // Should that fail, the next one to open the store is told that this one did not close it, which is true.
    await this.#note?.remove().catch((error: unknown) => {
      if (!isSavepointError(error, "CLOSED"))
        this.#context.events.emit("backgroundFailure", {
          message: "it could not be noted that the store was closed",
          error,
        });
    });
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

interface TakenOpenOptions {
  readonly cacheBytes: number;
  readonly lease: number;
  /** How another thread can open the store, if it can. */
  readonly reopening: StoreAddress | undefined;
  readonly ownsStore: boolean;
  readonly migrations: Migrations;
  /** That this process has the store open, where that is worth knowing. */
  readonly note: ProcessRegistration | undefined;
  readonly lastShutdown: LastShutdown;
}
