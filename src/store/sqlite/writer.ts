/** Applies a group of commits in one transaction. */
import { SavepointError } from "../../errors.js";
import { checksum, isChecksum } from "../checksum.js";
import { commitConflict } from "../conflict.js";
import { counterDamaged, readCounter } from "../counter.js";
import type { Outcome } from "../group-commit.js";
import type { Check, Commit, ItemRun } from "../store.js";
import type { Connection } from "./connection.js";
import type { SqliteOptions, WritePoint } from "./options.js";
import { packRun, RAW } from "./run-codec.js";
import { insertRun, RUN_BYTES } from "./run-rows.js";
import type { Sealer } from "./sealer.js";

export class Writer {
  readonly #connection: Connection;
  readonly #sealer: Sealer;
  readonly #clock: () => number;
  readonly #probe: (point: WritePoint) => void;

  constructor(connection: Connection, sealer: Sealer, options: SqliteOptions) {
    this.#connection = connection;
    this.#sealer = sealer;
    this.#clock = options.now ?? Date.now;
    this.#probe = options.probe ?? (() => {});
  }

  async apply(commits: readonly Commit[]): Promise<readonly Outcome[]> {
    const outcomes = await this.#connection.transaction("Writing to", () => {
      this.#probe("begin");
      const results = commits.map((commit) => this.#applyAlone(commit));
      this.#probe("commit");
      return results;
    });
    this.#probe("committed");
    for (const [index, commit] of commits.entries()) {
      if ("firsts" in (outcomes[index] as Outcome)) for (const run of commit.items ?? []) this.#sealer.noteNew(run);
    }
    return outcomes;
  }

  /** One commit of the group: it fails alone, as if the others had not been there. */
  #applyAlone(commit: Commit): Outcome {
    const failed = this.#failedChecks(commit);
    if (failed.length > 0) return commitConflict(failed);
    this.#probe("checked");
    this.#connection.run("SAVEPOINT one_commit");
    try {
      this.#writeRecords(commit);
      this.#probe("records");
      const firsts = (commit.items ?? []).map((run) => this.#writeItems(run));
      this.#probe("items");
      this.#writeBlobs(commit);
      this.#probe("blobs");
      this.#connection.run("RELEASE one_commit");
      return { firsts };
    } catch (error) {
      // A commit that cannot be applied; anything else has failed the whole transaction.
      if (!(error instanceof SavepointError)) throw error;
      this.#connection.run("ROLLBACK TO one_commit");
      this.#connection.run("RELEASE one_commit");
      return error;
    }
  }

  #failedChecks(commit: Commit): string[] {
    const failed = (commit.checks ?? []).filter((check) => !this.#holds(check)).map((check) => check.key);
    if (commit.notBefore !== undefined && this.#clock() < commit.notBefore) failed.push("notBefore");
    for (const use of commit.blobs ?? []) {
      if (!use.bytes && !this.#connection.row("SELECT 1 FROM savepoint_blob WHERE hash = ?", use.hash))
        failed.push(use.hash);
    }
    return failed;
  }

  #holds(check: Check): boolean {
    const row = this.#record(check.key);
    if ("exists" in check) return row !== undefined;
    if (!row) return check.value === undefined;
    return row.value === check.value && isChecksum(row.sum, check.key, row.refs, row.value);
  }

  #record(key: string): { sum: Uint8Array; refs: string; value: string } | undefined {
    return this.#connection.row("SELECT sum, refs, value FROM savepoint_record WHERE key = ?", key);
  }

  #writeRecords(commit: Commit): void {
    for (const target of commit.deletes ?? []) {
      if (typeof target === "string") this.#connection.run("DELETE FROM savepoint_record WHERE key = ?", target);
      else this.#connection.run("DELETE FROM savepoint_record WHERE key >= ? AND key < ?", target.from, target.to);
    }
    for (const { key, value, refs = "", ifAbsent } of commit.puts ?? []) {
      this.#connection.run(
        `INSERT ${ifAbsent ? "OR IGNORE" : "OR REPLACE"} INTO savepoint_record (key, sum, refs, value) VALUES (?, ?, ?, ?)`,
        key,
        checksum(key, refs, value),
        refs,
        value,
      );
    }
  }

  /** Writes a run, in rows that are no larger than a packed one, and returns the number of its first item. */
  #writeItems(run: ItemRun): number {
    const first = "first" in run ? run.first : this.#takeNumbers(run.counter, run.items.length);
    // The caller worked from a state of the tape that is no longer true.
    if (run.items.length > 0 && this.#isTaken(run.tape, first, run.items.length)) throw commitConflict([run.tape]);
    let from = 0;
    let bytes = 0;
    for (const [index, frame] of run.items.entries()) {
      bytes += frame.json.length;
      if (bytes < RUN_BYTES && index < run.items.length - 1) continue;
      insertRun(this.#connection, packRun(run.tape, first + from, run.items.slice(from, index + 1)));
      from = index + 1;
      bytes = 0;
    }
    return first;
  }

  /** Does the last row that starts before the end of these numbers reach into them? */
  #isTaken(tape: string, first: number, count: number): boolean {
    const last = this.#connection.row<{ end: number }>(
      "SELECT first + count AS end FROM savepoint_run WHERE tape = ? AND first < ? ORDER BY first DESC LIMIT 1",
      tape,
      first + count,
    );
    return last !== undefined && last.end > first;
  }

  #takeNumbers(counter: string, count: number): number {
    const row = this.#record(counter);
    if (row && !isChecksum(row.sum, counter, row.refs, row.value)) throw counterDamaged(counter);
    const first = readCounter(counter, row?.value);
    const value = String(first + count);
    this.#connection.run(
      "INSERT OR REPLACE INTO savepoint_record (key, sum, refs, value) VALUES (?, ?, '', ?)",
      counter,
      checksum(counter, "", value),
      value,
    );
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
      if (known === 0) {
        const insert = "INSERT INTO savepoint_blob (hash, used_at, codec, body) VALUES (?, ?, ?, ?)";
        this.#connection.run(insert, hash, now, RAW, bytes);
      } else {
        // Who is told that these bytes are stored must be able to read them, so damaged ones are replaced.
        this.#connection.run(
          "UPDATE savepoint_blob SET codec = ?1, body = ?2 WHERE hash = ?3 AND body <> ?2",
          RAW,
          bytes,
          hash,
        );
      }
    }
  }
}
