/** `Savepoint`: an open store, as applications see it. */
import {
  Agents,
  AutoCheckpoints,
  Checkpoints,
  Conversations,
  type OpenedStore,
  type OpenOptions,
  openServices,
  readStats,
  rekey,
  type RekeyOptions,
  RetentionPolicies,
  type Services,
  openSession,
  type Session,
  Sessions,
  type Stats,
  Workers,
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
import type { KeyUse, RekeyReport } from "./encryption/index.js";
import { erase, type EraseOptions, type EraseReport, type EraseTarget } from "./erasure/index.js";
import { collectGarbage, type CollectOptions, type CollectReport } from "./gc/index.js";
import type { EventName, LastShutdown, Listener, ListenOptions } from "./events/index.js";
import {
  type Agent,
  checkAgent,
  type EnqueueOptions,
  type JournalEntry,
  type JournalHole,
  type JournalOptions,
  listQueue,
  listQueueOf,
  listWorkers,
  type OpenRun,
  type OpenRunOptions,
  parseAgents,
  parseBranchName,
  type QueuedRun,
  readJournal,
  type RecoverOptions,
  type RunHandle,
  type RunOptions,
  type RunResult,
  type WatchEvent,
  type WatchOptions,
  followStream,
  type StreamEnd,
  type StreamEvent,
  type StreamOptions,
  watchSession,
  type Worker,
  type WorkerInfo,
  type WorkerOptions,
} from "./runs/index.js";
import { checkId } from "./records/index.js";
import { prune, type PruneOptions, type PruneResult, type PruneTarget } from "./retention/index.js";
import type { SearchHit, SearchOptions } from "./search/index.js";
import { type SessionOptions, SessionReader } from "./sessions/index.js";
import { findStore, type OpenTarget } from "./store/index.js";
import { createListing, type Listing, validateOptions } from "./util/index.js";
import {
  repair,
  type RepairOptions,
  type RepairReport,
  verify,
  type VerifyOptions,
  type VerifyReport,
} from "./verify/index.js";

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
  /**
   * How the store was last closed: whether a process crashed while it had the store open, and which runs that interrupted.
   * Each crash is reported once; opening with `create: false` reports it without marking it as reported.
   */
  readonly lastShutdown: LastShutdown;
  readonly #services: Services;
  readonly #backups: AutoBackups;
  readonly #workers: Workers;
  #closing: Promise<void> | undefined;

  private constructor({ services, lastShutdown }: OpenedStore) {
    this.#services = services;
    this.#workers = new Workers(services, () => this.close());
    this.lastShutdown = lastShutdown;
    this.sessions = new Sessions(services);
    this.checkpoints = new Checkpoints(services);
    this.autoCheckpoints = new AutoCheckpoints(services, this.checkpoints);
    this.retention = new RetentionPolicies(services);
    this.agents = new Agents(services, this.autoCheckpoints);
    this.conversations = new Conversations(services, this.autoCheckpoints);
    this.#backups = new AutoBackups(services.context, (options) => this.backup(options));
  }

  /**
   * Opens a store, and creates it if it does not exist.
   *
   * @param target `"sqlite:./agents.db"`, `"file:./folder"`, `"postgres://…"` or `"memory:"`; or a store, a SQLite database
   *   handle or a `pg` pool that the caller opened and closes. Default: the URL in `SAVEPOINT_URL`, else the nearest
   *   `.savepoint` folder upwards, else a new one in the working directory. A store that was found must belong to the user,
   *   except on Windows: otherwise `UNSAFE_STORE`.
   */
  static async open(target: OpenTarget = findStore(), options: OpenOptions = {}): Promise<Savepoint> {
    return new Savepoint(await openServices(target, options));
  }

  /** The URL of the store, without a password. */
  get url(): string {
    return this.#services.context.store.url;
  }

  /** Backups that are written automatically, at intervals. {@link backup} writes one now. */
  get backups(): AutoBackups {
    this.#services.scope.requireStore("sp.backups");
    return this.#backups;
  }

  /** A handle on a session, which need not exist yet. Reads and writes nothing. */
  session<State = unknown>(id: string, options: SessionOptions = {}): Session<State> {
    return openSession<State>(this.#services, id, this.#services.scope.withAgent(options));
  }

  /**
   * Runs an agent on a session and resolves when the run completes, fails, halts or waits.
   *
   * A new session starts with the input. An interrupted run resumes where it stopped, without repeating recorded effects. A
   * run that this process already executes is joined. A completed session returns its result again; if the agent has
   * `receive`, the input starts its next turn. A run that an error of the step's own code has ended resumes; one that was halted
   * resumes with `{ resume: true }`.
   *
   * @throws `ALREADY_RUNNING` while another process runs the session
   * @throws `INPUT_MISMATCH` if the session has another input, unless that is completed and the agent has `receive`
   * @example
   * const { status, output } = await sp.run(support, { session: "ticket-7", input: "Where is my order?" });
   */
  async run<Input, State, Output>(
    agent: Agent<Input, State, Output>,
    options: RunOptions<NoInfer<Input>>,
  ): Promise<RunResult<State, Output>> {
    const runs = this.#services.openRuns();
    this.#services.scope.resolveAgent(checkAgent(agent as Agent).name);
    return (await runs.run(agent as Agent, options)) as RunResult<State, Output>;
  }

  /** Like {@link run}, but resolves as soon as the run has started; the handle has its result and its events. */
  async start<Input, State, Output>(
    agent: Agent<Input, State, Output>,
    options: RunOptions<NoInfer<Input>>,
  ): Promise<RunHandle<State, Output>> {
    const runs = this.#services.openRuns();
    this.#services.scope.resolveAgent(checkAgent(agent as Agent).name);
    return (await runs.start(agent as Agent, options)) as RunHandle<State, Output>;
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
  async openRun<State>(options: OpenRunOptions<State>): Promise<OpenRun<State>> {
    const request = this.#services.scope.withAgent(options) as OpenRunOptions;
    return (await this.#services.openRuns().open(request)) as OpenRun<State>;
  }

  /**
   * Resumes the runs of these agents that were interrupted, have received an answer or an input, or are scheduled by now.
   * Several processes may call it at the same time: each run is resumed by one of them.
   *
   * @returns a handle for each run that this process has resumed
   */
  async recover<State, Output>(
    agents: readonly Agent<never, State, Output>[],
    options: RecoverOptions = {},
  ): Promise<RunHandle<State, Output>[]> {
    const runs = this.#services.openRuns();
    for (const { name } of parseAgents(agents, "sp.recover")) this.#services.scope.resolveAgent(name);
    return (await runs.recover(agents, options)) as RunHandle<State, Output>[];
  }

  /**
   * Queues a session for a {@link worker} of this process or another. One commit; a session is queued at most once.
   *
   * @param agent the agent, or its name if its code is in another process
   * @returns `false` if the session exists already, unless an error of its agent's code has ended it: then it is queued again
   */
  async enqueue<Input, State, Output>(
    agent: Agent<Input, State, Output> | string,
    options: EnqueueOptions<NoInfer<Input>>,
  ): Promise<boolean> {
    const name = typeof agent === "string" ? agent : checkAgent(agent as Agent).name;
    this.#services.scope.resolveAgent(name);
    return this.#services.openRuns().enqueue(name, options);
  }

  /**
   * A worker that runs the queued sessions of these agents, and resumes those that are scheduled, have received an answer, or
   * belong to a process that died. It does nothing before `start()`.
   *
   * @example
   * const worker = sp.worker([shop], { concurrency: 20 });
   * await worker.run(); // until SIGTERM
   */
  worker<State, Output>(agents: readonly Agent<never, State, Output>[], options: WorkerOptions = {}): Worker {
    return this.#workers.create(agents, options);
  }

  /**
   * The processes and workers that hold leases, in all processes, with the runs that each of them holds: those that are alive
   * first, then those that have died and whose runs no process has resumed yet. A worker without a run since its start holds no lease.
   * Writes nothing; reads every queue entry.
   *
   * @example
   * for await (const { host, pid, alive, runs } of sp.workers()) console.log(host, pid, alive, runs.length);
   */
  workers(): Listing<WorkerInfo> {
    this.#services.scope.requireStore("sp.workers()");
    return createListing(() => listWorkers(this.#services.open()));
  }

  /**
   * The unfinished runs that no process executes: first those that a worker can run, by agent and in the order in which workers
   * run them; then those that wait or were interrupted; then those that are quarantined. Writes nothing; reads every queue entry
   * and the record of every run, or, with `session`, those of that session.
   *
   * @param options.agent only runs of this agent
   * @param options.session only runs of this session
   * @example
   * for await (const { sessionId, state, reason } of sp.queue()) console.log(sessionId, state, reason);
   */
  queue(options: { readonly agent?: string; readonly session?: string } = {}): Listing<QueuedRun> {
    const { agent = this.#services.scope.agent, session } = options;
    if (agent !== undefined) checkId(agent, "agent id");
    if (session === undefined) return createListing(() => listQueue(this.#services.open(), agent));
    checkId(session, "session id");
    return createListing(() => listQueueOf(this.#services.open(), session, agent));
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
    options: { readonly key?: string; readonly branch?: string } = {},
  ): Promise<boolean> {
    return this.#services.openRuns().send(session, input, options);
  }

  /**
   * Answers a question of a waiting session. Runs nothing: the session resumes with the answer when a process next runs or
   * recovers it, or immediately if a worker is running.
   *
   * A question about a tool call with an unknown outcome (`kind: "unknown"`) is answered with `{ happened: true, result }`;
   * `{ happened: false }`, after which it is executed again; or `{ failed: "the reason" }`: the call then throws `OUTCOME_UNKNOWN`
   * with this message, and is not executed again.
   *
   * @param options.question the id of the question; by default the first one
   */
  async answer(
    session: string,
    value: unknown,
    options: { readonly question?: string; readonly branch?: string } = {},
  ): Promise<void> {
    await this.#services.openRuns().answer(session, value, options);
  }

  /**
   * Cancels the run of a session, in whichever process it runs. The session is `halted` with this reason.
   *
   * @returns `false` if there was nothing to cancel
   */
  async cancel(session: string, reason?: string, options: { readonly branch?: string } = {}): Promise<boolean> {
    return this.#services.openRuns().cancel(session, reason, options);
  }

  /**
   * Schedules an interrupted, failed, halted or quarantined run, so that a worker resumes it. Runs nothing itself. The session resumes
   * after its last recorded effect, as with `sp.run(agent, { session, resume: true })`.
   *
   * @returns `false` if the run needs no worker: it is running, waits, has completed or is scheduled already
   * @throws `INVALID_ARGUMENT` for a run that `sp.openRun()` started: only its own program can resume it
   */
  async requeue(session: string, options: { readonly branch?: string } = {}): Promise<boolean> {
    return this.#services.openRuns().requeue(session, options);
  }

  /**
   * The current status of a session, then every stored change, in whichever process it runs. Ends when the run ends, or when the
   * session is deleted.
   *
   * @example
   * for await (const event of sp.watch("ticket-7")) console.log(event.type);
   */
  watch(session: string, options: WatchOptions = {}): AsyncGenerator<WatchEvent> {
    validateOptions(options, "sp.watch");
    const reader = new SessionReader(this.#services.open(), checkId(session, "session id"));
    return watchSession(reader, options, () => void this.#services.open());
  }

  /**
   * Replays the deltas that the run of a session has emitted in the current turn, then follows the run, in any process, and also
   * if it is resumed after a crash. Ends when the turn has ended or waits for a person, and returns the
   * status. The deltas of a turn are freed when it has ended.
   *
   * @example
   * for await (const event of sp.stream("ticket-7")) if (event.type === "delta") console.log(event.name, event.delta);
   */
  stream(session: string, options: StreamOptions = {}): AsyncGenerator<StreamEvent, StreamEnd> {
    validateOptions(options, "sp.stream");
    const reader = new SessionReader(this.#services.open(), checkId(session, "session id"));
    const branch = parseBranchName(options.branch);
    return followStream(reader, { ...options, branch }, () => void this.#services.open());
  }

  /**
   * The effects recorded in the current step of a session, in the order they started, with their results; effects with an
   * unknown outcome included. Empty between steps, when the state has everything. With `all`, the effects of all steps along the
   * history of the branch, oldest first; damaged parts are listed as holes.
   *
   * @example
   * for await (const effect of sp.journal("order-88", { all: true })) console.log(effect.kind, effect.duration);
   */
  journal(
    session: string,
    options: JournalOptions & { readonly all: true; readonly branch?: string },
  ): Listing<JournalEntry | JournalHole>;
  journal(
    session: string,
    options?: JournalOptions & { readonly all?: false; readonly branch?: string },
  ): Listing<JournalEntry>;
  journal(
    session: string,
    options: JournalOptions & { readonly branch?: string } = {},
  ): Listing<JournalEntry | JournalHole> {
    validateOptions(options, "sp.journal");
    const { branch, ...journalOptions } = options;
    const reader = new SessionReader(this.#services.open(), checkId(session, "session id"));
    return createListing(() => readJournal(reader, parseBranchName(branch), journalOptions));
  }

  /**
   * Searches the messages and titles of conversations, and the messages in the newest states of sessions. Finds the given text
   * anywhere in a message or title, ignoring case. Wildcards are not supported. One hit per conversation or session, the best first.
   *
   * Use this to search everything, and `sp.conversations.search()` to search only conversations.
   */
  async search(text: string, options: SearchOptions = {}): Promise<SearchHit[]> {
    this.#services.open();
    return this.#services.search.all(text, options);
  }

  /** Counts of agents, conversations, messages, sessions, checkpoints and bytes: of the store, or of one agent. Reads no states. */
  async stats(options: { readonly agent?: string } = {}): Promise<Stats> {
    const { agent = this.#services.scope.agent } = options;
    return readStats(this.#services.open(), agent);
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
    if (session === undefined && agent === undefined)
      this.#services.scope.requireStore("sp.prune() of the whole store");
    if (agent !== undefined && !rules.dryRun) await this.autoCheckpoints.beforeOperation(agent, "prune");
    const target = { ...(session !== undefined && { session }), ...(agent !== undefined && { agent }) };
    return prune(context, target, rules, (sessionId) => this.#services.cursors.invalidateSession(sessionId));
  }

  /**
   * Exports a checkpoint, a session, an agent with its conversations and sessions, or everything: as one stream with checksums
   * that any store can import. Sessions may be saved meanwhile; each is exported as of one moment. Nothing is read before the
   * bundle is. The bundle of an encrypted store is encrypted with its current key.
   *
   * @example
   * await sp.export({ session: "order-88" }).save("order-88.savepoint");
   * const bytes = await sp.export({}).bytes();
   */
  export(target: ExportTarget = {}, options: ExportOptions = {}): Bundle {
    const { agent } = this.#services.scope;
    const context = this.#services.open();
    if (agent === undefined) return exportBundle(context, target, options);
    const isEverything = typeof target === "object" && Object.keys(target ?? { invalid: true }).length === 0;
    return exportBundle(context, isEverything ? { agent } : target, options);
  }

  /**
   * Imports a bundle from any store. Ids, parents and branches are preserved. Each section is imported completely or not at
   * all. An interrupted import resumes when the same bundle is imported again.
   *
   * @throws `DAMAGED` at the first section that was changed; earlier sections stay imported
   * @throws `KEY_REQUIRED` or `WRONG_KEY` if the bundle is encrypted and neither the store nor `encryption` has its key
   */
  async import(source: BundleSource, options: ImportOptions = {}): Promise<ImportResult> {
    const context = this.#services.open();
    this.#services.scope.requireStore("sp.import()");
    return importBundle(context, source, options);
  }

  /**
   * Checks that everything that was saved exists and is intact: in the store, in a part of it, or in a bundle. Changes nothing,
   * and may run while sessions are saved. With `deep` it reads the whole store.
   *
   * @example
   * const { ok, problems } = await sp.verify({ deep: true });
   */
  async verify(options: VerifyOptions = {}): Promise<VerifyReport> {
    const context = this.#services.open();
    const { session, agent, checkpoint, bundle } = options;
    const isEverything = [session, agent, checkpoint, bundle].every((target) => target === undefined);
    if (isEverything) this.#services.scope.requireStore("sp.verify() of the whole store");
    const report = await verify(context, options);
    const keys = isEverything ? await this.#services.encryption.keyUse() : undefined;
    return keys ? { ...report, keys } : report;
  }

  /**
   * Repairs damaged data from backups and bundles, and rebuilds records that can be derived from others. Readable data is never
   * changed; what cannot be repaired is listed in the report. Reads the whole store.
   *
   * @example
   * const { ok, healed, holes } = await sp.repair({ from: "./backups" });
   */
  async repair(options: RepairOptions = {}): Promise<RepairReport> {
    const context = this.#services.open();
    this.#services.scope.requireStore("sp.repair()");
    const report = await repair(context, options);
    if (!report.dryRun && report.healed.length > 0) this.#services.cursors.invalidateAll();
    return report;
  }

  /**
   * Writes the whole store to a file in a folder, verifies it, then removes the oldest backups beyond `keep`. Sessions may be
   * saved meanwhile. `sp.repair({ from: folder })` repairs from it, `sp.import(path)` copies it into another store.
   */
  async backup(options: BackupOptions): Promise<BackupResult> {
    const context = this.#services.open();
    this.#services.scope.requireStore("sp.backup()");
    return backup(context, options);
  }

  /**
   * Deletes a session, a conversation or an agent so that none of its content is left in the store's files, and reports which
   * backups and other places outside of the store may still have copies. Rewrites the whole store. Erasing the same thing again
   * completes an erasure that was interrupted or that another process prevented.
   *
   * @example
   * const { backups, pending } = await sp.erase({ session: "order-88" });
   */
  async erase(target: EraseTarget, options: EraseOptions = {}): Promise<EraseReport> {
    const context = this.#services.open();
    this.#services.scope.requireStore("sp.erase()");
    validateOptions(options, "sp.erase");
    return erase(context, target, options, this.#services);
  }

  /**
   * Changes the master key of an encrypted store to the current one of `encryption`: encrypts the data keys again, not the data. Other
   * processes may use the store meanwhile. If it is interrupted, call it again. An older key can be removed from `encryption` when
   * `sp.keys()` shows that nothing uses it, and all processes have the new one.
   *
   * With `to`, encrypts a plain store, while no other process has it open. No plain data is left in the files of the store. Rewrites the
   * whole store. If it is interrupted, the next `Savepoint.open` with the key completes it.
   *
   * @example
   * const sp = await Savepoint.open(url, { encryption: { current: "2027", keys: { 2026: old, 2027: key } } });
   * await sp.rekey();
   *
   * @throws NOT_ENCRYPTED for a plain store without `to`; BUSY with `to`, if another process has the store open; CONFLICT if another
   * process sets a different key meanwhile
   */
  async rekey(options: RekeyOptions = {}): Promise<RekeyReport> {
    this.#services.open();
    this.#services.scope.requireStore("sp.rekey()");
    return rekey(this.#services, options);
  }

  /**
   * The keys that encrypt data keys of the store, with their names in `encryption`, and how many data keys each encrypts; empty
   * for a plain store. Reads all data keys.
   */
  async keys(): Promise<readonly KeyUse[]> {
    this.#services.open();
    this.#services.scope.requireStore("sp.keys()");
    return (await this.#services.encryption.keyUse()) ?? [];
  }

  /** Frees data that no checkpoint references, packs the rest, and returns space to the file system. Safe while others save. */
  async compact(options: CollectOptions = {}): Promise<CollectReport> {
    const context = this.#services.open();
    this.#services.scope.requireStore("sp.compact()");
    const report = await collectGarbage(context, { ...options, repack: true });
    await context.store.compact();
    return report;
  }

  /** The stored size of the store, in bytes. */
  async bytes(): Promise<number> {
    return this.#services.open().store.bytes();
  }

  /** Listens to an event. Returns a function that removes the listener. */
  on<Name extends EventName>(name: Name, listener: Listener<Name>, options: ListenOptions = {}): () => void {
    validateOptions(options, "sp.on");
    return this.#services.context.events.on(name, listener, undefined, options);
  }

  /**
   * Waits for saves in progress and closes the store. Later calls fail with `CLOSED`. Runs of this process start no new effects
   * and have a moment to record those in progress; other processes can resume them immediately.
   */
  close(): Promise<void> {
    return (this.#closing ??= this.#close());
  }

  async #close(): Promise<void> {
    this.#services.refuseCalls();
    await this.autoCheckpoints.stop();
    await this.#backups.stop();
    await this.#workers.stop();
    await this.#services.close();
  }

  /** Closes the store at the end of an `await using` block. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}
