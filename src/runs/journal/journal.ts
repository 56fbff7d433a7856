/**
 * The journal of a run: what its current step has recorded, and the right to record it.
 *
 * Every write checks the journal's record and replaces it. A process whose lease was taken over finds another epoch there
 * and is refused; so is one whose session was deleted. Writes are made one after another. Entries that are added
 * meanwhile are part of the next write, so results need no write of their own if another one follows.
 *
 * A cancel is a field of the record. Another process adds it under a check of the record, this process in the journal's own
 * turn. A write that is refused only because of a cancel is repeated on the record that has it, so the results of effects
 * that were in progress are recorded. Checkpoints are not repeated: once the record contains a cancel, only the checkpoint
 * that halts the run is written.
 */
import { isSavepointError, SavepointError } from "../../errors.js";
import {
  type CommitParts,
  describeBranch,
  isFenced,
  sessionDeleted,
  type SessionReader,
  toCommit,
} from "../../sessions/index.js";
import { decodeJournal, encodeJournal, journalKey, type JournalRecord, tapeName } from "../../records/index.js";
import type { ItemBatch } from "../../store/index.js";
import { encodeItems } from "./encoded-value.js";
import { type Leases, type Moment, currentMoment } from "../leases/index.js";
import { type EncodedEntries, encodeEntries, type JournalOperation, type StoredResult } from "./entry.js";

/** The run was cancelled. */
export class CancelledError extends Error {
  constructor(readonly reason: string) {
    super(reason);
  }
}

/** What a write may change about the journal beside its entries. */
export type JournalChange = Partial<Pick<JournalRecord, "head" | "failures" | "worked" | "loop" | "cancelReason">>;

/** Entries, encoded where they will be. */
export interface JournalBatch extends EncodedEntries {
  /** How many they are. */
  readonly entryCount: number;
  /** How many were written before them. */
  readonly writtenBefore: number;
  /** Those of their results that were not given out before. */
  readonly newResults: readonly StoredResult[];
  readonly output: ReturnType<typeof encodeItems> | undefined;
}

/** What a write does to the journal. */
export interface JournalWrite {
  readonly parts: CommitParts;
  readonly record: JournalRecord;
  readonly value: string;
  /** Entries that it takes. */
  readonly entryCount: number;
  readonly newResults: readonly StoredResult[];
  /** How many items the journal has when its first `added` entries are written; when all are, if it is not said. */
  countAfter(added?: number): number;
  /** The number of the item with the output. */
  readonly output: number | undefined;
}

const NOTHING: EncodedEntries = { items: [], blobs: new Map(), results: [], ends: [] };

export class Journal {
  readonly #reader: SessionReader;
  readonly #branch: string;
  readonly #leases: Leases;
  #record: JournalRecord;
  #value: string;
  #pending: JournalOperation[] = [];
  /** The first of them, as far as they are encoded. */
  #encoded: EncodedEntries = NOTHING;
  /** Entries added so far. */
  added = 0;
  #turn: Promise<unknown> = Promise.resolve();
  #flushing: Promise<void> | undefined;
  #scheduled: NodeJS.Immediate | undefined;
  /** When it was last known for certain that this process has the branch. */
  #certainAt: Moment;
  /** When the write that is being made began. */
  #began: Moment;
  /** The error that ended it: nothing can be written any more. */
  #failure: Error | undefined;
  /** Has the run released the branch? */
  #isReleased = false;
  readonly #onResults: (results: readonly StoredResult[]) => void;
  readonly #onFailure: (error: Error) => void;

  constructor(
    reader: SessionReader,
    branch: string,
    { journal, preparedAt: at }: { readonly journal: JournalRecord; readonly preparedAt: Moment },
    leases: Leases,
    told: { results: (results: readonly StoredResult[]) => void; failure: (error: Error) => void },
  ) {
    this.#reader = reader;
    this.#branch = branch;
    this.#leases = leases;
    this.#record = journal;
    this.#value = encodeJournal(journal);
    this.#certainAt = this.#began = at;
    this.#onResults = told.results;
    this.#onFailure = told.failure;
  }

  get record(): JournalRecord {
    return this.#record;
  }

  get hasPending(): boolean {
    return this.#pending.length > 0;
  }

  /** Entries that wait to be written. */
  get pendingCount(): number {
    return this.#pending.length;
  }

  /** Adds an entry. It is written with the next write, at the latest when the event loop has had two turns. */
  add(entry: JournalOperation): void {
    this.#pending.push(entry);
    this.added++;
    // The step gets a result one turn after the one before it, and a turn to go on from there.
    this.#scheduled ??= setImmediate(() => {
      this.#scheduled = setImmediate(() => {
        this.#scheduled = undefined;
        // Told through onFailure.
        this.flush().catch(() => {});
      });
    });
  }

  /** Resolves when all that was added is durable. What is added in the same breath goes with it. */
  async flush(): Promise<void> {
    if (this.#failure) throw this.#failure;
    if (this.#pending.length === 0) return this.idle();
    this.#flushing ??= Promise.resolve().then(() => {
      const flushed = this.exclusive(async () => {
        this.#flushing = undefined;
        if (this.#pending.length > 0) await this.#commit(this.planWrite(this.prepare()));
      });
      return flushed.finally(() => (this.#flushing = undefined));
    });
    return this.#flushing;
  }

  /** Resolves when nothing is being written; rejects if nothing can be. */
  async idle(): Promise<void> {
    await this.#turn;
    if (this.#failure) throw this.#failure;
  }

  /**
   * Rejects if somebody else has taken over. Looks only where that could be: a process that was stopped for longer than its
   * lease must not begin anything before it has the lease again, and knows that nobody was faster.
   */
  async checkLease(): Promise<void> {
    // Making sure may take longer than the lease lasts, where the store is away: then it says nothing.
    while (!this.#leases.isUnbrokenSince(this.#certainAt)) {
      await this.#leases.renew();
      const now = currentMoment(this.#reader.context);
      const lost = this.ownershipError(await this.readRecord());
      if (lost) throw this.#fail(lost);
      this.#certainAt = now;
    }
  }

  /** Why nothing may be written any more, where the journal's record in the store is this one. */
  ownershipError(found: JournalRecord | undefined): SavepointError | undefined {
    const { number, epoch } = this.#record;
    if (found?.number !== number) return sessionDeleted(this.#reader.sessionId);
    return found.epoch === epoch ? undefined : leaseLost(this.#reader.sessionId, this.#branch);
  }

  /**
   * Runs a write after those before it. It is repeated if it was refused only because of a cancel. An error that it throws
   * ends the journal.
   */
  exclusive<T>(work: () => Promise<T>): Promise<T> {
    const mine = this.#turn.then(async () => {
      if (this.#failure) throw this.#failure;
      for (;;) {
        this.#began = currentMoment(this.#reader.context);
        try {
          return await work();
        } catch (error) {
          // Nothing was written, and nothing is wrong with the store.
          if (isSavepointError(error, "INVALID_STATE") || error instanceof CancelledError) throw error;
          // If the reason for the refusal cannot be read, the refusal itself is the error.
          const reason = await this.#explain(error).catch(() => error as Error);
          if (reason) throw this.#fail(reason);
        }
      }
    });
    this.#turn = mine.catch(() => {});
    return mine;
  }

  /**
   * Cancels the run: no further effect begins, and only entries and the end of the run are written. The first cancel applies.
   *
   * @returns `false` if the run had already released the branch
   */
  cancel(reason: string): Promise<boolean> {
    return this.exclusive(async () => {
      if (this.#isReleased) return false;
      if (this.#record.cancelReason !== undefined) return true;
      const nothing = {
        ...NOTHING,
        newResults: [],
        entryCount: 0,
        writtenBefore: this.added - this.#pending.length,
        output: undefined,
      };
      await this.#commit(this.planWrite(nothing, { cancelReason: reason }));
      this.#onFailure(new CancelledError(reason));
      return true;
    });
  }

  /** Reads the record again, to adopt a cancel of another process. No other write is in progress meanwhile. */
  refresh(): Promise<void> {
    return this.exclusive(async () => {
      const found = await this.readRecord();
      const lost = this.ownershipError(found);
      if (lost) throw lost;
      if (found) this.#adoptCancel(found);
    });
  }

  /** Changes the record, and writes all that was added with it. */
  async writeChange(change: JournalChange): Promise<void> {
    await this.exclusive(() => this.#commit(this.planWrite(this.prepare(), change)));
  }

  /**
   * Encodes all that was added, once: where it will be is known, and parts that have their places are not written again.
   * To be called inside {@link exclusive}.
   *
   * @param output written behind it
   */
  prepare(keep = true, output?: { readonly value: unknown }): JournalBatch {
    const { tape, first, count } = this.#record;
    const next = first + count;
    const { all, fresh } = keep ? this.#encodePending(tape, next) : { all: NOTHING, fresh: NOTHING.results };
    const end = next + all.items.length;
    return {
      ...all,
      newResults: fresh,
      entryCount: this.#pending.length,
      writtenBefore: this.added - this.#pending.length,
      output: output && encodeItems(output.value, this.#reader.context.registry, tape, end),
    };
  }

  /** Encodes what is not encoded yet. What is has its place, even if writing it has failed before. */
  #encodePending(tape: number, next: number): { all: EncodedEntries; fresh: readonly StoredResult[] } {
    const before = this.#encoded;
    const added = this.#pending.slice(before.ends.length);
    const more = encodeEntries(added, tape, next + before.items.length);
    this.#encoded = {
      items: [...before.items, ...more.items],
      blobs: new Map([...before.blobs, ...more.blobs]),
      results: [...before.results, ...more.results],
      ends: [...before.ends, ...more.ends.map((end) => before.items.length + end)],
    };
    return { all: this.#encoded, fresh: more.results };
  }

  /** What a write of what was prepared looks like, with changes to the record beside it; {@link writtenBefore} comes after it. */
  planWrite(
    { items, blobs, newResults, ends, entryCount, writtenBefore, output }: JournalBatch,
    change: JournalChange = {},
    boundary?: number,
  ): JournalWrite {
    const before = this.#record;
    const next = before.first + before.count;
    const all = output ? [...items, ...output.items] : items;
    const record: JournalRecord =
      boundary !== undefined
        ? { ...before, ...change, first: next + all.length, count: 0, boundary, head: boundary, origin: boundary }
        : { ...before, ...change, count: before.count + items.length };
    const value = encodeJournal(record);
    const key = journalKey(this.#reader.sessionId, this.#branch);
    const run: ItemBatch = { tape: tapeName(before.number, before.tape), first: next, items: all };
    const parts: CommitParts = {
      checks: [{ key, value: this.#value }],
      puts: [{ key, value }],
      items: all.length > 0 ? [run] : [],
      blobs: new Map([...blobs, ...(output?.blobs ?? [])]),
    };
    const countAfter = (added = writtenBefore + entryCount): number =>
      before.count + (ends[added - writtenBefore - 1] ?? 0);
    return { parts, record, value, entryCount, newResults, countAfter, output: output?.at };
  }

  /** Notes that the branch was released with the last write. */
  markReleased(): void {
    this.#isReleased = true;
  }

  /** Notes that a write was made. */
  markWritten(write: JournalWrite): void {
    this.#record = write.record;
    this.#value = write.value;
    // It was so when the write was made, and that was after it began.
    this.#certainAt = this.#began;
    this.#pending = this.#pending.slice(write.entryCount);
    // Entries that were encoded and not written keep their numbers.
    if (write.entryCount > 0) this.#encoded = NOTHING;
    if (this.#pending.length === 0) this.#unschedule();
  }

  /** Nothing is written any more. */
  close(error: Error): void {
    this.#failure ??= error;
    this.#unschedule();
  }

  #unschedule(): void {
    if (this.#scheduled) clearImmediate(this.#scheduled);
    this.#scheduled = undefined;
  }

  /** Adopts the cancel from the stored record; `false` if the record has other changes too. */
  #adoptCancel(found: JournalRecord): boolean {
    const { cancelReason } = found;
    if (cancelReason === undefined || this.#record.cancelReason !== undefined) return false;
    const record = { ...this.#record, cancelReason };
    const value = encodeJournal(record);
    if (encodeJournal(found) !== value) return false;
    this.#record = record;
    this.#value = value;
    this.#onFailure(new CancelledError(cancelReason));
    return true;
  }

  async #commit(write: JournalWrite): Promise<void> {
    await this.#reader.context.store.commit(toCommit(write.parts));
    this.markWritten(write);
    this.#onResults(write.newResults);
  }

  #fail(error: Error): Error {
    this.#failure ??= error;
    this.#onFailure(this.#failure);
    return this.#failure;
  }

  /** Why a write was refused; `undefined` if it was only because of a cancel, which is then adopted. */
  async #explain(error: unknown): Promise<Error | undefined> {
    if (!isSavepointError(error, "CONFLICT")) return error as Error;
    const found = await this.readRecord();
    const lost = this.ownershipError(found);
    if (lost) return lost;
    if (found && this.#adoptCancel(found)) return undefined;
    // A writer that ignores leases has moved the branch.
    return isFenced(error) ? error : leaseLost(this.#reader.sessionId, this.#branch, error);
  }

  /** The record as it is in the store. */
  async readRecord(): Promise<JournalRecord | undefined> {
    const [record] = await this.#reader.context.store.get([journalKey(this.#reader.sessionId, this.#branch)]);
    if (!record) return undefined;
    if ("value" in record) return decodeJournal(record.value);
    throw new SavepointError("DAMAGED", `The journal of a run is damaged: ${record.unreadable}.`);
  }
}

export function leaseLost(sessionId: string, branch: string, cause?: unknown): SavepointError<"LEASE_LOST"> {
  return new SavepointError(
    "LEASE_LOST",
    `${describeBranch(sessionId, branch)} is run by somebody else by now: this process did not renew its lease in time, or the session was taken over. Nothing more is written here.`,
    { cause, details: { sessionId, branch } },
  );
}
