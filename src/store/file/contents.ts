/**
 * What a store holds, as this process knows it: the files, and the catalog of what is in them. It is read from the files
 * once, and then kept up to date with what others add.
 */
import { closeSync, fsyncSync, openSync, rmSync, truncateSync } from "node:fs";
import { SavepointError } from "../../errors.js";
import { Catalog, type LocatedLine } from "./catalog.js";
import { CommitLog } from "./commit-log.js";
import {
  type DataFile,
  FileReplacedError,
  FileHandles,
  headerLine,
  newDataFile,
  openForAppend,
  readBytes,
  readHeader,
  sizeOf,
} from "./data-file.js";
import { isMissingFileError, runSlicesSync, type Slices, syncFolderSync, writeBytes } from "../../util/index.js";
import { Fences } from "./fences.js";
import type { Folder } from "./folder.js";
import { FORMAT, type LineHead, isRemoval, type CommitFooter, summarizeHeads, encodeLine } from "./lines.js";
import type { LogEntry, LogLine } from "./log-lines.js";
import { LogIndex } from "./log-index.js";
import {
  type FileProblem,
  findLostLines,
  EMPTY_SCAN,
  LINES_PER_PROGRESS,
  pushAll,
  type FileScan,
  scanFile,
} from "./file-scan.js";

const NEWLINE = 10;

/** How everything is read. */
interface Reading {
  /**
   * May another process be writing? Then only commits in the list are valid: others may be unfinished. If not, others were
   * left by a process that is gone, and are valid if they are complete.
   */
  readonly isBusy: boolean;
  /** Is a file that replaced another accepted, although it is not in the list of commits yet? */
  readonly adopts: boolean;
  /** The lock, if it is held: then the files are repaired. */
  readonly lock?: HeldLock;
}

/** The part of the lock that its holder uses here. */
export interface HeldLock {
  /** Throws if it is not held any more. */
  readonly assertHeld: () => void;
  readonly isHeld: boolean;
  readonly refresh: () => void;
}

export class StoreContents {
  readonly folder: Folder;
  readonly url: string;
  readonly handles = new FileHandles();
  readonly log: CommitLog;
  catalog = new Catalog();
  files = new Map<string, DataFile>();
  fences = new Fences();
  /** What was found to be wrong. */
  problems: FileProblem[] = [];
  /** Has something been found that the next writer repairs? */
  #needsRepair = false;

  constructor(folder: Folder, url: string) {
    this.folder = folder;
    this.url = url;
    this.log = new CommitLog(folder.commits);
  }

  /**
   * Reads everything, and changes nothing. Needs no lock. Throws `FileReplaced` while another process is replacing a file.
   *
   * @returns whether there is something that {@link recover} would change
   */
  load(reading: Pick<Reading, "isBusy" | "adopts">): boolean {
    return this.#load(reading);
  }

  /**
   * Reads everything with the lock held. Unfinished commits are cut off. Acknowledged data that is missing is recorded in the
   * files as lost, so that no process takes an older version for the newest one.
   */
  recover(lock: HeldLock): void {
    // Before anything is touched.
    this.#checkFormats(this.log.readAll()?.format ?? FORMAT, this.folder.listDataFiles());
    // Before anything is read, so that a process that lost the lock can no longer rename them.
    for (const path of this.folder.temporaryFiles()) {
      lock.assertHeld();
      rmSync(path, { force: true });
    }
    this.#load({ isBusy: false, adopts: true, lock });
  }

  /**
   * Makes later writes of processes that have lost the lock void. The lock is held, and everything has been read.
   *
   * @returns false if everything must be read again and another fence added: a process that lost the lock during its own
   *   takeover may have added a fence with the same number, which readers may have accepted
   */
  raiseFence(lock: HeldLock): boolean {
    const fence = { fence: this.fences.current + 1, after: this.catalog.lastCommit };
    lock.assertHeld();
    const isAlone = this.log.append([fence], () => lock.isHeld, true);
    this.fences.add(fence);
    return isAlone;
  }

  #load(reading: Reading): boolean {
    const { lock } = reading;
    const showLife = (): void => lock?.refresh();
    this.handles.closeAll();
    this.problems = [];
    this.#needsRepair = false;
    this.catalog = new Catalog();
    this.files = new Map();
    const log = this.log.readAll();
    const logged = new LogIndex(log?.lines ?? []);
    this.fences = logged.fences;
    const names = this.folder.listDataFiles();
    this.#checkFormats(log?.format ?? FORMAT, names);
    const isNew = !log && names.length === 0;
    if (!log && !isNew) this.#problem("commits", 0, "the list of commits is missing");
    if (log && !log.isIntact && !log.isUnfinished && logged.closed)
      this.#problem("commits", 0, "the list of commits is damaged");

    const all = new Set([...names, ...logged.files.keys()]);
    if (!log?.isIntact && !reading.isBusy) this.#deriveFences(names, showLife);
    const found: LocatedLine[] = [];
    for (const name of all) {
      const entries = logged.files.get(name) ?? [];
      showLife();
      // Another process is creating a file that is not in the list yet.
      if (entries.length > 0 || !(reading.isBusy && log)) {
        pushAll(found, this.#loadFile(name, entries, log !== undefined, reading));
      }
    }
    this.apply(found, showLife);
    this.catalog.lastCommit = Math.max(this.catalog.lastCommit, logged.lastCommit);
    const isNews = (line: LogLine): boolean => "file" in line && !isLogged(line, logged.files.get(line.file)?.at(-1));
    const hasNews = [...this.files.values()].some((file) => isNews(this.#entryOf(file, [])));
    // Another process may be writing the last line of the list at this moment.
    const isBad = !log || log.format < FORMAT || !(log.isIntact || reading.isBusy) || this.problems.length > 0;
    if (lock) {
      // The losses are recorded in the files by now; the list must not repeat them.
      if (isBad) runSlicesSync(this.rewriteLog(lock), showLife);
      else if (hasNews) this.log.append(runSlicesSync(this.summary(), showLife).filter(isNews), () => lock.isHeld);
    }
    const isLeft = !reading.isBusy && this.folder.temporaryFiles().length > 0;
    return this.#needsRepair || isBad || hasNews || isLeft;
  }

  /** Fences that a damaged list may lack. */
  #deriveFences(names: readonly string[], onProgress: () => void): void {
    const seals: CommitFooter[] = [];
    for (const name of names) {
      const handle = openIfThere(this.folder.file(name));
      if (handle === undefined) continue;
      try {
        const file = newDataFile(name, this.folder.file(name), 1);
        const part = { from: 0, to: sizeOf(handle), fences: new Fences(), onProgress };
        pushAll(seals, scanFile(file, handle, part).footers.values());
      } finally {
        closeSync(handle);
      }
    }
    this.fences.derive(seals);
  }

  /** How all files stand now, with the names of all that is in them: what the list of commits must say at least. */
  *summary(): Slices<LogLine[]> {
    const heads = yield* this.catalog.heads();
    const lines: LogLine[] = [...this.fences.all, { last: this.catalog.lastCommit }];
    for (const file of this.files.values()) {
      lines.push(this.#entryOf(file, [...file.removals, ...(heads.get(file) ?? [])]));
      yield;
    }
    return lines;
  }

  /** Rewrites the list of commits from the current files. The lock is held. */
  *rewriteLog(lock: Pick<HeldLock, "assertHeld">): Slices<void> {
    yield* this.log.rewrite(yield* this.summary(), () => lock.assertHeld());
  }

  #entryOf(file: DataFile, heads: readonly LineHead[]): LogEntry {
    const { name, generation, size, lastCommit, soft } = file;
    return {
      file: name,
      generation,
      size,
      commit: lastCommit,
      ...this.writer,
      holds: summarizeHeads(heads),
      all: true,
      ...(soft && { soft }),
    };
  }

  /** The part of every line that identifies its writer: the newest fence that the writer knows. */
  get writer(): { readonly fence?: number } {
    return writerField(this.fences.current);
  }

  #checkFormats(ofLog: number, names: readonly string[]): void {
    if (ofLog > FORMAT) throw tooNew(this.url, ofLog);
    for (const name of names) {
      const handle = openIfThere(this.folder.file(name));
      // Another process has just removed it.
      if (handle === undefined) continue;
      try {
        const format = readHeader(handle)?.savepoint ?? FORMAT;
        if (format > FORMAT) throw tooNew(this.url, format);
      } finally {
        closeSync(handle);
      }
    }
  }

  /**
   * Adds what other processes have written. Throws `FileReplaced` while another process is replacing a file.
   *
   * @returns false if everything must be read again: another process has added a fence that does not accept all known commits
   */
  catchUp(): boolean {
    const { lines, isAll, acknowledge } = this.log.readUpdate();
    if (lines.length === 0 && !isAll) return true;
    const logged = new LogIndex(lines, isAll ? 0 : this.fences.current);
    if (logged.fences.current > this.fences.current) return false;
    const found: LocatedLine[] = [];
    const changed: { file: DataFile; last: LogEntry }[] = [];
    const problems: FileProblem[] = [];
    for (const [name, entries] of logged.files) {
      const last = entries.at(-1) as LogEntry;
      const known = this.files.get(name);
      const isKnown = known?.generation === last.generation;
      if (isKnown && known.size >= last.size) continue;
      const file = isKnown ? known : newDataFile(name, this.folder.file(name), last.generation);
      const part = { from: isKnown ? known.size : 0, to: last.size, fences: this.fences };
      const scanned = scanFile(file, this.handles.of(file), part);
      const fresh = entries.filter(({ size }) => !isKnown || size > known.size);
      const assessed = assess(file, scanned, fresh, last.size, isKnown ? known.lastCommit : 0);
      pushAll(found, assessed.found);
      pushAll(problems, assessed.problems);
      file.isDamaged ||= assessed.problems.length > 0;
      changed.push({ file, last });
    }
    const old = new Set<DataFile>();
    for (const name of [...changed.map(({ file }) => file.name), ...logged.removed]) {
      const before = this.files.get(name);
      if (before && !changed.some(({ file }) => file === before)) old.add(before);
    }
    // A list that was written anew names every file that is needed.
    for (const [name, file] of isAll ? this.files : []) if (!logged.files.has(name)) old.add(file);
    for (const { file, last } of changed) {
      [file.size, file.lastCommit, file.soft] = [last.size, last.commit, last.soft ?? false];
      this.#setFile(file);
    }
    for (const file of old) if (this.files.get(file.name) === file) this.#forgetFile(file.name);
    pushAll(this.problems, problems);
    this.apply(found);
    // Whatever is not in the file that took its place went before that, by a line that may be gone by now too.
    if (old.size > 0) this.catalog.forget(old);
    this.catalog.lastCommit = Math.max(this.catalog.lastCommit, logged.lastCommit);
    acknowledge();
    return true;
  }

  /**
   * Accepts a file that replaced another, although the list does not mention it yet: the process that replaced it has died, or
   * is about to add it to the list. Both files have the same contents, so the new one can be trusted.
   */
  adopt(replaced: FileReplacedError): void {
    const before = this.files.get(replaced.file.name);
    if (before !== replaced.file) return;
    const handle = openIfThere(before.path);
    if (handle === undefined) return;
    try {
      const header = readHeader(handle);
      if (!header || header.generation <= before.generation) return;
      const file = newDataFile(before.name, before.path, header.generation);
      const scanned = scanFile(file, handle, { from: 0, to: sizeOf(handle), fences: this.fences });
      [file.size, file.lastCommit] = [scanned.end, header.generation];
      this.#setFile(file);
      this.apply([...scanned.committed]);
      this.catalog.forget(new Set([before]));
    } finally {
      closeSync(handle);
    }
  }

  /** The file takes the place of the one with its name. What was wrong with that one is not in it. */
  replace(file: DataFile): void {
    this.#setFile(file);
    this.problems = this.problems.filter((problem) => problem.file !== file.name);
  }

  remove(file: DataFile): void {
    this.#forgetFile(file.name);
  }

  #setFile(file: DataFile): void {
    const before = this.files.get(file.name);
    if (before !== file && before) this.handles.close(before);
    this.files.set(file.name, file);
  }

  #forgetFile(name: string): void {
    const file = this.files.get(name);
    if (file) this.handles.close(file);
    this.files.delete(name);
  }

  #loadFile(name: string, entries: readonly LogEntry[], hasLog: boolean, reading: Reading): readonly LocatedLine[] {
    const { lock } = reading;
    const path = this.folder.file(name);
    const handle = openIfThere(path);
    try {
      const last = entries.at(-1);
      const header = handle === undefined ? undefined : readHeader(handle);
      const file = newDataFile(name, path, header?.generation ?? last?.generation ?? 1);
      const isListed = handle !== undefined && last?.generation === file.generation;
      if (reading.isBusy && last && !isListed && !reading.adopts) throw new FileReplacedError(file);
      const size =
        handle === undefined ? 0 : Math.min(sizeOf(handle), reading.isBusy && isListed ? last.size : Infinity);
      const part = { from: 0, to: size, fences: this.fences, onProgress: () => lock?.refresh() };
      const scanned = handle === undefined ? EMPTY_SCAN : scanFile(file, handle, part);
      const known = entries.filter(({ generation }) => generation === file.generation);
      const promised = known.filter(({ soft }) => !soft);
      const acknowledged = promised.reduce((most, entry) => Math.max(most, entry.size), 0);
      const { found, lost, problems } = assess(file, scanned, promised, acknowledged, 0);
      pushAll(this.problems, problems);
      file.isDamaged = problems.length > 0;
      if (size < acknowledged) this.#problem(name, size, `${acknowledged - size} bytes that were saved are missing`);

      file.size = Math.max(scanned.end, Math.min(size, acknowledged));
      if (hasLog && acknowledged === 0 && scanned.footers.size === 0) {
        // It was being made: nothing in it was ever finished.
        if (handle !== undefined) this.#repair(lock, () => rmSync(path, { force: true }));
        return [];
      }
      if (size > file.size) {
        // Without the list of commits, unfinished commits cannot be distinguished from damage.
        if (hasLog) this.#repair(lock, () => truncateSync(path, file.size));
        else {
          this.#problem(name, file.size, "its end is damaged or unfinished");
          file.size = size;
        }
      }
      if (handle !== undefined && file.size > 0 && readBytes(handle, file.size - 1, 1)[0] !== NEWLINE) {
        this.#repair(lock, () => append(file, "\n"));
      }
      for (const [commit, heads] of lost) {
        // The list of commits has it now, but not forever: the list is shortened.
        const seal = encodeLine({
          commit,
          ...writerField(this.fences.of(commit)),
          holds: heads,
        } satisfies CommitFooter);
        this.#repair(lock, () => append(file, (file.size === 0 ? headerLine(name, file.generation) : "") + seal));
      }
      // What is not in the list may not be on the disk either.
      if (lock && file.size > (known.at(-1)?.size ?? 0)) {
        syncFile(path);
        // Nor may its name be, if it is new or replaced another.
        if (known.length === 0) syncFolderSync(this.folder.folderOf(name));
      }
      const commits = [...scanned.footers.values(), ...known].map(({ commit }) => commit);
      file.lastCommit = commits.reduce((most, commit) => Math.max(most, commit), 0);
      this.catalog.lastCommit = Math.max(this.catalog.lastCommit, file.lastCommit, file.generation);
      this.files.set(name, file);
      return found;
    } finally {
      if (handle !== undefined) closeSync(handle);
    }
  }

  /** Changes a file, if the lock is held. */
  #repair(lock: HeldLock | undefined, work: () => void): void {
    this.#needsRepair = true;
    if (!lock) return;
    lock.assertHeld();
    work();
  }

  /**
   * Applies lines to the catalog.
   *
   * @param onProgress called regularly, because many lines take a while
   */
  apply(found: readonly LocatedLine[], onProgress: () => void = () => {}): void {
    // Within a commit what goes comes first; otherwise what it has written stays in its order.
    const rank = ({ head }: LocatedLine): number => (isRemoval(head) ? 0 : 1);
    const sorted = [...found].sort((a, b) => a.head.at - b.head.at || rank(a) - rank(b));
    for (const [index, each] of sorted.entries()) {
      if (index % LINES_PER_PROGRESS === 0) onProgress();
      this.catalog.apply(each);
    }
  }

  #problem(file: string, offset: number, reason: string): void {
    this.problems.push({ file, offset, reason });
  }
}

interface Assessed {
  readonly found: readonly LocatedLine[];
  /** What no file says, and the list of commits does; by commit. */
  readonly lost: ReadonlyMap<number, readonly LineHead[]>;
  readonly problems: readonly FileProblem[];
}

/**
 * What a file and the list of commits say together, of what was acknowledged.
 *
 * @param since the last commit that is known of the part of the file that was not read
 */
function assess(
  file: DataFile,
  scanned: FileScan,
  entries: readonly LogEntry[],
  acknowledged: number,
  since: number,
): Assessed {
  const rest = scanned.uncommitted.filter(({ offset }) => offset < acknowledged);
  const found = [...scanned.committed, ...rest];
  const problems = [...scanned.problems];
  for (const offset of scanned.uncommittedDamage) {
    if (offset < acknowledged) problems.push({ file: file.name, offset, reason: "a line is damaged" });
  }
  const lost = new Map<number, readonly LineHead[]>();
  for (const { commit, holds, size, all } of entries) {
    if (!all && scanned.footers.has(size)) continue;
    const wanted = all ? holds.filter(({ at }) => at > since) : holds;
    const missing = findLostLines(file, wanted, found, scanned.end);
    if (missing.length === 0) continue;
    pushAll(found, missing);
    lost.set(
      commit,
      missing.map(({ head }) => head),
    );
  }
  return { found, lost, problems };
}

function isLogged(entry: LogEntry, logged: LogEntry | undefined): boolean {
  return logged?.generation === entry.generation && logged.size === entry.size;
}

function openIfThere(path: string): number | undefined {
  try {
    return openSync(path, "r");
  } catch (error) {
    if (isMissingFileError(error)) return undefined;
    throw error;
  }
}

function writerField(fence: number): { readonly fence?: number } {
  return fence === 0 ? {} : { fence };
}

/** Adds a text to the end of a file. */
function append(file: DataFile, text: string): void {
  const bytes = Buffer.from(text);
  const handle = openSync(file.path, "a");
  try {
    writeBytes(handle, bytes);
  } finally {
    closeSync(handle);
  }
  file.size += bytes.length;
}

function syncFile(path: string): void {
  const handle = openForAppend(path);
  try {
    fsyncSync(handle);
  } finally {
    closeSync(handle);
  }
}

function tooNew(url: string, found: number): SavepointError<"STORE_TOO_NEW"> {
  return new SavepointError(
    "STORE_TOO_NEW",
    `${url} was written by a newer version of Savepoint (its format is ${found}, this version knows ${FORMAT}). Update the package; the store was not touched.`,
    { details: { found, supported: FORMAT } },
  );
}
