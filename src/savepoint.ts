/** `Savepoint`: an open store, as applications see it. */
import {
  Agents,
  AutoCheckpoints,
  Checkpoints,
  Conversations,
  openServices,
  type OpenOptions,
  readStats,
  RetentionPolicies,
  type Services,
  Session,
  Sessions,
  type Stats,
} from "./api/index.js";
import * as bundles from "./bundle/index.js";
import { collectGarbage, type CollectOptions, type CollectReport } from "./gc/index.js";
import type { EventName, LastShutdown, Listener } from "./events/index.js";
import * as runs from "./runs/index.js";
import { checkId } from "./records/index.js";
import { prune, type PruneOptions, type PruneResult, type PruneTarget } from "./retention/index.js";
import type { SearchHit, SearchOptions } from "./search/index.js";
import { type SessionOptions, SessionReader } from "./sessions/index.js";
import { findStore, type OpenTarget } from "./store/index.js";
import { createListing, type Listing, thisProcess } from "./util/index.js";
import * as verification from "./verify/index.js";

/** The branch of a session; `main` if it is not given. */
interface BranchOption {
  /** @default "main" */
  readonly branch?: string;
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
  /** Lists, loads and deletes sessions. {@link session} opens one. */
  readonly sessions: Sessions;
  /** Agents and their own durable states. */
  readonly agents: Agents;
  /** Conversations of agents. */
  readonly conversations: Conversations;
  /** Checkpoints of whole agents and of sessions, by id. */
  readonly checkpoints: Checkpoints;
  /** Checkpoints that are saved automatically, at intervals and before destructive operations. */
  readonly autoCheckpoints: AutoCheckpoints;
  /** Retention policies: which checkpoints are kept. They are stored, and every process enforces them. */
  readonly retention: RetentionPolicies;
  /** Backups that are written automatically, at intervals. {@link backup} writes one now. */
  readonly backups: bundles.AutoBackups;
  /**
   * How the store was last closed: whether a process crashed while it had the store open, and which runs that interrupted.
   * Each crash is reported once; opening with `create: false` reports it without marking it as reported.
   */
  readonly lastShutdown: LastShutdown;
  readonly #services: Services;
  readonly #workers = new Set<runs.Worker>();
  #closing: Promise<void> | undefined;

  private constructor(services: Services, lastShutdown: LastShutdown) {
    this.#services = services;
    this.lastShutdown = lastShutdown;
    this.sessions = new Sessions(services);
    this.checkpoints = new Checkpoints(services);
    this.autoCheckpoints = new AutoCheckpoints(services, this.checkpoints);
    this.retention = new RetentionPolicies(services);
    this.agents = new Agents(services, this.autoCheckpoints);
    this.conversations = new Conversations(services, this.autoCheckpoints);
    this.backups = new bundles.AutoBackups(services.context, (options) => this.backup(options));
  }

  /**
   * Opens a store, and creates it if it does not exist.
   *
   * @param target `"sqlite:./agents.db"`, `"file:./folder"`, `"postgres://…"` or `"memory:"`; or a store, a SQLite database
   *   handle or a `pg` pool that the caller opened and closes. Default: the URL in `SAVEPOINT_URL`, else the nearest
   *   `.savepoint` folder upwards, else a new one in the working directory.
   */
  static async open(target: OpenTarget = findStore(), options: OpenOptions = {}): Promise<Savepoint> {
    const { services, lastShutdown } = await openServices(target, options);
    return new Savepoint(services, lastShutdown);
  }

  /** The URL of the store, without a password. */
  get url(): string {
    return this.#services.context.store.url;
  }

  /** A handle on a session, which need not exist yet. Reads and writes nothing. */
  session<State = unknown>(id: string, options: SessionOptions = {}): Session<State> {
    const context = this.#services.open();
    checkId(id, "session id");
    if (options.agent !== undefined) checkId(options.agent, "agent id");
    if (options.branch !== undefined) checkId(options.branch, "branch name");
    return new Session<State>(this.#services, new SessionReader(context, id), options);
  }

  /**
   * Runs an agent on a session and resolves when the run completes, fails, halts or waits.
   *
   * A new session starts with the input. An interrupted run resumes where it stopped, without repeating recorded effects. A
   * run that this process already executes is joined. A completed session returns its result again; if the agent has
   * `receive`, the input starts its next turn.
   *
   * @throws `ALREADY_RUNNING` while another process runs the session
   * @example
   * const { status, output } = await sp.run(support, { session: "ticket-7", input: "Where is my order?" });
   */
  async run<Input, State, Output>(
    agent: runs.Agent<Input, State, Output>,
    options: runs.RunOptions<NoInfer<Input>>,
  ): Promise<runs.RunResult<State, Output>> {
    this.#services.open();
    return (await this.#services.runs.run(agent as runs.Agent, options)) as runs.RunResult<State, Output>;
  }

  /** Like {@link run}, but resolves as soon as the run has started; the handle has its result and its events. */
  async start<Input, State, Output>(
    agent: runs.Agent<Input, State, Output>,
    options: runs.RunOptions<NoInfer<Input>>,
  ): Promise<runs.RunHandle<State, Output>> {
    this.#services.open();
    return (await this.#services.runs.start(agent as runs.Agent, options)) as runs.RunHandle<State, Output>;
  }

  /**
   * Opens a turn of a session for a loop that the caller controls, such as that of an SDK. Results of models and tools that
   * the loop calls through the run are recorded, and replayed when an interrupted turn is opened again. One turn lasts until
   * `complete()` or `fail()`.
   *
   * @example
   * const run = await sp.openRun({ session: "chat-1", turn: "message-7", initial: () => ({ messages: [] }) });
   * const reply = await run.llm(() => model(run.state.messages));
   * await run.complete(reply);
   */
  async openRun<State>(options: runs.OpenRunOptions<State>): Promise<runs.OpenRun<State>> {
    this.#services.open();
    return (await this.#services.runs.open(options)) as runs.OpenRun<State>;
  }

  /**
   * Resumes the runs of these agents that were interrupted, have received an answer or an input, or are scheduled by now.
   * Several processes may call it at the same time: each run is resumed by one of them.
   *
   * @returns a handle for each run that this process has resumed
   */
  async recover<State, Output>(
    agents: readonly runs.Agent<never, State, Output>[],
    options: runs.RecoverOptions = {},
  ): Promise<runs.RunHandle<State, Output>[]> {
    this.#services.open();
    return (await this.#services.runs.recover(agents, options)) as runs.RunHandle<State, Output>[];
  }

  /**
   * Queues a session for a {@link worker} of this process or another. One commit; a session is queued at most once.
   *
   * @param agent the agent, or its name if its code is in another process
   * @returns `false` if the session exists already
   */
  async enqueue<Input, State, Output>(
    agent: runs.Agent<Input, State, Output> | string,
    options: runs.EnqueueOptions<NoInfer<Input>>,
  ): Promise<boolean> {
    this.#services.open();
    const name = typeof agent === "string" ? agent : runs.checkAgent(agent as runs.Agent).name;
    return this.#services.runs.enqueue(name, options);
  }

  /**
   * A worker that runs the queued sessions of these agents, and resumes those that are scheduled, have received an answer, or
   * belong to a process that died. It does nothing before `start()`.
   *
   * @example
   * const worker = sp.worker([shop], { concurrency: 20 });
   * await worker.start();
   */
  worker<State, Output>(
    agents: readonly runs.Agent<never, State, Output>[],
    options: runs.WorkerOptions = {},
  ): runs.Worker {
    const context = this.#services.open();
    const byName = new Map(runs.parseAgents(agents, "sp.worker").map((agent) => [agent.name, agent]));
    const { host, pid } = thisProcess();
    const poll = context.store.listen ? 1000 : 200;
    const settings = runs.parseWorkerOptions(options, { lease: this.#services.lease, name: `${host}:${pid}`, poll });
    const ownRuns = this.#services.createRuns(settings.lease, (event) => worker.emit(event));
    const worker = new runs.Worker(
      { context, runs: ownRuns, close: () => this.close(), stopped: (one) => this.#workers.delete(one) },
      byName,
      settings,
    );
    this.#workers.add(worker);
    return worker;
  }

  /**
   * Queues an input for a session. The run that has the session receives it after all inputs that were queued before.
   *
   * @param options.key the same input under the same key is queued once, however often it is sent
   * @returns `false` if an input with this key was queued before
   */
  async send(
    session: string,
    input: unknown,
    options: BranchOption & { readonly key?: string } = {},
  ): Promise<boolean> {
    this.#services.open();
    return this.#services.runs.send(session, input, options);
  }

  /**
   * Answers a question of a waiting session. Runs nothing: the session resumes with the answer when a process next runs or
   * recovers it, or at once if a worker is running.
   *
   * @param options.question the id of the question; by default the first one
   */
  async answer(
    session: string,
    value: unknown,
    options: BranchOption & { readonly question?: string } = {},
  ): Promise<void> {
    this.#services.open();
    await this.#services.runs.answer(session, value, options);
  }

  /**
   * Cancels the run of a session, in whichever process it runs. The session is `halted` with this reason.
   *
   * @returns `false` if there was nothing to cancel
   */
  async cancel(session: string, reason?: string, options: BranchOption = {}): Promise<boolean> {
    this.#services.open();
    return this.#services.runs.cancel(session, reason, options);
  }

  /**
   * The current status of a session, then every stored change, in whichever process it runs. Ends when the run ends, or when the
   * session is deleted.
   *
   * @example
   * for await (const event of sp.watch("ticket-7")) console.log(event.type);
   */
  watch(session: string, options: runs.WatchOptions = {}): AsyncGenerator<runs.WatchEvent> {
    const reader = new SessionReader(this.#services.open(), checkId(session, "session id"));
    return runs.watchSession(reader, options, () => void this.#services.open());
  }

  /**
   * The effects recorded in the current step of a session, in the order they started, with their results; effects with an
   * unknown outcome included. Empty between steps, when the state has everything.
   */
  journal(session: string, options: BranchOption = {}): Listing<runs.JournalEntry> {
    const reader = new SessionReader(this.#services.open(), checkId(session, "session id"));
    return createListing(() => runs.readJournal(reader, runs.parseBranchName(options.branch)));
  }

  /**
   * Searches the messages and titles of conversations, and the messages in the newest states of sessions. Finds any part of a
   * text, ignoring case, without wildcards. One hit per conversation or session, the best first.
   *
   * Use this to search everything, and `sp.conversations.search()` to search only conversations.
   */
  async search(text: string, options: SearchOptions = {}): Promise<SearchHit[]> {
    this.#services.open();
    return this.#services.search.all(text, options);
  }

  /** Counts of agents, conversations, messages, sessions, checkpoints and bytes: of the store, or of one agent. Reads no states. */
  async stats(options: { readonly agent?: string } = {}): Promise<Stats> {
    const context = this.#services.open();
    return readStats(context, options.agent === undefined ? undefined : checkId(options.agent, "agent id"));
  }

  /**
   * Removes the checkpoints that no option keeps: of a session, of an agent with its sessions, or of the whole store. Never
   * removes heads, pinned checkpoints, and those that a branch or a step starts from. Reads no states.
   *
   * @example
   * await sp.prune({ session: "s", keepLast: 20, keepDaily: 7 });
   * await sp.prune({ expired: true });
   */
  async prune(options: PruneTarget & PruneOptions): Promise<PruneResult> {
    const context = this.#services.open();
    const { session, agent, ...rules } = options;
    if (agent !== undefined && !rules.dryRun) await this.autoCheckpoints.beforeOperation(agent, "prune");
    const target = { ...(session !== undefined && { session }), ...(agent !== undefined && { agent }) };
    return prune(context, target, rules, (sessionId) => this.#services.cursors.invalidateSession(sessionId));
  }

  /**
   * Exports a checkpoint, a session, an agent with its conversations and sessions, or everything: as one stream with checksums
   * that any store can import. Sessions may be saved meanwhile; each is exported as of one moment. Nothing is read before the
   * bundle is.
   *
   * @example
   * await sp.export({ session: "order-88" }).save("order-88.savepoint");
   * const bytes = await sp.export({}).bytes();
   */
  export(target: bundles.ExportTarget = {}, options: bundles.ExportOptions = {}): bundles.Bundle {
    return bundles.exportBundle(this.#services.open(), target, options);
  }

  /**
   * Imports a bundle from any store. Ids, parents and branches are preserved. Each section is imported completely or not at
   * all. An interrupted import resumes when the same bundle is imported again.
   *
   * @throws `DAMAGED` at the first section that was changed; earlier sections stay imported
   */
  async import(source: bundles.BundleSource, options: bundles.ImportOptions = {}): Promise<bundles.ImportResult> {
    return bundles.importBundle(this.#services.open(), source, options);
  }

  /**
   * Checks that everything that was saved exists and is intact: in the store, in a part of it, or in a bundle. Changes nothing,
   * and may run while sessions are saved. With `deep` it reads the whole store.
   *
   * @example
   * const { ok, problems } = await sp.verify({ deep: true });
   */
  async verify(options: verification.VerifyOptions = {}): Promise<verification.VerifyReport> {
    return verification.verify(this.#services.open(), options);
  }

  /**
   * Repairs damaged data from backups and bundles, and rebuilds records that can be derived from others. Readable data is never
   * changed; what cannot be repaired is listed in the report. Reads the whole store.
   *
   * @example
   * const { ok, healed, holes } = await sp.repair({ from: "./backups" });
   */
  async repair(options: verification.RepairOptions = {}): Promise<verification.RepairReport> {
    const report = await verification.repair(this.#services.open(), options);
    if (!report.dryRun && report.healed.length > 0) this.#services.cursors.invalidateAll();
    return report;
  }

  /**
   * Writes the whole store to a file in a folder, reads it back to verify it, then removes the oldest backups beyond `keep`.
   * Sessions may be saved meanwhile. `sp.repair({ from: folder })` repairs from it, `sp.import(path)` restores it into another
   * store.
   */
  async backup(options: bundles.BackupOptions): Promise<bundles.BackupResult> {
    return bundles.backup(this.#services.open(), options);
  }

  /** Frees data that no checkpoint references, packs the rest, and returns space to the file system. Safe while others save. */
  async compact(options: CollectOptions = {}): Promise<CollectReport> {
    const context = this.#services.open();
    const report = await collectGarbage(context, { ...options, repack: true });
    await context.store.compact();
    return report;
  }

  /** The size of the store in bytes, as it is stored. */
  async bytes(): Promise<number> {
    return this.#services.open().store.bytes();
  }

  /** Listens to an event. Returns a function that removes the listener. */
  on<Name extends EventName>(name: Name, listener: Listener<Name>): () => void {
    return this.#services.context.events.on(name, listener);
  }

  /**
   * Waits for saves in progress and closes the store. Later calls fail with `CLOSED`. Runs of this process start no new effects
   * and have a moment to record those in progress; other processes can resume them at once.
   */
  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    this.#services.refuseCalls();
    await this.autoCheckpoints.stop();
    await this.backups.stop();
    await Promise.all([...this.#workers].map((worker) => worker.stop({ grace: 0 })));
    await this.#services.close();
  }

  /** Closes the store at the end of an `await using` block. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}
