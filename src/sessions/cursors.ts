/** The cache of branch cursors, within a memory budget: the least recently used ones lose their shadows first. */
import { BranchCursor, type SharedSession } from "./branch-cursor.js";
import type { NumberSource } from "./numbers.js";
import type { SessionReader } from "./reader.js";

/** A cursor without a shadow is small, but takes memory too. */
const MAX_CURSORS = 20_000;

/** The branch cursors of a process. Cursors with work in progress are never evicted. */
export class Cursors {
  /** The numbers for new sessions. */
  readonly numbers: NumberSource;
  readonly #budget: number;
  /** By session and branch, least recently used first. */
  readonly #cursors = new Map<string, BranchCursor>();
  /** The bytes of the cursors with a shadow, least recently used first. */
  readonly #sizes = new Map<BranchCursor, number>();
  #bytes = 0;
  readonly #shared = new Map<string, { shared: SharedSession; uses: number }>();

  constructor(numbers: NumberSource, budget: number) {
    this.numbers = numbers;
    this.#budget = budget;
  }

  /** The cursor of a branch. It is created if it is not cached. */
  get(reader: SessionReader, branch: string): BranchCursor {
    const key = `${reader.sessionId}\t${branch}`;
    const cursor = this.#cursors.get(key) ?? this.#create(reader, branch);
    this.#cursors.delete(key);
    this.#cursors.set(key, cursor);
    return cursor;
  }

  /** Updates the memory use of a cursor after it has worked, and evicts other shadows if the budget is exceeded. */
  enforceBudget(cursor: BranchCursor): void {
    this.#recordSize(cursor);
    for (const oldest of this.#sizes.keys()) {
      if (this.#bytes <= this.#budget) break;
      // The cursor that just worked will most likely work again: it keeps its shadow even if that alone exceeds the budget.
      if (!oldest.isIdle || oldest === cursor) continue;
      oldest.evict();
      this.#recordSize(oldest);
    }
    for (const [key, oldest] of this.#cursors) {
      if (this.#cursors.size <= MAX_CURSORS) break;
      if (oldest.isIdle) this.#forget(key, oldest);
    }
  }

  /** Resolves when no cursor has work in progress. */
  async idle(): Promise<void> {
    for (const cursor of this.#cursors.values()) await cursor.idle();
  }

  /** Makes all cursors of a session read its records again. */
  invalidateSession(sessionId: string): void {
    for (const [key, cursor] of this.#cursors) if (key.startsWith(`${sessionId}\t`)) cursor.invalidate();
  }

  /** Makes all cursors read their records again. */
  invalidateAll(): void {
    for (const cursor of this.#cursors.values()) cursor.invalidate();
  }

  #create(reader: SessionReader, branch: string): BranchCursor {
    const entry = this.#shared.get(reader.sessionId) ?? { shared: { loaded: undefined }, uses: 0 };
    entry.uses++;
    this.#shared.set(reader.sessionId, entry);
    return new BranchCursor(reader, branch, entry.shared, this.numbers);
  }

  #recordSize(cursor: BranchCursor): void {
    const { bytes } = cursor;
    this.#bytes += bytes - (this.#sizes.get(cursor) ?? 0);
    this.#sizes.delete(cursor);
    if (bytes > 0) this.#sizes.set(cursor, bytes);
  }

  #forget(key: string, cursor: BranchCursor): void {
    cursor.evict();
    this.#recordSize(cursor);
    this.#cursors.delete(key);
    const sessionId = key.slice(0, key.indexOf("\t"));
    const entry = this.#shared.get(sessionId);
    if (entry && --entry.uses === 0) this.#shared.delete(sessionId);
  }
}
