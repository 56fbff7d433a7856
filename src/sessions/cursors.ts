/** The cursors of a process, within a budget of memory: those used longest ago lose their shadows first. */
import { BranchCursor, type SharedSession } from "./branch-cursor.js";
import type { NumberSource } from "./numbers.js";
import type { SessionReader } from "./reader.js";

/** Cursors without a shadow are small, but not nothing. */
const MAX_CURSORS = 20_000;

export class Cursors {
  readonly numbers: NumberSource;
  readonly #budget: number;
  /** In the order in which they were last used. */
  readonly #cursors = new Map<string, BranchCursor>();
  /** The bytes of those that have a shadow, in the order in which they last worked. */
  readonly #sizes = new Map<BranchCursor, number>();
  #bytes = 0;
  readonly #shared = new Map<string, { shared: SharedSession; uses: number }>();

  constructor(numbers: NumberSource, budget: number) {
    this.numbers = numbers;
    this.#budget = budget;
  }

  get(reader: SessionReader, branch: string): BranchCursor {
    const key = `${reader.sessionId}\t${branch}`;
    const cursor = this.#cursors.get(key) ?? this.#create(reader, branch);
    this.#cursors.delete(key);
    this.#cursors.set(key, cursor);
    return cursor;
  }

  /** Notes what a cursor takes now that it has worked, and makes room if that is too much. */
  enforceBudget(cursor: BranchCursor): void {
    this.#note(cursor);
    for (const oldest of this.#sizes.keys()) {
      if (this.#bytes <= this.#budget) break;
      // The one that has just worked will most likely work again: a state larger than the budget is kept while it is alone.
      if (!oldest.isIdle || oldest === cursor) continue;
      oldest.evict();
      this.#note(oldest);
    }
    for (const [key, oldest] of this.#cursors) {
      if (this.#cursors.size <= MAX_CURSORS) break;
      if (oldest.isIdle) this.#forget(key, oldest);
    }
  }

  /** A number for a new session. */
  nextSessionNumber(): Promise<number> {
    return this.numbers.next();
  }

  /** Resolves when nothing is being saved any more. */
  async idle(): Promise<void> {
    for (const cursor of this.#cursors.values()) await cursor.idle();
  }

  /** Forgets all that is known of a session. */
  invalidateSession(sessionId: string): void {
    for (const [key, cursor] of this.#cursors) if (key.startsWith(`${sessionId}\t`)) cursor.invalidate();
  }

  /** Forgets all that is known of any session. */
  invalidateAll(): void {
    for (const cursor of this.#cursors.values()) cursor.invalidate();
  }

  #create(reader: SessionReader, branch: string): BranchCursor {
    const entry = this.#shared.get(reader.sessionId) ?? { shared: { loaded: undefined }, uses: 0 };
    entry.uses++;
    this.#shared.set(reader.sessionId, entry);
    return new BranchCursor(reader, branch, entry.shared, this.numbers);
  }

  #note(cursor: BranchCursor): void {
    const { bytes } = cursor;
    this.#bytes += bytes - (this.#sizes.get(cursor) ?? 0);
    this.#sizes.delete(cursor);
    if (bytes > 0) this.#sizes.set(cursor, bytes);
  }

  #forget(key: string, cursor: BranchCursor): void {
    cursor.evict();
    this.#note(cursor);
    this.#cursors.delete(key);
    const sessionId = key.slice(0, key.indexOf("\t"));
    const entry = this.#shared.get(sessionId);
    if (entry && --entry.uses === 0) this.#shared.delete(sessionId);
  }
}
