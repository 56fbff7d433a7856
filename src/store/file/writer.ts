/**
 * Writes commits. Each is the lines of one append to one file: those of its items, its records and what it removes, and
 * one last line by which all of them count. A commit with items goes to the file of their tape, any other to `records`.
 */
import { SavepointError } from "../../errors.js";
import { commitConflict, counterDamaged, type CommitOutcome, type FailedCheck, readCounter } from "../shared/index.js";
import {
  type Check,
  type Commit,
  type CommitResult,
  covers,
  type DiskOptions,
  type ItemBatch,
} from "../contract/index.js";
import { type StoreAccess, MAX_ATTEMPTS } from "./access.js";
import type { BlobFiles } from "./blob-files.js";
import { type Appender, isInterruption, type NewLine } from "./appender.js";
import type { CatalogEntry } from "./catalog.js";
import { toFileError } from "../../util/index.js";
import { tapeFileName, RECORDS_FILE } from "./names.js";
import { LineReader } from "./reader.js";

/** The blobs of a group. */
interface WrittenBlobs {
  /** Commits whose blobs could not be written. */
  readonly failed: ReadonlyMap<Commit, SavepointError>;
  /** Bytes that blobs take on the disk, by hash. */
  readonly sizes: ReadonlyMap<string, number>;
}

export class Writer {
  readonly #access: StoreAccess;
  readonly #appender: Appender;
  readonly #blobs: BlobFiles;
  readonly #clock: () => number;

  constructor(access: StoreAccess, appender: Appender, blobs: BlobFiles, options: DiskOptions) {
    this.#access = access;
    this.#appender = appender;
    this.#blobs = blobs;
    this.#clock = options.now ?? Date.now;
  }

  /** Writes a group of commits, with one wait for the disk. */
  async apply(commits: readonly Commit[]): Promise<CommitOutcome[]> {
    const { url } = this.#access.contents;
    const outcomes: CommitOutcome[] = [];
    try {
      for (let attempt = 1; outcomes.length < commits.length; attempt++) {
        const left = commits.slice(outcomes.length);
        if (attempt > MAX_ATTEMPTS) {
          // Commits that were written stay: only the others fail.
          outcomes.push(...left.map(() => blobsRemoved(url)));
          break;
        }
        // Blobs are named by their hash, so writing them needs no lock; but another process may remove unused ones meanwhile.
        const blobs = await this.#writeBlobs(left);
        outcomes.push(...(await this.#access.exclusive(() => this.#applyFirst(left, blobs))));
      }
      return outcomes;
    } catch (error) {
      // For commits that were written before this failure, the outcome is known.
      const failure = toFileError(error, url, "Writing to");
      if (outcomes.length === 0) throw failure;
      return [...outcomes, ...commits.slice(outcomes.length).map(() => failure)];
    }
  }

  /** The outcomes of the commits before the first one whose blobs are gone. The lock is held. */
  #applyFirst(commits: readonly Commit[], blobs: WrittenBlobs): CommitOutcome[] | Promise<CommitOutcome[]> {
    let isGone = false;
    // Checked again for each attempt: another process may have held the lock in between.
    const works = commits.map((commit) => (): CommitOutcome | undefined => {
      isGone ||= !this.#blobs.hasAll(writtenHashes(commit, blobs));
      return isGone ? undefined : this.#tryOne(commit, blobs);
    });
    const found = this.#appender.group(works);
    return found instanceof Promise ? found.then(untilMissing) : untilMissing(found);
  }

  /** Writes the bytes that come with these commits. If that fails, the other commits of the group are not affected. */
  async #writeBlobs(commits: readonly Commit[]): Promise<WrittenBlobs> {
    const failed = new Map<Commit, SavepointError>();
    const sizes = new Map<string, number>();
    for (const commit of commits) {
      try {
        for (const { hash, bytes } of commit.blobs ?? []) {
          if (bytes) sizes.set(hash, await this.#blobs.write(hash, bytes));
        }
      } catch (error) {
        failed.set(commit, toFileError(error, this.#access.contents.url, "Writing to"));
      }
    }
    return { failed, sizes };
  }

  #tryOne(commit: Commit, { failed, sizes }: WrittenBlobs): CommitOutcome {
    try {
      return failed.get(commit) ?? this.#one(commit, sizes);
    } catch (error) {
      if (isInterruption(error)) throw error;
      // One that fails leaves the others of its group alone.
      return toFileError(error, this.#access.contents.url, "Writing to");
    }
  }

  #one(commit: Commit, sizes: ReadonlyMap<string, number>): CommitResult {
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
    for (const line of put.values()) lines.push(line);
    for (const [index, { tape, items }] of (commit.items ?? []).entries()) {
      for (const [offset, { json, refs }] of items.entries()) {
        const item = (firsts[index] as number) + offset;
        lines.push({ head: { item, tape, at, ...(refs !== "" && { refs }) }, value: json });
      }
    }
    const used = this.#clock();
    for (const { hash } of commit.blobs ?? []) {
      const size = sizes.get(hash) ?? catalog.blob(hash)?.bytes ?? 0;
      lines.push({ head: { blob: hash, used: Math.max(used, catalog.blob(hash)?.used ?? 0), bytes: size, at } });
    }
    if (lines.length > 0) this.#appender.append(homeOf(commit), at, lines);
    return { firsts };
  }

  #failedChecks(commit: Commit): FailedCheck[] {
    const { catalog } = this.#access.contents;
    const failed: FailedCheck[] = (commit.checks ?? []).filter((check) => !this.#holds(check));
    if (commit.notBefore !== undefined && this.#clock() < commit.notBefore) failed.push({ key: "notBefore" });
    for (const { hash, bytes } of commit.blobs ?? []) {
      if (!bytes && !(catalog.blob(hash) && this.#blobs.has(hash))) failed.push({ key: hash });
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
        if (catalog.item(run.tape, item) || taken.has(name)) throw commitConflict([{ key: run.tape }]);
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

  #record(key: string, entry: CatalogEntry): ReturnType<LineReader["record"]> {
    return new LineReader(this.#access.contents.handles, true).record(key, entry);
  }
}

/** The blobs of a commit that were written for it. */
function writtenHashes({ blobs = [] }: Commit, { sizes }: WrittenBlobs): string[] {
  return blobs.map(({ hash }) => hash).filter((hash) => sizes.has(hash));
}

function untilMissing(outcomes: readonly (CommitOutcome | undefined)[]): CommitOutcome[] {
  const end = outcomes.indexOf(undefined);
  return outcomes.slice(0, end < 0 ? outcomes.length : end) as CommitOutcome[];
}

function blobsRemoved(url: string): SavepointError<"BUSY"> {
  return new SavepointError(
    "BUSY",
    `Blobs were removed from ${url} by another process before the commit that needs them could be written, several times in a row. Nothing was written; try again.`,
  );
}

function isDeleted({ deletes = [] }: Commit, key: string): boolean {
  return deletes.some((target) => (typeof target === "string" ? target === key : covers(target, key)));
}

/** The file that a commit is written to. */
function homeOf({ items = [] }: Commit): string {
  const run = items.find((each: ItemBatch) => each.items.length > 0);
  return run ? tapeFileName(run.tape) : RECORDS_FILE;
}
