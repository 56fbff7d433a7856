/**
 * Writes groups of commits.
 *
 * A group takes as many transactions as needed to give the event loop its turns, and one sync to disk. Each commit goes to the
 * write buffer if that is possible, otherwise to the tables. A commit that cannot be applied fails alone.
 */
import { setImmediate as nextTurn } from "node:timers/promises";
import { SavepointError } from "../../errors.js";
import {
  checksum,
  commitConflict,
  type CommitOutcome,
  counterDamaged,
  type FailedCheck,
  isChecksum,
  type NumberedItems,
  numberItems,
  readCounter,
  testHooksOf,
} from "../shared/index.js";
import type { Check, Commit, CommitResult, ItemBatch } from "../contract/index.js";
import type { SqliteConnection } from "./connection.js";
import type { SqliteOptions, WritePoint } from "./options.js";
import { type CompressedBody, compressBlobs, RAW } from "../chunks/index.js";
import { appendItems, findRecords, putRecords, type SqliteRecordRow, toStoredValue } from "./rows.js";
import type { SqlitePacker } from "./packer.js";
import type { BufferedCommit } from "./buffer-codec.js";
import { footprintOf, type WriteBuffer } from "./write-buffer.js";

/** How long a transaction may block the event loop, in milliseconds. */
const MAX_BLOCKING = 3;

/** The largest group that is buffered. The commits of a larger one share pages, so writing them to the tables costs no more. */
const MAX_BUFFERED_GROUP = 4;

/** The most commits of a larger group that are written together, before the time is checked. */
const MAX_COLLECTED = 16;

const NO_KEYS: ReadonlySet<string> = new Set();

const REPLACE = "UPDATE savepoint_record SET sum = ?, value = ? WHERE key = ? AND sum = ? AND refs = '' AND value = ?";

export class SqliteWriter {
  readonly #connection: SqliteConnection;
  readonly #packer: SqlitePacker;
  readonly #buffer: WriteBuffer;
  readonly #clock: () => number;
  readonly #compress: boolean;
  /** The compressed blobs of the group that is being written, by hash. */
  #compressedBlobs: ReadonlyMap<string, CompressedBody> = new Map();
  readonly #probe: (point: WritePoint) => void;

  constructor(connection: SqliteConnection, packer: SqlitePacker, buffer: WriteBuffer, options: SqliteOptions) {
    this.#connection = connection;
    this.#packer = packer;
    this.#buffer = buffer;
    this.#clock = options.now ?? Date.now;
    this.#compress = options.compress ?? true;
    this.#probe = testHooksOf(options).probe ?? (() => {});
  }

  /** Writes one commit synchronously and makes it durable. Returns `undefined`, and writes nothing, if that must wait. */
  applyNow(commit: Commit): CommitResult | undefined {
    // Blobs are compressed in a thread.
    if (commit.blobs?.some(({ bytes }) => bytes !== undefined)) return undefined;
    const result = this.#connection.transactNow("Writing to", () => {
      this.#probe("begin");
      this.#buffer.detectForeignWrites();
      const applied = this.#apply(commit, 1);
      this.#probe("commit");
      return applied;
    });
    if (result) {
      this.#probe("committed");
      this.#probe("durable");
    }
    return result;
  }

  /** Writes one commit synchronously, without a sync to disk, if that is possible immediately. */
  applyAtExit(commit: Commit): void {
    this.#connection.transactAtExit("Writing to", () => {
      this.#buffer.detectForeignWrites();
      this.#apply(commit, 1);
    });
  }

  /** Writes a group and waits until it is durable. Returns the outcome of each commit. Throws if the sync to disk fails. */
  async apply(commits: readonly Commit[]): Promise<readonly CommitOutcome[]> {
    const outcomes: CommitOutcome[] = [];
    this.#compressedBlobs = await compressBlobs(commits, this.#compress);
    for (;;) {
      const left = commits.slice(outcomes.length);
      outcomes.push(...(await this.#applySome(left)));
      if (outcomes.length === commits.length) break;
      await nextTurn();
    }
    this.#probe("committed");
    await this.#connection.makeDurable(commits.length === 1);
    this.#probe("durable");
    return outcomes;
  }

  /** Writes the first few commits in one transaction and returns their outcomes; those of all commits if it could not begin. */
  async #applySome(commits: readonly Commit[]): Promise<CommitOutcome[]> {
    let outcomes: CommitOutcome[] = [];
    let tried = commits.length;
    try {
      await this.#connection.transaction("Writing to", () => {
        this.#probe("begin");
        this.#buffer.detectForeignWrites();
        [outcomes, tried] = [[], 0];
        const deadline = performance.now() + MAX_BLOCKING;
        const collected: BufferedCommit[] = [];
        for (const commit of commits) {
          tried++;
          outcomes.push(
            commits.length === 1 ? this.#apply(commit, 1) : this.#applyAlone(commit, commits.length, collected),
          );
          if (collected.length > 0 && collected.length < MAX_COLLECTED) continue;
          this.#writeCollected(collected);
          if (performance.now() >= deadline) break;
        }
        this.#writeCollected(collected);
        this.#probe("commit");
      });
      return outcomes;
    } catch (error) {
      const failure = error as SavepointError;
      return Array.from({ length: tried }, () => failure);
    }
  }

  /** Applies one of several commits. Its failure does not affect the others. */
  #applyAlone(commit: Commit, group: number, collected: BufferedCommit[]): CommitOutcome {
    try {
      const result = group > MAX_BUFFERED_GROUP ? this.#buffer.tryCollect(commit, collected) : undefined;
      if (result) return result;
      // In order: what this commit reads may have been written by them.
      this.#writeCollected(collected);
      return this.#apply(commit, group);
    } catch (error) {
      // This commit cannot be applied. Any other error fails the whole transaction.
      if (error instanceof SavepointError) return error;
      throw error;
    }
  }

  /** Writes collected commits to the tables. */
  #writeCollected(collected: BufferedCommit[]): void {
    if (collected.length === 0) return;
    this.#buffer.writeTogether(collected.splice(0));
    this.#probe("records");
  }

  /** Writes a commit to the buffer if possible, otherwise to the tables. @param group how many commits share its transaction */
  #apply(commit: Commit, group: number): CommitResult {
    const buffered = group <= MAX_BUFFERED_GROUP ? this.#buffer.tryAppend(commit) : undefined;
    if (buffered) return buffered;
    const footprint = footprintOf(commit);
    if (!footprint || this.#buffer.mayContain(footprint)) this.#buffer.flush();
    // A single commit is rolled back with its transaction.
    if (group === 1) return this.#write(commit);
    this.#connection.run("SAVEPOINT one_commit");
    try {
      const result = this.#write(commit);
      this.#connection.run("RELEASE one_commit");
      return result;
    } catch (error) {
      if (error instanceof SavepointError) {
        this.#connection.run("ROLLBACK TO one_commit");
        this.#connection.run("RELEASE one_commit");
      }
      throw error;
    }
  }

  /** Writes a commit to the tables. Throws a SavepointError if it cannot be applied. */
  #write(commit: Commit): CommitResult {
    const replaced = this.#replaceRecords(commit);
    const failed = this.#failedChecks(commit, replaced);
    if (failed.length > 0) throw commitConflict(failed);
    this.#probe("checked");
    this.#writeRecords(commit, replaced);
    this.#probe("records");
    const batches = (commit.items ?? []).map((batch) => this.#writeItems(batch));
    this.#probe("items");
    this.#writeBlobs(commit);
    this.#probe("blobs");
    this.#buffer.remember(commit);
    for (const batch of batches) this.#packer.noteItems(batch);
    return { firsts: batches.map(({ first }) => first) };
  }

  /**
   * Checks and replaces records with one statement each if the commit checks their value and puts another, as most saves do with
   * their branch. Returns the keys of the replaced records, whose checks have passed. The other checks are evaluated as usual.
   */
  #replaceRecords({ checks = [], puts = [], deletes = [] }: Commit): ReadonlySet<string> {
    if (checks.length === 0 || deletes.length > 0) return NO_KEYS;
    const expected = new Map(checks.map((check) => [check.key, "value" in check ? check.value : undefined]));
    if (expected.size < checks.length) return NO_KEYS;
    const replaced = new Set<string>();
    for (const { key, value, refs = "", ifAbsent } of puts) {
      const before = expected.get(key);
      if (before === undefined || ifAbsent || refs !== "" || replaced.has(key)) continue;
      const [sum, sumBefore] = [checksum(key, "", value), checksum(key, "", before)];
      const stored = toStoredValue(value);
      if (this.#connection.run(REPLACE, sum, stored, key, sumBefore, toStoredValue(before)) === 1) replaced.add(key);
    }
    return replaced;
  }

  #failedChecks(commit: Commit, replaced: ReadonlySet<string>): FailedCheck[] {
    const checks = (commit.checks ?? []).filter((check) => !replaced.has(check.key));
    const found = findRecords(
      this.#connection,
      checks.map((check) => check.key),
    );
    const failed: FailedCheck[] = checks.filter((check) => !holds(check, found.get(check.key)));
    if (commit.notBefore !== undefined && this.#clock() < commit.notBefore) failed.push({ key: "notBefore" });
    for (const use of commit.blobs ?? []) {
      if (!use.bytes && !this.#connection.row("SELECT 1 FROM savepoint_blob WHERE hash = ?", use.hash))
        failed.push({ key: use.hash });
    }
    return failed;
  }

  #writeRecords(commit: Commit, replaced: ReadonlySet<string>): void {
    for (const target of commit.deletes ?? []) {
      if (typeof target === "string") this.#connection.run("DELETE FROM savepoint_record WHERE key = ?", target);
      else this.#connection.run("DELETE FROM savepoint_record WHERE key >= ? AND key < ?", target.from, target.to);
    }
    // In order: a later put of the same key wins, and one with `ifAbsent` finds earlier ones.
    const done = new Set(replaced);
    const puts = (commit.puts ?? []).filter((put) => !done.delete(put.key));
    for (let from = 0; from < puts.length;) {
      const ifAbsent = puts[from]?.ifAbsent ?? false;
      let to = from + 1;
      while (to < puts.length && (puts[to]?.ifAbsent ?? false) === ifAbsent) to++;
      putRecords(this.#connection, puts.slice(from, to), ifAbsent);
      from = to;
    }
  }

  /** Appends a batch of items. */
  #writeItems(batch: ItemBatch): NumberedItems {
    const numbered = numberItems(batch, "first" in batch ? batch.first : this.#readCounter(batch.counter));
    const { tape, first, items } = numbered;
    if ("counter" in batch) {
      putRecords(this.#connection, [{ key: batch.counter, value: String(first + items.length) }], false);
    }
    // Another writer has appended to the tape since the caller read it.
    if (!appendItems(this.#connection, tape, first, items)) throw commitConflict([{ key: tape }]);
    return numbered;
  }

  /** The next number of a counter. */
  #readCounter(counter: string): number {
    const row = findRecords(this.#connection, [counter]).get(counter);
    if (row && !isChecksum(row.sum, counter, row.refs, row.value)) throw counterDamaged(counter);
    return readCounter(counter, row?.value);
  }

  #writeBlobs(commit: Commit): void {
    const now = this.#clock();
    for (const { hash, bytes } of commit.blobs ?? []) {
      const updated = this.#connection.run(
        "UPDATE savepoint_blob SET used_at = max(used_at, ?) WHERE hash = ?",
        now,
        hash,
      );
      if (!bytes) continue;
      const { codec, body } = this.#compressedBlobs.get(hash) ?? { codec: RAW, body: bytes };
      if (updated === 0) {
        const insert = "INSERT INTO savepoint_blob (hash, used_at, codec, body) VALUES (?, ?, ?, ?)";
        this.#connection.run(insert, hash, now, codec, body);
      } else {
        // After the commit the bytes must be readable, so damaged ones are replaced.
        this.#connection.run(
          "UPDATE savepoint_blob SET codec = ?1, body = ?2 WHERE hash = ?3 AND (body <> ?2 OR codec <> ?1)",
          codec,
          body,
          hash,
        );
      }
    }
  }
}

function holds(check: Check, row: SqliteRecordRow | undefined): boolean {
  if ("exists" in check) return row !== undefined;
  if (!row) return check.value === undefined;
  return row.value === check.value && isChecksum(row.sum, check.key, row.refs, row.value);
}
