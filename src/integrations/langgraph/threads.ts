/** The threads of a saver: listing, searching and deleting them. */
import type { CheckpointMetadata } from "@langchain/langgraph-checkpoint";
import { isSavepointError, type Role, type Savepoint, type SearchOptions, type SessionInfo } from "../../index.js";
import { decodeMetadata, findNewest, matchesFilter, toThreadCheckpoint } from "./stored.js";

/** A thread, with the metadata of its newest checkpoint. */
export interface ThreadInfo {
  readonly threadId: string;
  /** Milliseconds since 1970. */
  readonly createdAt: number;
  /** When the thread's newest checkpoint was saved. */
  readonly updatedAt: number;
  /** When the thread expires, in milliseconds since 1970; `undefined` if the saver has no `ttl`. */
  readonly expiresAt: number | undefined;
  /** The id of the thread's newest checkpoint. */
  readonly checkpointId: string;
  /** LangGraph's metadata of the newest checkpoint. */
  readonly metadata: CheckpointMetadata;
}

/** Options of `listThreads`. */
export interface ListThreadsOptions {
  /** The maximum number of threads. @default all */
  readonly limit?: number;
  /** List only threads whose newest checkpoint has these fields in its metadata. @default all threads */
  readonly filter?: Readonly<Record<string, unknown>>;
}

/** A search result. */
export interface FoundThread {
  readonly threadId: string;
  /** The id of the message, if it has one. */
  readonly messageId: string | undefined;
  readonly role: Role | undefined;
  /** The text around the match. */
  readonly snippet: string;
}

/** How often expired threads are deleted within one `ttl`. */
const SWEEPS_PER_TTL = 10;

/** The threads of one saver: the sessions of its agent that have not expired. */
export class Threads {
  readonly #sp: Savepoint;
  readonly #agent: string;
  readonly #ttl: number | undefined;
  readonly #now: () => number;
  #sweptAt: number | undefined;

  constructor(sp: Savepoint, agent: string, ttl: number | undefined, now: () => number) {
    this.#sp = sp;
    this.#agent = agent;
    this.#ttl = ttl;
    this.#now = now;
  }

  async *list({ limit = Number.POSITIVE_INFINITY, filter = {} }: ListThreadsOptions): AsyncGenerator<ThreadInfo> {
    let left = limit;
    if (left <= 0) return;
    for await (const session of this.#sessions()) {
      const own = session.head && (await findNewest(this.#sp.session(session.id), session.head));
      const newest = own && toThreadCheckpoint(own);
      if (!newest) continue;
      const metadata = await decodeMetadata(newest.metadata);
      if (!matchesFilter(metadata, filter)) continue;
      const { id: threadId, createdAt, updatedAt } = session;
      yield { threadId, createdAt, updatedAt, expiresAt: this.#expiresAt(session), checkpointId: newest.id, metadata };
      if (--left <= 0) return;
    }
  }

  /** The ids of all threads, including those in which only a subgraph has saved so far. */
  async *ids(): AsyncGenerator<string> {
    for await (const { id } of this.#sessions()) yield id;
  }

  async search(text: string, options: SearchOptions): Promise<FoundThread[]> {
    const hits = await this.#sp.search(text, { ...options, agent: this.#agent });
    const found: FoundThread[] = [];
    for (const { source, id, messageId, role, snippet } of hits) {
      if (source === "session" && (await this.find(id))) found.push({ threadId: id, messageId, role, snippet });
    }
    return found;
  }

  /** The session of a thread; `undefined` if it does not exist or has expired. */
  async find(thread: string): Promise<SessionInfo | undefined> {
    const session = await this.#sp.sessions.load(thread);
    return session?.agent === this.#agent && !this.#hasExpired(session) ? session : undefined;
  }

  /** Whether a session of any agent has this id. */
  async isTaken(thread: string): Promise<boolean> {
    return (await this.#sp.sessions.load(thread)) !== undefined;
  }

  /** @returns whether the thread existed */
  async delete(thread: string): Promise<boolean> {
    // Sessions of other agents are not deleted. The agent of a damaged session is unknown.
    const agent = await this.#sp.sessions.load(thread).then(
      (session) => session?.agent,
      (error: unknown) => {
        if (isSavepointError(error, "DAMAGED")) return this.#agent;
        throw error;
      },
    );
    return agent === this.#agent ? this.#sp.sessions.delete(thread) : false;
  }

  /** Whether the `ttl` of a thread has expired. */
  async isExpired(thread: string): Promise<boolean> {
    if (this.#ttl === undefined) return false;
    const session = await this.#sp.sessions.load(thread);
    return session !== undefined && this.#hasExpired(session);
  }

  /** Deletes expired threads, unless that was done recently. */
  async sweep(): Promise<void> {
    if (this.#ttl === undefined) return;
    if (this.#sweptAt !== undefined && this.#now() - this.#sweptAt < this.#ttl / SWEEPS_PER_TTL) return;
    await this.deleteExpired();
  }

  async deleteExpired(): Promise<number> {
    if (this.#ttl === undefined) return 0;
    this.#sweptAt = this.#now();
    let deleted = 0;
    for await (const session of this.#sp.sessions.list({ agent: this.#agent })) {
      if (this.#hasExpired(session) && (await this.#sp.sessions.delete(session.id))) deleted++;
    }
    return deleted;
  }

  async *#sessions(): AsyncGenerator<SessionInfo> {
    for await (const session of this.#sp.sessions.list({ agent: this.#agent }))
      if (!this.#hasExpired(session)) yield session;
  }

  #hasExpired(session: SessionInfo): boolean {
    const expiresAt = this.#expiresAt(session);
    return expiresAt !== undefined && expiresAt <= this.#now();
  }

  #expiresAt({ updatedAt }: SessionInfo): number | undefined {
    return this.#ttl === undefined ? undefined : updatedAt + this.#ttl;
  }
}
