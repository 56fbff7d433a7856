/**
 * The journal of a run: the entries of its current step, and the right of this process to write them.
 *
 * Every write checks the journal's record and replaces it. A process that has lost the branch finds another epoch there and is
 * refused; so is one whose session was deleted. Writes are made one after another. Entries that are added meanwhile are part
 * of the next write, so a result needs no write of its own if another one follows.
 *
 * A cancel is a field of the record. Another process adds it under a check of the record, this process in the journal's own
 * turn. A write that is refused only because of a cancel is repeated on the record that contains it, so the results of
 * effects in progress are recorded. Checkpoints are not repeated: once the record contains a cancel, only the checkpoint that
 * halts the run is written.
 */
import { isSavepointError, SavepointError } from "../../errors.js";
import { describeBranch, isFenced, sessionDeleted, type SessionReader, toCommit } from "../../sessions/index.js";
import { decodeJournal, encodeJournal, journalKey, type JournalRecord } from "../../records/index.js";
import { Mutex, thisProcess } from "../../util/index.js";
import { StreamHub, streamKey, type StreamRecorder } from "../streams/index.js";
import { encodeItems } from "./encoded-value.js";
import { type Leases, type Moment, currentMoment } from "../leases/index.js";
import type { EncodedEntries, JournalOperation, StoredResult } from "./entry.js";
import {
  appendEntries,
  type JournalBatch,
  type JournalChange,
  type JournalWrite,
  NOTHING,
  planJournalWrite,
  type StepBoundary,
} from "./journal-write.js";

/** Thrown inside a run that was cancelled. */
export class CancelledError extends Error {
  constructor(readonly reason: string) {
    super(reason);
  }
}

export class Journal {
  readonly #reader: SessionReader;
  readonly #branch: string;
  readonly #leases: Leases;
  #record: JournalRecord;
  #value: string;
  #pending: JournalOperation[] = [];
  /** The encoded ones among the pending entries, which are the first of them. */
  #encoded: EncodedEntries = NOTHING;
  /** The number of entries added so far. */
  added = 0;
  readonly #writes = new Mutex();
  #flushing: Promise<void> | undefined;
  #scheduled: NodeJS.Immediate | undefined;
  /** A write that is to be made in place of the next one. See {@link writeWithNext}. */
  #deferred: (() => Promise<void>) | undefined;
  /** When this process certainly held the branch for the last time. */
  #heldAt: Moment;
  /** When the current write began. */
  #writeBeganAt: Moment;
  /** The error that ended the journal. Nothing is written after it. */
  #failure: Error | undefined;
  /** Whether the run has released the branch. */
  #isReleased = false;
  /** The process, in the first entry of a step that a worker executes. */
  readonly #worker: Pick<JournalOperation, "worker">;
  readonly #recorder: StreamRecorder;
  readonly #onResults: (results: readonly StoredResult[]) => void;
  readonly #onFailure: (error: Error) => void;

  constructor(
    reader: SessionReader,
    branch: string,
    { journal, preparedAt }: { readonly journal: JournalRecord; readonly preparedAt: Moment },
    leases: Leases,
    options: {
      readonly isWorker: boolean;
      readonly recorder: StreamRecorder;
      onResults: (results: readonly StoredResult[]) => void;
      onFailure: (error: Error) => void;
    },
  ) {
    this.#reader = reader;
    this.#branch = branch;
    this.#leases = leases;
    this.#record = journal;
    this.#value = encodeJournal(journal);
    this.#heldAt = this.#writeBeganAt = preparedAt;
    this.#worker = options.isWorker ? { worker: formatWorker(thisProcess()) } : {};
    this.#recorder = options.recorder;
    this.#recorder.connect(() => this.#writeDeltas());
    this.#onResults = options.onResults;
    this.#onFailure = options.onFailure;
  }

  get record(): JournalRecord {
    return this.#record;
  }

  /** The number of entries that are not written yet. */
  get pendingCount(): number {
    return this.#pending.length;
  }

  /**
   * Adds an entry. It is written with the next write, at the latest after two turns of the event loop. The first entry of a step
   * that a worker executes names its process.
   */
  add(entry: JournalOperation): void {
    this.#pending.push(entry.mark ? { ...entry, ...this.#worker } : entry);
    this.added++;
    this.#schedule();
  }

  #schedule(): void {
    // The step receives each result in a turn of its own, and needs another turn to continue from it.
    this.#scheduled ??= setImmediate(() => {
      this.#scheduled = setImmediate(() => {
        this.#scheduled = undefined;
        // Reported through onFailure.
        this.flush().catch(() => {});
      });
    });
  }

  /**
   * Resolves when all added entries are durable, and a deferred write is made. Entries that are added in the same microtask are
   * included.
   */
  async flush(): Promise<void> {
    if (this.#failure) throw this.#failure;
    if (this.#pending.length === 0 && !this.#deferred) return this.idle();
    this.#flushing ??= Promise.resolve().then(async () => {
      const deferred = this.#deferred;
      this.#deferred = undefined;
      if (deferred) {
        this.#flushing = undefined;
        await deferred();
      }
      const flushed = this.exclusive(async () => {
        this.#flushing = undefined;
        if (this.#pending.length > 0) await this.#commit(this.planWrite(this.prepare()));
      });
      return flushed.finally(() => (this.#flushing = undefined));
    });
    return this.#flushing;
  }

  /** Resolves when all added entries are durable. Does not wait for a deferred write. */
  async flushEntries(): Promise<void> {
    if (this.#failure) throw this.#failure;
    if (this.#pending.length > 0) await this.flush();
  }

  /** Makes a deferred write now. */
  async writeDeferred(): Promise<void> {
    if (this.#deferred) await this.flush();
  }

  /**
   * Makes a write that contains all entries which are pending then, such as a checkpoint, in place of the next write of entries.
   * Without one, it is made after two turns of the event loop.
   *
   * @param write calls {@link exclusive} at once
   */
  async writeWithNext<T>(write: () => Promise<T>): Promise<T> {
    while (this.#deferred) await this.flush();
    if (this.#failure) throw this.#failure;
    return new Promise((resolve, reject) => {
      // The entries are written even if the rest of the write is refused.
      this.#deferred = () => write().then(resolve, reject);
      this.#schedule();
    });
  }

  /** Resolves when all writes so far have ended. Rejects if the journal has failed. */
  async idle(): Promise<void> {
    if (!this.#writes.isIdle) await this.#writes.run(async () => {});
    if (this.#failure) throw this.#failure;
  }

  /** Whether all added entries are durable, no write is in progress, and no other process can have claimed the branch. */
  get isDurable(): boolean {
    const isIdle = this.#pending.length === 0 && this.#writes.isIdle && !this.#failure;
    return isIdle && this.#leases.isUnbrokenSince(this.#heldAt);
  }

  /**
   * Rejects if another process has claimed the branch. The store is read only if that is possible: a process that was
   * suspended for longer than its lease must not start an effect before it has renewed the lease and checked the record.
   */
  async checkLease(): Promise<void> {
    // If the store was unavailable, the check may take longer than the lease lasts, and has to be repeated.
    while (!this.#leases.isUnbrokenSince(this.#heldAt)) {
      await this.#leases.renew();
      const now = currentMoment(this.#reader.context);
      const lost = this.ownershipError(await this.readRecord());
      if (lost) throw this.#fail(lost);
      this.#heldAt = now;
    }
  }

  /** The error if this process may no longer write, according to the stored record; `undefined` if it may. */
  ownershipError(found: JournalRecord | undefined): SavepointError | undefined {
    const { number, epoch } = this.#record;
    if (found?.number !== number) return sessionDeleted(this.#reader.sessionId);
    return found.epoch === epoch ? undefined : leaseLost(this.#reader.sessionId, this.#branch);
  }

  /**
   * Makes a write after those before it. It is repeated if it was refused only because of a cancel. Any other error ends the
   * journal, except `INVALID_STATE` and {@link CancelledError}.
   */
  exclusive<T>(work: () => Promise<T>): Promise<T> {
    return this.#writes.run(async () => {
      if (this.#failure) throw this.#failure;
      for (;;) {
        this.#writeBeganAt = currentMoment(this.#reader.context);
        try {
          await this.#recorder.prepare(this.#record);
          return await work();
        } catch (error) {
          // Nothing was written, and the store has not failed.
          if (isSavepointError(error, "INVALID_STATE") || error instanceof CancelledError) throw error;
          // If the reason for the refusal cannot be read, the refusal itself is the error.
          const reason = await this.#explain(error).catch(() => error as Error);
          if (reason) throw this.#fail(reason);
        }
      }
    });
  }

  /**
   * Cancels the run: no further effect starts, and only entries and the end of the run are written. The first cancel applies.
   *
   * @returns `false` if the run had already released the branch
   */
  cancel(reason: string): Promise<boolean> {
    return this.exclusive(async () => {
      if (this.#isReleased) return false;
      if (this.#record.cancelReason !== undefined) return true;
      await this.#commit(this.planWrite(this.#noEntries(), { cancelReason: reason }));
      this.#onFailure(new CancelledError(reason));
      return true;
    });
  }

  /** Writes recorded deltas, if no other write has contained them. */
  async #writeDeltas(): Promise<void> {
    await this.exclusive(async () => {
      const write = this.planWrite(this.#noEntries());
      if (write.stream) await this.#commit(write);
    });
  }

  #noEntries(): JournalBatch {
    const writtenBefore = this.added - this.#pending.length;
    return { ...NOTHING, newResults: [], entryCount: 0, writtenBefore, output: undefined };
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

  /** Changes the record, and writes all pending entries with it. */
  async writeChange(change: JournalChange): Promise<void> {
    await this.exclusive(() => this.#commit(this.planWrite(this.prepare(), change)));
  }

  /**
   * Encodes all pending entries for their place on the tape. Call it inside {@link exclusive}. Entries that an earlier call has
   * encoded keep their places, even if their write has failed.
   *
   * @param output of the run, to be written after the entries
   */
  prepare(output?: { readonly value: unknown }): JournalBatch {
    const { tape, first, count } = this.#record;
    const next = first + count;
    const added = this.#pending.slice(this.#encoded.ends.length);
    const { all, fresh } = appendEntries(this.#encoded, added, tape, next);
    this.#encoded = all;
    const { items, blobs, results, ends } = all;
    const end = next + items.length;
    return {
      items,
      blobs,
      results,
      ends,
      newResults: fresh,
      entryCount: this.#pending.length,
      writtenBefore: this.added - this.#pending.length,
      output: output && encodeItems(output.value, this.#reader.context.registry, tape, end),
    };
  }

  /**
   * Plans the write of a batch and of all recorded deltas, with changes to the record. Call {@link markWritten} when it is
   * committed.
   *
   * @param change.endsTurn whether the deltas of the turn are not needed any more
   * @param boundary if the write ends the current step
   */
  planWrite(
    batch: JournalBatch,
    { endsTurn = false, ...change }: JournalChange & { readonly endsTurn?: boolean } = {},
    boundary?: StepBoundary,
  ): JournalWrite {
    const before = { record: this.#record, value: this.#value };
    const key = journalKey(this.#reader.sessionId, this.#branch);
    return planJournalWrite(key, before, batch, change, boundary, this.#recorder.plan(this.#record, endsTurn));
  }

  /** Notes that the branch was released with the last write. */
  markReleased(): void {
    this.#isReleased = true;
  }

  /** Notes that a write was made. */
  markWritten(write: JournalWrite): void {
    this.#record = write.record;
    this.#value = write.value;
    // The write succeeded, so this process held the branch at some time after the write began.
    this.#heldAt = this.#writeBeganAt;
    this.#pending = this.#pending.slice(write.entryCount);
    if (write.stream) {
      this.#recorder.written(write.stream);
      StreamHub.of(this.#reader.context).notify(streamKey(this.#reader.sessionId, this.#branch));
    }
    // Entries that were encoded and not written keep their numbers.
    if (write.entryCount > 0) this.#encoded = NOTHING;
    if (this.#pending.length === 0 && !this.#deferred) this.#unschedule();
  }

  /** Ends the journal: further writes throw this error. */
  close(error: Error): void {
    this.#failure ??= error;
    this.#deferred = undefined;
    this.#recorder.close();
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

  /** Reads the record from the store. */
  async readRecord(): Promise<JournalRecord | undefined> {
    const [record] = await this.#reader.context.store.get([journalKey(this.#reader.sessionId, this.#branch)]);
    if (!record) return undefined;
    if ("value" in record) return decodeJournal(record.value);
    const where = describeBranch(this.#reader.sessionId, this.#branch);
    throw new SavepointError(
      "DAMAGED",
      `${where} has a damaged journal: ${record.unreadable}. Run \`savepoint verify\` for details.`,
    );
  }
}

/** The most characters in the name of a process. With its key, it adds at most 20 bytes to an entry. */
const MAX_WORKER = 13;

/** The host and the pid of a process. A long host name is shortened to the end of its first label, which distinguishes replicas. */
export function formatWorker({ host, pid }: { readonly host: string; readonly pid: number }): string {
  const label = host.split(".")[0]?.replace(/[^\w-]/g, "_");
  return `${label}:${pid}`.slice(-MAX_WORKER);
}

/** The error of a run whose branch another writer has claimed, released or changed. */
export function leaseLost(sessionId: string, branch: string, cause?: unknown): SavepointError<"LEASE_LOST"> {
  return new SavepointError(
    "LEASE_LOST",
    `${describeBranch(sessionId, branch)} is no longer held by this run: its lease has expired, or another writer has claimed, released or changed the branch. The run writes nothing more to it.`,
    { cause, details: { sessionId, branch } },
  );
}
