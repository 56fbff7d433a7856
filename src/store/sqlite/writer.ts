/** Applies a group of commits, and waits for the disk once. */
import { setImmediate as nextTurn } from "node:timers/promises";
import { SavepointError } from "../../errors.js";
import {
  checksum,
  commitConflict,
  type CommitOutcome,
  counterDamaged,
  type FailedCheck,
  isChecksum,
  readCounter,
  testHooksOf,
} from "../shared/index.js";
import type { Check, Commit, CommitResult, ItemBatch } from "../contract/index.js";
import type { Connection } from "./connection.js";
import type { SqliteOptions, WritePoint } from "./options.js";
import { compress, type CompressedBody, RAW } from "../chunks/index.js";
import { appendItems, type RecordRow } from "./rows.js";
import { findRecords, putRecords } from "./records.js";
import type { Packer } from "./packer.js";
import { footprintOf, type WriteBuffer } from "./write-buffer.js";

/** How long a transaction may keep the event loop from its turn, in milliseconds. */
const MAX_BLOCKING = 3;

/** Commits of a larger group touch the same pages anyway, and go to the tables at once. */
const MAX_WAITING_GROUP = 4;

const NOTHING: ReadonlySet<string> = new Set();

const REPLACE = "UPDATE savepoint_record SET sum = ?, value = ? WHERE key = ? AND sum = ? AND refs = '' AND value = ?";

export class Writer {
  readonly #connection: Connection;
  readonly #sealer: Packer;
  readonly #tail: WriteBuffer;
  readonly #clock: () => number;
  readonly #compress: boolean;
  /** The bytes of the group that is being written, as they are stored; by hash. */
  readonly #packed = new Map<string, CompressedBody>();
  readonly #probe: (point: WritePoint) => void;

  constructor(connection: Connection, sealer: Packer, tail: WriteBuffer, options: SqliteOptions) {
    this.#connection = connection;
    this.#sealer = sealer;
    this.#tail = tail;
    this.#clock = options.now ?? Date.now;
    this.#compress = options.compress ?? true;
    this.#probe = testHooksOf(options).probe ?? (() => {});
  }

  /** Writes a group in as many transactions as it takes to give the event loop its turns, and waits for the disk once. */
  async apply(commits: readonly Commit[]): Promise<readonly CommitOutcome[]> {
    const outcomes: CommitOutcome[] = [];
    await this.#packBlobs(commits);
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

  /** Compresses the bytes that come with these commits, before the store is held for them. */
  async #packBlobs(commits: readonly Commit[]): Promise<void> {
    this.#packed.clear();
    for (const { blobs = [] } of commits) {
      for (const { hash, bytes } of blobs) {
        if (bytes) this.#packed.set(hash, this.#compress ? await compress(bytes) : { codec: RAW, body: bytes });
      }
    }
  }

  /** The outcomes of the first few commits; of all of them where the transaction could not even begin. */
  async #applySome(commits: readonly Commit[]): Promise<CommitOutcome[]> {
    let outcomes: CommitOutcome[] = [];
    let tried = commits.length;
    try {
      await this.#connection.transaction("Writing to", () => {
        this.#probe("begin");
        this.#tail.detectForeignWrites();
        [outcomes, tried] = [[], 0];
        const deadline = performance.now() + MAX_BLOCKING;
        for (const commit of commits) {
          tried++;
          outcomes.push(commits.length === 1 ? this.#apply(commit, 1) : this.#applyAlone(commit, commits.length));
          if (performance.now() >= deadline) break;
        }
        this.#probe("commit");
      });
      return outcomes;
    } catch (error) {
      const failure = error as SavepointError;
      return Array.from({ length: tried }, () => failure);
    }
  }

  /** One of several commits: it fails alone, as if the others had not been there. */
  #applyAlone(commit: Commit, group: number): CommitOutcome {
    try {
      return this.#apply(commit, group);
    } catch (error) {
      // A commit that cannot be applied; anything else has failed the whole transaction.
      if (error instanceof SavepointError) return error;
      throw error;
    }
  }

  /** Writes a commit to the tail, or else to the tables. @param group how many commits share its transaction */
  #apply(commit: Commit, group: number): CommitResult {
    const appended = group <= MAX_WAITING_GROUP ? this.#tail.tryAppend(commit) : undefined;
    if (appended) return appended;
    const names = footprintOf(commit);
    if (!names || this.#tail.mayContain(names)) this.#tail.flush();
    // Alone, it is taken back with its transaction.
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

  /** Throws a SavepointError where the commit cannot be applied. */
  #write(commit: Commit): CommitResult {
    const replaced = this.#replaceRecords(commit);
    const failed = this.#failedChecks(commit, replaced);
    if (failed.length > 0) throw commitConflict(failed);
    this.#probe("checked");
    this.#writeRecords(commit, replaced);
    this.#probe("records");
    const firsts = (commit.items ?? []).map((run) => this.#writeItems(run));
    this.#probe("items");
    this.#writeBlobs(commit);
    this.#probe("blobs");
    this.#tail.remember(commit);
    for (const run of commit.items ?? []) this.#sealer.noteItems(run);
    return { firsts };
  }

  /**
   * Checks and replaces in one statement what is to have one value and to get another, as most saves do with their
   * branch. Those that it replaced have passed their checks; whether the others have is looked at as usual.
   */
  #replaceRecords({ checks = [], puts = [], deletes = [] }: Commit): ReadonlySet<string> {
    if (checks.length === 0 || deletes.length > 0) return NOTHING;
    const expected = new Map(checks.map((check) => [check.key, "value" in check ? check.value : undefined]));
    if (expected.size < checks.length) return NOTHING;
    const replaced = new Set<string>();
    for (const { key, value, refs = "", ifAbsent } of puts) {
      const before = expected.get(key);
      if (before === undefined || ifAbsent || refs !== "" || replaced.has(key)) continue;
      const [sum, sumBefore] = [checksum(key, "", value), checksum(key, "", before)];
      if (this.#connection.run(REPLACE, sum, value, key, sumBefore, before) === 1) replaced.add(key);
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
    // In order: a later put of the same key wins, and one with `ifAbsent` sees those before it.
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

  /** Writes a run, and returns the number of its first item. */
  #writeItems(run: ItemBatch): number {
    const { tape, items } = run;
    const first = "first" in run ? run.first : this.#takeNumbers(run.counter, items.length);
    // The caller worked from a state of the tape that is no longer true.
    if (!appendItems(this.#connection, tape, first, items)) throw commitConflict([{ key: tape }]);
    return first;
  }

  #takeNumbers(counter: string, count: number): number {
    const row = findRecords(this.#connection, [counter]).get(counter);
    if (row && !isChecksum(row.sum, counter, row.refs, row.value)) throw counterDamaged(counter);
    const first = readCounter(counter, row?.value);
    putRecords(this.#connection, [{ key: counter, value: String(first + count) }], false);
    return first;
  }

  #writeBlobs(commit: Commit): void {
    const now = this.#clock();
    for (const { hash, bytes } of commit.blobs ?? []) {
      const known = this.#connection.run(
        "UPDATE savepoint_blob SET used_at = max(used_at, ?) WHERE hash = ?",
        now,
        hash,
      );
      if (!bytes) continue;
      const { codec, body } = this.#packed.get(hash) ?? { codec: RAW, body: bytes };
      if (known === 0) {
        const insert = "INSERT INTO savepoint_blob (hash, used_at, codec, body) VALUES (?, ?, ?, ?)";
        this.#connection.run(insert, hash, now, codec, body);
      } else {
        // Who is told that these bytes are stored must be able to read them, so damaged ones are replaced.
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

function holds(check: Check, row: RecordRow | undefined): boolean {
  if ("exists" in check) return row !== undefined;
  if (!row) return check.value === undefined;
  return row.value === check.value && isChecksum(row.sum, check.key, row.refs, row.value);
}
