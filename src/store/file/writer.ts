/**
 * Writes commits. Each is one append to one file: the lines of its removals, records, items and blobs, and a footer that makes
 * all of them count. A commit with items goes to the file of their tape, any other to the file of records.
 */
import { SavepointError } from "../../errors.js";
import {
  commitConflict,
  counterDamaged,
  type CommitOutcome,
  type FailedCheck,
  type NumberedItems,
  numberItems,
  readCounter,
} from "../shared/index.js";
import { type Check, type Commit, type CommitResult, covers, type DiskOptions } from "../contract/index.js";
import { MAX_ATTEMPTS, type StoreAccess } from "./access.js";
import type { BlobFiles } from "./blob-files.js";
import { type Appender, type AppendWork, isInterruption } from "./appender.js";
import type { CatalogEntry } from "./catalog.js";
import { toFileError } from "../../util/index.js";
import type { CommitGroup, NewLine } from "./commit-group.js";
import { RECORDS_FILE, tapeFileName } from "./folder.js";
import { LineReader } from "./reader.js";

/** The blobs that were written for a group of commits. */
interface BlobWrites {
  /** Commits whose blobs could not be written. */
  readonly failed: ReadonlyMap<Commit, SavepointError>;
  /** The sizes of blobs on the disk, by hash. */
  readonly sizes: ReadonlyMap<string, number>;
}

type AppendTarget = Pick<CommitGroup, "append">;

export class FileWriter {
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

  /** Writes a group of commits, and waits for the disk once. Each commit has its own outcome. */
  async apply(commits: readonly Commit[]): Promise<CommitOutcome[]> {
    const { url } = this.#access.contents;
    const outcomes: CommitOutcome[] = [];
    try {
      for (let attempt = 1; outcomes.length < commits.length; attempt++) {
        const left = commits.slice(outcomes.length);
        if (attempt > MAX_ATTEMPTS) {
          // Commits that were written are kept: only the others fail.
          outcomes.push(...left.map(() => blobsRemoved(url)));
          break;
        }
        // Writing blobs needs no lock, because they are named by their hash. Another process may remove unused ones meanwhile.
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

  /** Writes the commits before the first one whose blobs were removed. Returns their outcomes. The lock is held. */
  #applyFirst(commits: readonly Commit[], blobs: BlobWrites): CommitOutcome[] | Promise<CommitOutcome[]> {
    let isStopped = false;
    const works = commits.map((commit): AppendWork<CommitOutcome | undefined> => (group) => {
      // Checked in each attempt: another process may have held the lock in between.
      isStopped ||= !this.#blobs.hasAll(writtenHashes(commit, blobs));
      return isStopped ? undefined : this.#tryCommit(group, commit, blobs);
    });
    const outcomes = this.#appender.appendGroup(works);
    return outcomes instanceof Promise ? outcomes.then(untilMissing) : untilMissing(outcomes);
  }

  /** Writes the blobs of these commits. A failure does not affect the other commits of the group. */
  async #writeBlobs(commits: readonly Commit[]): Promise<BlobWrites> {
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

  #tryCommit(group: AppendTarget, commit: Commit, { failed, sizes }: BlobWrites): CommitOutcome {
    try {
      return failed.get(commit) ?? this.#commit(group, commit, sizes);
    } catch (error) {
      if (isInterruption(error)) throw error;
      // A failure does not affect the other commits of the group.
      return toFileError(error, this.#access.contents.url, "Writing to");
    }
  }

  #commit(group: AppendTarget, commit: Commit, sizes: ReadonlyMap<string, number>): CommitResult {
    const failed = this.#failedChecks(commit);
    if (failed.length > 0) throw commitConflict(failed);
    const { batches, counters } = this.#numberItems(commit);
    const at = this.#access.contents.catalog.nextCommit;
    const lines = [
      ...this.#deleteLines(commit, at),
      ...this.#putLines(commit, counters, at),
      ...itemLines(batches, at),
      ...this.#blobLines(commit, sizes, at),
    ];
    if (lines.length > 0) group.append(fileOf(batches), at, lines);
    return { firsts: batches.map(({ first }) => first) };
  }

  #deleteLines({ deletes = [] }: Commit, at: number): NewLine[] {
    const { catalog } = this.#access.contents;
    const lines: NewLine[] = [];
    for (const target of deletes) {
      const isKey = typeof target === "string";
      const exists = isKey ? catalog.record(target) : !catalog.keys(target).next().done;
      if (exists) lines.push({ head: { delete: isKey ? target : { from: target.from, to: target.to }, at } });
    }
    return lines;
  }

  #putLines(commit: Commit, counters: ReadonlyMap<string, number>, at: number): Iterable<NewLine> {
    const { catalog } = this.#access.contents;
    const lines = new Map<string, NewLine>();
    const exists = (key: string): boolean =>
      lines.has(key) || (catalog.record(key) !== undefined && !isDeleted(commit, key));
    for (const { key, value, refs = "", ifAbsent } of commit.puts ?? []) {
      if (!ifAbsent || !exists(key)) lines.set(key, { head: { put: key, at, ...(refs !== "" && { refs }) }, value });
    }
    for (const [key, value] of counters) lines.set(key, { head: { put: key, at }, value: String(value) });
    return lines.values();
  }

  #blobLines({ blobs = [] }: Commit, sizes: ReadonlyMap<string, number>, at: number): NewLine[] {
    const { catalog } = this.#access.contents;
    const now = this.#clock();
    return blobs.map(({ hash }) => {
      const known = catalog.blob(hash);
      const bytes = sizes.get(hash) ?? known?.bytes ?? 0;
      return { head: { blob: hash, used: Math.max(now, known?.used ?? 0), bytes, at } };
    });
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

  /** Assigns numbers to the items of a commit. Also returns the new values of the counters. */
  #numberItems(commit: Commit): { batches: NumberedItems[]; counters: Map<string, number> } {
    const { catalog } = this.#access.contents;
    const counters = new Map<string, number>();
    const assigned = new Set<string>();
    const batches = (commit.items ?? []).map((batch) => {
      const numbered = numberItems(
        batch,
        "first" in batch ? batch.first : (counters.get(batch.counter) ?? this.#counter(commit, batch.counter)),
      );
      const { tape, first, items } = numbered;
      if ("counter" in batch) counters.set(batch.counter, first + items.length);
      for (let item = first; item < first + items.length; item++) {
        const id = `${item}\t${tape}`;
        // The caller has read an outdated state of the tape.
        if (catalog.item(tape, item) || assigned.has(id)) throw commitConflict([{ key: tape }]);
        assigned.add(id);
      }
      return numbered;
    });
    return { batches, counters };
  }

  /** The value of a counter after the deletes and puts of the commit. */
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

/** The hashes of blobs that were written for a commit. */
function writtenHashes({ blobs = [] }: Commit, { sizes }: BlobWrites): string[] {
  return blobs.map(({ hash }) => hash).filter((hash) => sizes.has(hash));
}

/** The outcomes before the first missing one. */
function untilMissing(outcomes: readonly (CommitOutcome | undefined)[]): CommitOutcome[] {
  const end = outcomes.indexOf(undefined);
  return outcomes.slice(0, end < 0 ? outcomes.length : end) as CommitOutcome[];
}

function blobsRemoved(url: string): SavepointError<"BUSY"> {
  return new SavepointError(
    "BUSY",
    `Writing to ${url} failed: another process removed blobs before the commit that refers to them could be written, several times in a row. Nothing was written. Try again.`,
  );
}

function isDeleted({ deletes = [] }: Commit, key: string): boolean {
  return deletes.some((target) => (typeof target === "string" ? target === key : covers(target, key)));
}

function itemLines(batches: readonly NumberedItems[], at: number): NewLine[] {
  return batches.flatMap(({ tape, first, items }) =>
    items.map(({ json, refs }, offset) => ({
      head: { item: first + offset, tape, at, ...(refs !== "" && { refs }) },
      value: json,
    })),
  );
}

/** The name of the file that a commit is written to. */
function fileOf(batches: readonly NumberedItems[]): string {
  const batch = batches.find(({ items }) => items.length > 0);
  return batch ? tapeFileName(batch.tape) : RECORDS_FILE;
}
