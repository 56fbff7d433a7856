/** The threads of a saver: listing, searching and deleting them. */
import { isDeepStrictEqual as isSame } from "node:util";
import type { CheckpointMetadata } from "@langchain/langgraph-checkpoint";
import { isSavepointError, type Role, type Savepoint, type SearchOptions, type SessionInfo } from "../../index.js";
import { decodeMetadata, toThreadCheckpoint } from "./stored.js";

/** A thread, as its newest checkpoint shows it. */
export interface ThreadInfo {
  readonly threadId: string;
  /** Milliseconds since 1970. */
  readonly createdAt: number;
  /** When its newest checkpoint was saved. */
  readonly updatedAt: number;
  /** Up to when it is wanted, where the saver has a `ttl`. */
  readonly expiresAt: number | undefined;
  /** Its newest checkpoint. */
  readonly checkpointId: string;
  /** What LangGraph says of that one. */
  readonly metadata: CheckpointMetadata;
}

export interface ListThreadsOptions {
  /** At most this many. */
  readonly limit?: number;
  /** Only those whose newest checkpoint has these fields in its metadata. */
  readonly filter?: Readonly<Record<string, unknown>>;
}

/** A thread in which something was found. */
export interface FoundThread {
  readonly threadId: string;
  /** The id of the message, where it has one. */
  readonly messageId: string | undefined;
  readonly role: Role | undefined;
  /** The text around the place. */
  readonly snippet: string;
}

/** Of the time that threads are wanted, so much may pass between two looks for those that are not. */
const SWEEPS = 10;

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
      const found = session.head && toThreadCheckpoint(session.head);
      if (!found) continue;
      const metadata = await decodeMetadata(found.metadata);
      if (!Object.entries(filter).every(([key, value]) => isSame((metadata as Record<string, unknown>)[key], value)))
        continue;
      const { id: threadId, createdAt, updatedAt } = session;
      yield { threadId, createdAt, updatedAt, expiresAt: this.#expiresAt(session), checkpointId: found.id, metadata };
      if (--left <= 0) return;
    }
  }

  /** The ids of all threads, also of those of which only a subgraph has saved anything so far. */
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

  /** The session of a thread that is there and wanted. */
  async find(thread: string): Promise<SessionInfo | undefined> {
    const session = await this.#sp.sessions.load(thread);
    return session?.agent === this.#agent && !this.#isOver(session) ? session : undefined;
  }

  /** Is there something under this id, whosever it is? */
  async isTaken(thread: string): Promise<boolean> {
    return (await this.#sp.sessions.load(thread)) !== undefined;
  }

  /** @returns whether there was one */
  async delete(thread: string): Promise<boolean> {
    // What is not a thread of ours is not ours to delete. Whose a damaged one is, nobody can tell.
    const agent = await this.#sp.sessions.load(thread).then(
      (session) => session?.agent,
      (error: unknown) => {
        if (isSavepointError(error, "DAMAGED")) return this.#agent;
        throw error;
      },
    );
    return agent === this.#agent ? this.#sp.sessions.delete(thread) : false;
  }

  /** Is the time over for which a thread is wanted? */
  async isExpired(thread: string): Promise<boolean> {
    if (this.#ttl === undefined) return false;
    const session = await this.#sp.sessions.load(thread);
    return session !== undefined && this.#isOver(session);
  }

  /** Deletes what has expired, if nobody has looked for a while. */
  async sweep(): Promise<void> {
    if (this.#ttl === undefined) return;
    if (this.#sweptAt !== undefined && this.#now() - this.#sweptAt < this.#ttl / SWEEPS) return;
    await this.deleteExpired();
  }

  async deleteExpired(): Promise<number> {
    if (this.#ttl === undefined) return 0;
    this.#sweptAt = this.#now();
    let deleted = 0;
    for await (const session of this.#sp.sessions.list({ agent: this.#agent })) {
      if (this.#isOver(session) && (await this.#sp.sessions.delete(session.id))) deleted++;
    }
    return deleted;
  }

  async *#sessions(): AsyncGenerator<SessionInfo> {
    for await (const session of this.#sp.sessions.list({ agent: this.#agent }))
      if (!this.#isOver(session)) yield session;
  }

  #isOver(session: SessionInfo): boolean {
    const expiresAt = this.#expiresAt(session);
    return expiresAt !== undefined && expiresAt <= this.#now();
  }

  #expiresAt({ updatedAt }: SessionInfo): number | undefined {
    return this.#ttl === undefined ? undefined : updatedAt + this.#ttl;
  }
}
