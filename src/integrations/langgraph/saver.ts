/** A checkpointer for LangGraph.js on any store of Savepoint. */
import type { RunnableConfig } from "@langchain/core/runnables";
import {
  BaseCheckpointSaver,
  type ChannelVersions,
  type Checkpoint,
  type CheckpointListOptions,
  type CheckpointMetadata,
  type CheckpointTuple,
  type DeltaChannelHistory,
  type PendingWrite,
} from "@langchain/langgraph-checkpoint";
import {
  type Listing,
  type OpenOptions,
  type PruneOptions,
  type PruneResult,
  Savepoint,
  SavepointError,
  type SearchOptions,
  toMilliseconds,
} from "../../index.js";
import { copyThread } from "./copy.js";
import { readDeltaHistory } from "./delta.js";
import { ThreadCache } from "./thread-cache.js";
import { listTuples, parseListQuery } from "./list.js";
import { migrate, type MigrateOptions, type MigrateReport } from "./migrate.js";
import type { SavepointSaverOptions } from "./options.js";
import { parsePutRequest } from "./given.js";
import { checkThreadId, configOf, parseAddress, requireAddress, storedId } from "./address.js";
import { applyPutRequest } from "./put-given.js";
import { type FoundThread, type ListThreadsOptions, type ThreadInfo, Threads } from "./threads.js";
import { toTuple } from "./tuples.js";
import { Encoder } from "./values.js";
import { putWrites, toStoredWrites } from "./writes.js";

/**
 * Keeps the threads of LangGraph.js in a store of Savepoint: each is a session, and each of its checkpoints costs what it
 * changes. Everything that works with sessions works with them: `sp.session(threadId).history()`, the command line, search.
 *
 * @example
 * const sp = await Savepoint.open("sqlite:./threads.db");
 * const graph = builder.compile({ checkpointer: new SavepointSaver(sp) });
 */
export class SavepointSaver extends BaseCheckpointSaver implements AsyncDisposable {
  readonly #agent: string;
  readonly #refuse: boolean;
  readonly #ttl: number | undefined;
  readonly #now: () => number;
  readonly #open: () => Promise<Savepoint>;
  #opened: Promise<Savepoint> | undefined;
  #known: ThreadCache | undefined;
  #threads: Threads | undefined;

  /** @param sp an open store; it stays open when the saver is closed */
  constructor(sp: Savepoint, options?: SavepointSaverOptions);
  /** @param open opens a store when it is first needed; it is closed with the saver */
  constructor(open: () => Promise<Savepoint>, options?: SavepointSaverOptions);
  constructor(target: Savepoint | (() => Promise<Savepoint>), options: SavepointSaverOptions = {}) {
    super();
    const { agent = "langgraph", onConcurrentWrite = "branch", ttl, now = Date.now } = options;
    if (typeof target !== "function" && !isSavepoint(target)) throw notASavepoint();
    if (onConcurrentWrite !== "branch" && onConcurrentWrite !== "reject")
      throw unknownConcurrentWrite(onConcurrentWrite);
    this.#agent = agent;
    this.#refuse = onConcurrentWrite === "reject";
    this.#ttl = ttl === undefined ? undefined : toMilliseconds(ttl, "ttl");
    this.#now = now;
    this.#open = typeof target === "function" ? target : async () => target;
    this.#owns = typeof target === "function";
    if (typeof target !== "function") this.#meet(target);
  }

  readonly #owns: boolean;

  /**
   * A saver on the store at a URL, such as `"sqlite:./threads.db"`. It is opened when it is first needed, or by `setup()`.
   */
  static fromConnString(url: string, options: SavepointSaverOptions & OpenOptions = {}): SavepointSaver {
    const { agent, onConcurrentWrite, ttl, ...open } = options;
    return new SavepointSaver(() => Savepoint.open(url, open), {
      ...(agent !== undefined && { agent }),
      ...(onConcurrentWrite !== undefined && { onConcurrentWrite }),
      ...(ttl !== undefined && { ttl }),
      ...(open.now !== undefined && { now: open.now }),
    });
  }

  /** Opens the store, if that has not been done. */
  async setup(): Promise<void> {
    await this.#ready();
  }

  /** Closes the store, if this saver has opened it. */
  async close(): Promise<void> {
    const opened = this.#opened;
    if (!this.#owns || !opened) return;
    await (await opened).close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  /** A checkpoint with what is pending; the newest one of its namespace, if no `checkpoint_id` is said. */
  override async getTuple(config: RunnableConfig): Promise<CheckpointTuple | undefined> {
    const place = parseAddress(config);
    const { known, threads } = await this.#ready();
    if (!place || (await threads.isExpired(place.thread))) return undefined;
    const thread = known.get(place.thread);
    const session = thread.open(place);
    const isNewest = place.checkpoint === undefined;
    const saved = await (place.checkpoint === undefined
      ? session.latest()
      : session.load(storedId(place, place.checkpoint)));
    if (!saved || saved.agent !== this.#agent) {
      // Whoever asks begins the thread anew, should it have been deleted.
      if (isNewest && place.namespace === "" && !thread.isBusy) thread.rebind();
      return undefined;
    }
    return toTuple(session, saved, ({ id }, state) => {
      if (isNewest) known.remember(place, { id, state, bytes: saved.stateBytes });
    });
  }

  /** Checkpoints, those with the highest ids first; of all threads, if no `thread_id` is said. */
  override async *list(config: RunnableConfig, options?: CheckpointListOptions): AsyncGenerator<CheckpointTuple> {
    const wanted = parseListQuery(config, options);
    const { sp, threads } = await this.#ready();
    if (wanted.thread !== undefined && !(await threads.find(wanted.thread))) return;
    yield* listTuples(sp, wanted, () => threads.ids());
  }

  /** Saves a checkpoint behind the one that the config names. One with the same id is replaced. */
  override async put(
    config: RunnableConfig,
    checkpoint: Checkpoint,
    metadata: CheckpointMetadata,
    newVersions?: ChannelVersions,
  ): Promise<RunnableConfig> {
    const given = parsePutRequest({ config, checkpoint, metadata, newVersions }, (place, id) =>
      this.#known?.recall(place, id),
    );
    const { known, threads } = await this.#ready();
    const { place, id } = given;
    const begins = place.namespace === "" && place.checkpoint === undefined;
    const thread = known.get(place.thread);
    await thread.put(given, async () => {
      if (begins) await threads.sweep();
      if (begins && (await threads.isExpired(place.thread))) await threads.delete(place.thread);
      await applyPutRequest(known, thread, given, this.#refuse);
    });
    return configOf(place, id);
  }

  /** Saves what a task has written since a checkpoint. */
  override async putWrites(config: RunnableConfig, writes: PendingWrite[], taskId: string): Promise<void> {
    const place = requireAddress(config, "Writes");
    const { checkpoint } = place;
    if (checkpoint === undefined) throw noCheckpoint();
    if (typeof taskId !== "string" || taskId === "") throw noTask();
    const encoder = new Encoder();
    const stored = toStoredWrites(writes, (value) => encoder.encode(value));
    const { known } = await this.#ready();
    await encoder.verifyDecodable();
    await putWrites(known.get(place.thread), place, checkpoint, taskId, stored);
  }

  /**
   * Deletes a thread with all its namespaces. What a run that is still under way saves afterwards is refused; the id may be
   * used again.
   */
  override async deleteThread(threadId: string): Promise<void> {
    const thread = checkThreadId(threadId);
    const { threads, known } = await this.#ready();
    await threads.delete(thread);
    known.forgetThread(thread);
  }

  /** What was written to channels that keep only changes, since the checkpoint at which they have a value. */
  override async getDeltaChannelHistory(options: {
    config: RunnableConfig;
    channels: string[];
  }): Promise<Record<string, DeltaChannelHistory>> {
    const place = parseAddress(options.config);
    const { known } = await this.#ready();
    if (options.channels.length === 0) return {};
    if (!place) return Object.fromEntries(options.channels.map((channel) => [channel, { writes: [] }]));
    return readDeltaHistory(known.get(place.thread), place, options.channels);
  }

  /** The threads, those begun last first. */
  listThreads(options: ListThreadsOptions = {}): Listing<ThreadInfo> {
    const ready = async (): Promise<Threads> => (await this.#ready()).threads;
    return {
      async *[Symbol.asyncIterator]() {
        yield* (await ready()).list(options);
      },
      async all() {
        const found: ThreadInfo[] = [];
        for await (const thread of (await ready()).list(options)) found.push(thread);
        return found;
      },
    };
  }

  /** Threads in whose newest messages something was said: any part of a text, in any case. */
  async searchThreads(
    text: string,
    options: Omit<SearchOptions, "agent" | "tags" | "archived"> = {},
  ): Promise<FoundThread[]> {
    return (await this.#ready()).threads.search(text, options);
  }

  /**
   * Copies a thread with all its checkpoints, namespaces and pending writes to another id, at which there must be none.
   *
   * @returns how many checkpoints it has
   */
  async copyThread(from: string, to: string): Promise<number> {
    const [source, target] = [checkThreadId(from), checkThreadId(to)];
    const { threads, known } = await this.#ready();
    return copyThread(threads, known.get(source), known.get(target));
  }

  /**
   * Removes checkpoints that none of the options wants to keep, of one thread or of all. The newest of each namespace, those
   * that others branch off from, and all of threads with a `DeltaChannel` stay.
   */
  async prune(options: PruneOptions & { readonly threadId?: string }): Promise<PruneResult> {
    const { threadId, ...kept } = options;
    const { sp } = await this.#ready();
    return sp.prune({
      ...(threadId === undefined ? { agent: this.#agent } : { session: checkThreadId(threadId) }),
      ...kept,
    });
  }

  /** Deletes the threads whose `ttl` is over. Returns how many. */
  async deleteExpired(): Promise<number> {
    return (await this.#ready()).threads.deleteExpired();
  }

  /**
   * Copies threads from another saver, such as a `SqliteSaver` or a `PostgresSaver`, and compares every checkpoint with the
   * one that it came from. What is there already is left as it is, so a migration that was interrupted goes on.
   */
  async migrateFrom(
    source: BaseCheckpointSaver<string | number>,
    options: MigrateOptions = {},
  ): Promise<MigrateReport> {
    const { known } = await this.#ready();
    return migrate(this, source, (thread) => known.get(thread), options);
  }

  #meet(sp: Savepoint): { sp: Savepoint; known: ThreadCache; threads: Threads } {
    this.#known ??= new ThreadCache(sp, this.#agent);
    this.#threads ??= new Threads(sp, this.#agent, this.#ttl, this.#now);
    return { sp, known: this.#known, threads: this.#threads };
  }

  async #ready(): Promise<{ sp: Savepoint; known: ThreadCache; threads: Threads }> {
    this.#opened ??= this.#open().catch((error: unknown) => {
      // The next one may try again.
      this.#opened = undefined;
      throw error;
    });
    return this.#meet(await this.#opened);
  }
}

/** Told by what it can do: there may be another copy of the package. */
function isSavepoint(target: unknown): boolean {
  return typeof (target as Partial<Savepoint> | null | undefined)?.session === "function";
}

function notASavepoint(): SavepointError {
  return new SavepointError(
    "INVALID_ARGUMENT",
    "A SavepointSaver is made on an open store: new SavepointSaver(await Savepoint.open(url)), or SavepointSaver.fromConnString(url).",
  );
}

function unknownConcurrentWrite(given: unknown): SavepointError {
  return new SavepointError(
    "INVALID_ARGUMENT",
    `onConcurrentWrite is ${JSON.stringify(given)}. Give "branch" or "reject".`,
  );
}

function noTask(): SavepointError {
  return new SavepointError("INVALID_ARGUMENT", "Writes are those of a task, and no task id was given. Pass its id.");
}

function noCheckpoint(): SavepointError {
  return new SavepointError(
    "INVALID_ARGUMENT",
    "Writes belong to a checkpoint, and the config names none. Pass { configurable: { thread_id, checkpoint_id } }.",
  );
}
