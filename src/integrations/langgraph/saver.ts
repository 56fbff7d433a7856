/** The checkpointer for LangGraph.js. */
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
  type SearchOptions,
  toMilliseconds,
} from "../../index.js";
import { copyThread } from "./copy.js";
import { readDeltaHistory } from "./delta.js";
import { invalidArgument } from "./errors.js";
import { ThreadCache } from "./thread-cache.js";
import { listTuples, parseListQuery } from "./list.js";
import { migrate, type MigrateOptions, type MigrateReport } from "./migrate.js";
import type { SavepointSaverOptions } from "./options.js";
import { checkThreadId, configOf, parseAddress, requireAddress, storedId } from "./address.js";
import { put } from "./put.js";
import { parsePutRequest } from "./put-request.js";
import { type FoundThread, type ListThreadsOptions, type ThreadInfo, Threads } from "./threads.js";
import { loadNewest, toTuple } from "./tuples.js";
import { Encoder } from "./values.js";
import { encodeWrites, TaskWrites } from "./writes.js";

/**
 * A LangGraph.js checkpointer that stores threads in a Savepoint store. Each thread is a session, and each checkpoint writes
 * only its change. Everything that works with sessions works with threads: `sp.session(threadId).history()`, the command
 * line, search.
 *
 * @example
 * const sp = await Savepoint.open("sqlite:./threads.db");
 * const graph = builder.compile({ checkpointer: new SavepointSaver(sp) });
 */
export class SavepointSaver extends BaseCheckpointSaver implements AsyncDisposable {
  readonly #agent: string;
  readonly #rejectBranching: boolean;
  readonly #ttl: number | undefined;
  readonly #now: () => number;
  readonly #open: () => Promise<Savepoint>;
  readonly #ownsStore: boolean;
  #opened: Promise<Savepoint> | undefined;
  /** Set as soon as the store is open. */
  #bound: Binding | undefined;

  /** @param sp an open Savepoint; closing the saver does not close it */
  constructor(sp: Savepoint, options?: SavepointSaverOptions);
  /** @param open opens a Savepoint when it is first needed; closing the saver closes it */
  constructor(open: () => Promise<Savepoint>, options?: SavepointSaverOptions);
  constructor(target: Savepoint | (() => Promise<Savepoint>), options: SavepointSaverOptions = {}) {
    super();
    const { agent = "langgraph", onConcurrentWrite = "branch", ttl, now = Date.now } = options;
    if (typeof target !== "function" && !isSavepoint(target)) {
      throw invalidArgument(
        "SavepointSaver needs an open Savepoint: use new SavepointSaver(await Savepoint.open(url)) or SavepointSaver.fromConnString(url).",
      );
    }
    if (onConcurrentWrite !== "branch" && onConcurrentWrite !== "reject") {
      const given = JSON.stringify(onConcurrentWrite);
      throw invalidArgument(`onConcurrentWrite must be "branch" or "reject", got ${given}.`);
    }
    this.#agent = agent;
    this.#rejectBranching = onConcurrentWrite === "reject";
    this.#ttl = ttl === undefined ? undefined : toMilliseconds(ttl, "ttl");
    this.#now = now;
    this.#open = typeof target === "function" ? target : async () => target;
    this.#ownsStore = typeof target === "function";
    if (typeof target !== "function") this.#bind(target);
  }

  /**
   * A saver on the store at a URL, such as `"sqlite:./threads.db"`. The store is opened when it is first needed, or by
   * `setup()`.
   */
  static fromConnString(url: string, options: SavepointSaverOptions & OpenOptions = {}): SavepointSaver {
    const { agent: _agent, onConcurrentWrite: _onConcurrentWrite, ttl: _ttl, ...open } = options;
    return new SavepointSaver(() => Savepoint.open(url, open), options);
  }

  /** Opens the store, if it is not open yet. */
  async setup(): Promise<void> {
    await this.#ready();
  }

  /** Closes the store, if this saver opened it. */
  async close(): Promise<void> {
    const opened = this.#opened;
    if (!this.#ownsStore || !opened) return;
    await (await opened).close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  /** A checkpoint with its pending writes; without a `checkpoint_id`, the newest one of the namespace. */
  override async getTuple(config: RunnableConfig): Promise<CheckpointTuple | undefined> {
    const address = parseAddress(config);
    const { cache, threads } = await this.#ready();
    if (!address || (await threads.isExpired(address.thread))) return undefined;
    const thread = cache.get(address.thread);
    const session = thread.open(address);
    const isNewest = address.checkpoint === undefined;
    const saved = await (address.checkpoint === undefined
      ? loadNewest(session)
      : session.load(storedId(address, address.checkpoint)));
    if (!saved || saved.agent !== this.#agent) {
      // The caller will start the thread, which may have been deleted before.
      if (isNewest && address.namespace === "" && !thread.isBusy) thread.rebind();
      return undefined;
    }
    return toTuple(session, saved, ({ id }, state) => {
      if (isNewest) cache.remember(address, { id, state, bytes: saved.stateBytes });
    });
  }

  /** Lists checkpoints, highest id first; without a `thread_id`, those of all threads. */
  override async *list(config: RunnableConfig, options?: CheckpointListOptions): AsyncGenerator<CheckpointTuple> {
    const query = parseListQuery(config, options);
    const { sp, threads } = await this.#ready();
    if (query.thread !== undefined && !(await threads.find(query.thread))) return;
    yield* listTuples(sp, query, () => threads.ids());
  }

  /** Saves a checkpoint after the one that the config names. A checkpoint with the same id is replaced. */
  override async put(
    config: RunnableConfig,
    checkpoint: Checkpoint,
    metadata: CheckpointMetadata,
    newVersions?: ChannelVersions,
  ): Promise<RunnableConfig> {
    const request = parsePutRequest({ config, checkpoint, metadata, newVersions }, (address, id) =>
      this.#bound?.cache.recall(address, id),
    );
    const { cache, threads } = this.#bound ?? (await this.#ready());
    const { address, id } = request;
    const startsThread = address.namespace === "" && address.checkpoint === undefined;
    const thread = cache.get(address.thread);
    const work = (): Promise<void> => put(cache, thread, request, this.#rejectBranching);
    const start = async (): Promise<void> => {
      await threads.sweep();
      if (await threads.isExpired(address.thread)) await threads.delete(address.thread);
      return work();
    };
    await thread.put(address, startsThread ? start : work);
    return configOf(address, id);
  }

  /** Saves the writes of a task since a checkpoint. */
  override async putWrites(config: RunnableConfig, writes: PendingWrite[], taskId: string): Promise<void> {
    const address = requireAddress(config, "Writes");
    const { checkpoint } = address;
    if (checkpoint === undefined) {
      throw invalidArgument(
        "putWrites() needs a checkpoint, and the config has no checkpoint_id. Pass { configurable: { thread_id, checkpoint_id } }.",
      );
    }
    if (typeof taskId !== "string" || taskId === "") {
      throw invalidArgument("putWrites() needs the id of a task. Pass a non-empty task id.");
    }
    const encoder = new Encoder();
    const stored = encodeWrites(writes, (value) => encoder.encode(value));
    const { cache } = this.#bound ?? (await this.#ready());
    const verification = encoder.verifyDecodable();
    if (verification) await verification;
    await cache.get(address.thread).hold(new TaskWrites(address, checkpoint, taskId, stored));
  }

  /**
   * Deletes a thread with all its namespaces. Later saves of a graph that is still running are rejected. The id can be used
   * again.
   */
  override async deleteThread(threadId: string): Promise<void> {
    const thread = checkThreadId(threadId);
    const { threads, cache } = await this.#ready();
    await threads.delete(thread);
    cache.forgetThread(thread);
  }

  /** The writes to delta channels since the last checkpoint that stores their value, and that value. */
  override async getDeltaChannelHistory(options: {
    config: RunnableConfig;
    channels: string[];
  }): Promise<Record<string, DeltaChannelHistory>> {
    const address = parseAddress(options.config);
    const { cache } = await this.#ready();
    if (options.channels.length === 0) return {};
    if (!address) return Object.fromEntries(options.channels.map((channel) => [channel, { writes: [] }]));
    return readDeltaHistory(cache.get(address.thread), address, options.channels);
  }

  /** Lists threads, the most recently created first. */
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

  /** Finds threads by the text of their newest messages: any substring, ignoring case. */
  async searchThreads(
    text: string,
    options: Omit<SearchOptions, "agent" | "tags" | "archived"> = {},
  ): Promise<FoundThread[]> {
    return (await this.#ready()).threads.search(text, options);
  }

  /**
   * Copies a thread with all its checkpoints, namespaces and pending writes to an id that is not in use.
   *
   * @returns the number of checkpoints
   */
  async copyThread(from: string, to: string): Promise<number> {
    const [source, target] = [checkThreadId(from), checkThreadId(to)];
    const { threads, cache } = await this.#ready();
    return copyThread(threads, cache.get(source), cache.get(target));
  }

  /**
   * Removes the checkpoints that no option keeps, of one thread or of all. The newest checkpoint of each namespace, those that
   * others branch off from, and all checkpoints of threads with a `DeltaChannel` are always kept.
   */
  async prune(options: PruneOptions & { readonly threadId?: string }): Promise<PruneResult> {
    const { threadId, ...kept } = options;
    const { sp } = await this.#ready();
    return sp.prune({
      ...(threadId === undefined ? { agent: this.#agent } : { session: checkThreadId(threadId) }),
      ...kept,
    });
  }

  /** Deletes expired threads. Returns how many. */
  async deleteExpired(): Promise<number> {
    return (await this.#ready()).threads.deleteExpired();
  }

  /**
   * Copies threads from another saver, such as a `SqliteSaver` or a `PostgresSaver`, and compares every checkpoint with its
   * original. Existing checkpoints are not changed, so an interrupted migration can be continued.
   */
  async migrateFrom(
    source: BaseCheckpointSaver<string | number>,
    options: MigrateOptions = {},
  ): Promise<MigrateReport> {
    const { cache } = await this.#ready();
    return migrate(this, source, (thread) => cache.get(thread), options);
  }

  #bind(sp: Savepoint): Binding {
    return (this.#bound ??= {
      sp,
      cache: new ThreadCache(sp, this.#agent),
      threads: new Threads(sp, this.#agent, this.#ttl, this.#now),
    });
  }

  async #ready(): Promise<Binding> {
    this.#opened ??= this.#open().catch((error: unknown) => {
      // The next call tries again.
      this.#opened = undefined;
      throw error;
    });
    return this.#bind(await this.#opened);
  }
}

/** An open store, and the objects of the saver that use it. */
interface Binding {
  readonly sp: Savepoint;
  readonly cache: ThreadCache;
  readonly threads: Threads;
}

/** Checked by its methods, because the object can come from another copy of the package. */
function isSavepoint(target: unknown): boolean {
  return typeof (target as Partial<Savepoint> | null | undefined)?.session === "function";
}
