/**
 * The list of sessions in memory, so that it can be sorted by anything, filtered while typing and scrolled to any position
 * without reading the store.
 *
 * It is built once, newest session first, by one pass over all sessions. Stores have no log of changes that an index could follow, so
 * each refresh reads: the newest sessions, until it meets known ones; sessions that run or have just changed; and in turn a few of
 * those that wait or were updated lately, and of the others. A session that another process changes after a long time is
 * therefore noticed late, but a refresh never removes an existing session from the list.
 */
import { isSavepointError, type Savepoint, type SessionInfo } from "../../index.js";
import type { SessionRow } from "../api.js";
import { toSessionRow } from "./views.js";

/** The most sessions that an index holds: about 300 bytes each. */
const MAX_SESSIONS = 200_000;
/** A refresh stops looking for new sessions after this many known ones: the order of creation is approximate. */
const KNOWN_IN_A_ROW = 8;
/** The most sessions that are read by each refresh because they run or have just changed. */
const MAX_HOT = 200;
/** How many of the sessions that wait or have changed lately each refresh reads, in turn; and how many of the others. */
const WARM_ROTATION = 30;
const ROTATION = 10;
/** How long after a change a session is likely to change again, and how long it may, in milliseconds. */
const HOT_FOR = 20_000;
const WARM_FOR = 600_000;
/** The least time between two refreshes, as a multiple of the duration of the first one. */
const REST = 20;

const ACTIVE: ReadonlySet<string> = new Set(["queued", "running"]);
const UNFINISHED: ReadonlySet<string> = new Set(["waiting", "interrupted"]);

/** Sessions that are new or have changed, and the ids of deleted ones. */
export interface SessionChanges {
  readonly rows: readonly SessionRow[];
  readonly removed: readonly string[];
}

/** A session as it was read; without `info` it was deleted. */
interface LoadedSession {
  readonly id: string;
  readonly info: SessionInfo | undefined;
}

export class SessionIndex {
  readonly #sp: Savepoint;
  /** In the order in which the sessions were found. */
  readonly #rows = new Map<string, SessionRow>();
  #building: Promise<void> | undefined;
  #isComplete = false;
  #refreshing: Promise<void> | undefined;
  #nextRefreshAt = 0;
  #warm: string[] = [];
  #rotation: string[] = [];
  #version = 0;
  #listeners = new Set<(changes: SessionChanges) => void>();
  #closed = false;

  constructor(sp: Savepoint) {
    this.#sp = sp;
  }

  get version(): number {
    return this.#version;
  }

  get isIndexing(): boolean {
    return !this.#isComplete;
  }

  get size(): number {
    return this.#rows.size;
  }

  rows(): IterableIterator<SessionRow> {
    return this.#rows.values();
  }

  get(id: string): SessionRow | undefined {
    return this.#rows.get(id);
  }

  /** Calls a listener with all changes. Returns a function that removes it. */
  onChange(listener: (changes: SessionChanges) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Starts to build the index, or refreshes it, and waits for that for at most `wait` milliseconds. */
  async update(wait: number): Promise<void> {
    const work = this.#isComplete ? this.#refresh() : (this.#building ??= this.#build());
    let timer: NodeJS.Timeout | undefined;
    const timeout = new Promise<void>((resolve) => (timer = setTimeout(resolve, wait)));
    await Promise.race([work, timeout]).finally(() => clearTimeout(timer));
  }

  /** Reads one session again, because it is known to have changed. */
  async reload(id: string): Promise<void> {
    const read = await this.#load(id);
    if (read) this.#publish([read]);
  }

  close(): void {
    this.#closed = true;
    this.#listeners.clear();
  }

  async #build(): Promise<void> {
    try {
      let batch: SessionInfo[] = [];
      for await (const info of this.#sp.sessions.list({ limit: MAX_SESSIONS })) {
        if (this.#closed) return;
        batch.push(info);
        if (batch.length < 1000) continue;
        this.#publish(batch.map((each) => ({ id: each.id, info: each })));
        batch = [];
      }
      this.#publish(batch.map((each) => ({ id: each.id, info: each })));
      this.#isComplete = true;
      this.#publish([], true);
    } finally {
      this.#building = undefined;
    }
  }

  async #refresh(): Promise<void> {
    if (performance.now() < this.#nextRefreshAt) return this.#refreshing;
    this.#refreshing ??= this.#readChanges().finally(() => (this.#refreshing = undefined));
    return this.#refreshing;
  }

  async #readChanges(): Promise<void> {
    const startedAt = performance.now();
    const read = new Map<string, SessionInfo | undefined>();
    let known = 0;
    for await (const info of this.#sp.sessions.list()) {
      if (this.#closed) return;
      read.set(info.id, info);
      known = this.#rows.has(info.id) ? known + 1 : 0;
      if (known >= KNOWN_IN_A_ROW || this.#rows.size + read.size > MAX_SESSIONS) break;
    }
    for (const id of new Set(this.#nextIds())) {
      if (this.#closed) return;
      const loaded = read.has(id) ? undefined : await this.#load(id);
      if (loaded) read.set(id, loaded.info);
    }
    this.#publish([...read].map(([id, info]) => ({ id, info })));
    this.#nextRefreshAt = performance.now() + REST * (performance.now() - startedAt);
  }

  /** The sessions that a refresh reads: those that are likely to have changed, and a few of the others in turn. */
  #nextIds(): string[] {
    const now = Date.now();
    const hot: SessionRow[] = [];
    const isWarm = ({ status, updatedAt }: SessionRow): boolean =>
      UNFINISHED.has(status) || updatedAt >= now - WARM_FOR;
    for (const row of this.#rows.values()) {
      if (ACTIVE.has(row.status) || row.updatedAt >= now - HOT_FOR) hot.push(row);
    }
    if (hot.length > MAX_HOT) hot.sort((a, b) => b.updatedAt - a.updatedAt);
    if (this.#warm.length === 0) this.#warm = [...this.#rows.values()].filter(isWarm).map(({ id }) => id);
    if (this.#rotation.length === 0) this.#rotation = [...this.#rows.keys()];
    const ids = hot.slice(0, MAX_HOT).map(({ id }) => id);
    return [...ids, ...this.#warm.splice(-WARM_ROTATION), ...this.#rotation.splice(-ROTATION)];
  }

  /** Reads one session. A damaged one keeps its row: the event `damage` reports it. */
  async #load(id: string): Promise<LoadedSession | undefined> {
    try {
      return { id, info: await this.#sp.sessions.load(id) };
    } catch (error) {
      if (isSavepointError(error, "DAMAGED")) return undefined;
      throw error;
    }
  }

  #publish(read: readonly LoadedSession[], always = false): void {
    const rows: SessionRow[] = [];
    const removed: string[] = [];
    for (const { id, info } of read) {
      const before = this.#rows.get(id);
      if (!info) {
        if (this.#rows.delete(id)) removed.push(id);
        continue;
      }
      const row = toSessionRow(info);
      if (before && JSON.stringify(before) === JSON.stringify(row)) continue;
      this.#rows.set(id, row);
      rows.push(row);
    }
    if (rows.length === 0 && removed.length === 0 && !always) return;
    this.#version++;
    for (const listener of this.#listeners) listener({ rows, removed });
  }
}
