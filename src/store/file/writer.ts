/**
 * Writes commits. Each is the lines of one append to one file: those of its items, its records and what it removes, and
 * one last line by which all of them count. A commit with items goes to the file of their tape, any other to `records`.
 */
import type { SavepointError } from "../../errors.js";
import { commitConflict } from "../conflict.js";
import { counterDamaged, readCounter } from "../counter.js";
import type { Outcome } from "../group-commit.js";
import { covers } from "../key-range.js";
import type { DiskOptions } from "../options.js";
import type { Check, Commit, CommitResult, ItemRun } from "../store.js";
import type { Access } from "./access.js";
import type { BlobFiles } from "./blob-files.js";
import type { Appender, NewLine } from "./appender.js";
import type { Entry } from "./catalog.js";
import { fileFailure } from "../file-failure.js";
import { fileOfTape, RECORDS } from "./names.js";
import { LineReader } from "./reader.js";

export class Writer {
  readonly #access: Access;
  readonly #appender: Appender;
  readonly #blobs: BlobFiles;
  readonly #clock: () => number;
  /** Bytes that the blobs of the group that is being written take, by hash. */
  readonly #sizes = new Map<string, number>();

  constructor(access: Access, appender: Appender, blobs: BlobFiles, options: DiskOptions) {
    this.#access = access;
    this.#appender = appender;
    this.#blobs = blobs;
    this.#clock = options.now ?? Date.now;
  }

  /** Writes a group of commits, with one wait for the disk. */
  apply(commits: readonly Commit[]): Promise<Outcome[]> {
    return this.#access
      .exclusive(async () => {
        const failed = await this.#writeBlobs(commits);
        return this.#appender.group(() => commits.map((commit) => failed.get(commit) ?? this.#tryOne(commit)));
      })
      .catch((error: unknown) => {
        throw fileFailure(error, this.#access.contents.url, "Writing to");
      });
  }

  /** Writes the bytes that come with these commits. Returns what went wrong: others of the group need not fail for it. */
  async #writeBlobs(commits: readonly Commit[]): Promise<Map<Commit, SavepointError>> {
    const failed = new Map<Commit, SavepointError>();
    this.#sizes.clear();
    for (const commit of commits) {
      try {
        for (const { hash, bytes } of commit.blobs ?? []) {
          if (bytes) this.#sizes.set(hash, await this.#blobs.write(hash, bytes));
        }
      } catch (error) {
        failed.set(commit, fileFailure(error, this.#access.contents.url, "Writing to"));
      }
    }
    return failed;
  }

  #tryOne(commit: Commit): Outcome {
    try {
      return this.#one(commit);
    } catch (error) {
      // One that fails leaves the others of its group alone.
      return fileFailure(error, this.#access.contents.url, "Writing to");
    }
  }

  #one(commit: Commit): CommitResult {
    const { catalog } = this.#access.contents;
    const failed = this.#failedChecks(commit);
    if (failed.length > 0) throw commitConflict(failed);
    const { firsts, counters } = this.#number(commit);
    const at = catalog.lastCommit + 1;
    const lines: NewLine[] = [];
    for (const target of commit.deletes ?? []) {
      const some = typeof target === "string" ? catalog.record(target) : !catalog.keys(target).next().done;
      if (some)
        lines.push({
          head: { delete: typeof target === "string" ? target : { from: target.from, to: target.to }, at },
        });
    }
    const put = new Map<string, NewLine>();
    const isThere = (key: string): boolean =>
      put.has(key) || (catalog.record(key) !== undefined && !isDeleted(commit, key));
    for (const { key, value, refs = "", ifAbsent } of commit.puts ?? []) {
      if (!ifAbsent || !isThere(key)) put.set(key, { head: { put: key, at, ...(refs !== "" && { refs }) }, value });
    }
    for (const [key, value] of counters) put.set(key, { head: { put: key, at }, value: String(value) });
    lines.push(...put.values());
    for (const [index, { tape, items }] of (commit.items ?? []).entries()) {
      for (const [offset, { json, refs }] of items.entries()) {
        const item = (firsts[index] as number) + offset;
        lines.push({ head: { item, tape, at, ...(refs !== "" && { refs }) }, value: json });
      }
    }
    const used = this.#clock();
    for (const { hash } of commit.blobs ?? []) {
      const size = this.#sizes.get(hash) ?? catalog.blob(hash)?.bytes ?? 0;
      lines.push({ head: { blob: hash, used: Math.max(used, catalog.blob(hash)?.used ?? 0), bytes: size, at } });
    }
    if (lines.length > 0) this.#appender.append(homeOf(commit), at, lines);
    return { firsts };
  }

  #failedChecks(commit: Commit): string[] {
    const { catalog } = this.#access.contents;
    const failed = (commit.checks ?? []).filter((check) => !this.#holds(check)).map(({ key }) => key);
    if (commit.notBefore !== undefined && this.#clock() < commit.notBefore) failed.push("notBefore");
    for (const { hash, bytes } of commit.blobs ?? []) {
      if (!bytes && !(catalog.blob(hash) && this.#blobs.isThere(hash))) failed.push(hash);
    }
    return failed;
  }

  #holds(check: Check): boolean {
    const entry = this.#access.contents.catalog.record(check.key);
    if ("exists" in check) return entry !== undefined;
    if (!entry || check.value === undefined) return entry === undefined && check.value === undefined;
    const record = this.#record(check.key, entry);
    return "value" in record && record.value === check.value;
  }

  /** The numbers that the items of a commit get, and what becomes of their counters. */
  #number(commit: Commit): { firsts: number[]; counters: Map<string, number> } {
    const { catalog } = this.#access.contents;
    const counters = new Map<string, number>();
    const taken = new Set<string>();
    const firsts = (commit.items ?? []).map((run) => {
      const first = "first" in run ? run.first : (counters.get(run.counter) ?? this.#counter(commit, run.counter));
      if ("counter" in run) counters.set(run.counter, first + run.items.length);
      for (let item = first; item < first + run.items.length; item++) {
        const name = `${item}\t${run.tape}`;
        // The caller worked from a state of the tape that is no longer true.
        if (catalog.item(run.tape, item) || taken.has(name)) throw commitConflict([run.tape]);
        taken.add(name);
      }
      return first;
    });
    return { firsts, counters };
  }

  /** A counter as it is once the commit's own records are written. */
  #counter(commit: Commit, key: string): number {
    let value: string | undefined;
    const entry = this.#access.contents.catalog.record(key);
    if (entry && !isDeleted(commit, key)) {
      const record = this.#record(key, entry);
      if (!("value" in record)) throw counterDamaged(key);
      ({ value } = record);
    }
    for (const put of commit.puts ?? []) {
      if (put.key === key && !(put.ifAbsent && value !== undefined)) ({ value } = put);
    }
    return readCounter(key, value);
  }

  #record(key: string, entry: Entry): ReturnType<LineReader["record"]> {
    return new LineReader(this.#access.contents.handles, true).record(key, entry);
  }
}

function isDeleted({ deletes = [] }: Commit, key: string): boolean {
  return deletes.some((target) => (typeof target === "string" ? target === key : covers(target, key)));
}

/** The file that a commit is written to. */
function homeOf({ items = [] }: Commit): string {
  const run = items.find((each: ItemRun) => each.items.length > 0);
  return run ? fileOfTape(run.tape) : RECORDS;
}
