/**
 * What a store holds, as this process knows it: the files, and the catalog of what is in them. It is read from the files
 * once, and then kept up to date with what others add.
 */
import { closeSync, fsyncSync, openSync, rmSync } from "node:fs";
import { SavepointError } from "../../errors.js";
import { Catalog, type Found } from "./catalog.js";
import { CommitLog } from "./commit-log.js";
import {
  type DataFile,
  type FileReplaced,
  Handles,
  headerLine,
  newDataFile,
  readBytes,
  readHeader,
  sizeOf,
  truncate,
  writeBytes,
} from "./data-file.js";
import { isMissing } from "../file-failure.js";
import type { Folder } from "./folder.js";
import { FORMAT, type Head, isGone, type Seal, toHolds, toLine } from "./lines.js";
import type { LogEntry, LogLine } from "./log-lines.js";
import { Logged } from "./logged.js";
import { type FileProblem, lostOf, type Scanned, scanFile } from "./scan-file.js";

const NEWLINE = 10;

export class Contents {
  readonly folder: Folder;
  readonly url: string;
  readonly handles = new Handles();
  readonly log: CommitLog;
  catalog = new Catalog();
  files = new Map<string, DataFile>();
  /** What was found to be wrong. */
  problems: FileProblem[] = [];

  constructor(folder: Folder, url: string) {
    this.folder = folder;
    this.url = url;
    this.log = new CommitLog(folder.commits);
  }

  /**
   * Reads everything. Only who holds the lock may: what was never finished is cut off, and what is missing of what was
   * acknowledged is noted in the files, so that nobody takes older things for the newest ones.
   */
  async load(): Promise<void> {
    this.handles.closeAll();
    this.problems = [];
    this.catalog = new Catalog();
    this.files = new Map();
    const log = this.log.readAll();
    const logged = new Logged(log?.lines ?? []);
    const names = this.folder.names();
    // Before anything is touched.
    this.#checkFormats(log?.format ?? FORMAT, names);
    for (const path of this.folder.leftovers()) rmSync(path, { force: true });
    const isNew = !log && names.length === 0;
    if (!log && !isNew) this.#problem("commits", 0, "the list of commits is missing");
    if (log && !log.whole && logged.closed) this.#problem("commits", 0, "the list of commits is damaged");

    const found: Found[] = [];
    for (const name of new Set([...names, ...logged.files.keys()])) {
      found.push(...this.#loadFile(name, logged.files.get(name) ?? [], log !== undefined));
    }
    this.apply(found);
    this.catalog.lastCommit = Math.max(this.catalog.lastCommit, logged.lastCommit);
    // What is lost is written down by now; the list must not say it again.
    if (!log?.whole || this.problems.length > 0) await this.log.rewrite(this.summary());
    else {
      const isNews = (line: LogLine): boolean => "file" in line && !isLogged(line, logged.files.get(line.file)?.at(-1));
      const unlogged = [...this.files.values()].some((file) => isNews(this.#entryOf(file, [])));
      if (unlogged) this.log.append(this.summary().filter(isNews));
    }
  }

  /** How all files stand now, with the names of all that is in them: what the list of commits must say at least. */
  summary(): LogLine[] {
    const heads = this.catalog.heads();
    const entries = [...this.files.values()].map((file) =>
      this.#entryOf(file, [...file.gone, ...(heads.get(file) ?? [])]),
    );
    return [{ last: this.catalog.lastCommit }, ...entries];
  }

  #entryOf(file: DataFile, heads: readonly Head[]): LogEntry {
    const { name, generation, size, lastCommit, soft } = file;
    const entry = { file: name, generation, size, commit: lastCommit, holds: toHolds(heads), all: true as const };
    return soft ? { ...entry, soft } : entry;
  }

  #checkFormats(ofLog: number, names: readonly string[]): void {
    if (ofLog > FORMAT) throw tooNew(this.url, ofLog);
    for (const name of names) {
      const handle = openSync(this.folder.file(name), "r");
      try {
        const format = readHeader(handle)?.savepoint ?? FORMAT;
        if (format > FORMAT) throw tooNew(this.url, format);
      } finally {
        closeSync(handle);
      }
    }
  }

  /** Takes in what others have added. Throws `FileReplaced` while somebody is putting a file in the place of another. */
  catchUp(): void {
    const { lines, isAll, take } = this.log.readNews();
    if (lines.length === 0 && !isAll) return;
    const logged = new Logged(lines);
    const found: Found[] = [];
    const changed: { file: DataFile; last: LogEntry }[] = [];
    const problems: FileProblem[] = [];
    for (const [name, entries] of logged.files) {
      const last = entries.at(-1) as LogEntry;
      const known = this.files.get(name);
      const isKnown = known?.generation === last.generation;
      if (isKnown && known.size >= last.size) continue;
      const file = isKnown ? known : newDataFile(name, this.folder.file(name), last.generation);
      const scanned = scanFile(file, this.handles.of(file), isKnown ? known.size : 0, last.size);
      const fresh = entries.filter(({ size }) => !isKnown || size > known.size);
      const assessed = assess(file, scanned, fresh, last.size, isKnown ? known.lastCommit : 0);
      found.push(...assessed.found);
      problems.push(...assessed.problems);
      file.damaged ||= assessed.problems.length > 0;
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
    this.problems.push(...problems);
    this.apply(found);
    // Whatever is not in the file that took its place went before that, by a line that may be gone by now too.
    if (old.size > 0) this.catalog.forget(old);
    this.catalog.lastCommit = Math.max(this.catalog.lastCommit, logged.lastCommit);
    take();
  }

  /**
   * Takes in a file that took the place of another without the list saying so: whoever did it has died, or is about to say
   * it. Both say the same, so it can be believed.
   */
  adopt(replaced: FileReplaced): void {
    const before = this.files.get(replaced.file.name);
    if (before !== replaced.file) return;
    const handle = openIfThere(before.path);
    if (handle === undefined) return;
    try {
      const header = readHeader(handle);
      if (!header || header.generation <= before.generation) return;
      const file = newDataFile(before.name, before.path, header.generation);
      const scanned = scanFile(file, handle, 0, sizeOf(handle));
      [file.size, file.lastCommit] = [scanned.end, header.generation];
      this.#setFile(file);
      this.apply([...scanned.found]);
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

  #loadFile(name: string, entries: readonly LogEntry[], hasLog: boolean): readonly Found[] {
    const path = this.folder.file(name);
    const handle = openOrMake(path);
    try {
      const size = sizeOf(handle);
      const header = readHeader(handle);
      const file = newDataFile(name, path, header?.generation ?? entries.at(-1)?.generation ?? 1);
      const scanned = scanFile(file, handle, 0, size);
      const known = entries.filter(({ generation }) => generation === file.generation);
      const promised = known.filter(({ soft }) => !soft);
      const acknowledged = promised.reduce((most, entry) => Math.max(most, entry.size), 0);
      const { found, lost, problems } = assess(file, scanned, promised, acknowledged, 0);
      this.problems.push(...problems);
      file.damaged = problems.length > 0;
      if (size < acknowledged) this.#problem(name, size, `${acknowledged - size} bytes that were saved are missing`);

      file.size = Math.max(scanned.end, Math.min(size, acknowledged));
      if (hasLog && acknowledged === 0 && scanned.seals.size === 0) {
        // It was being made: nothing in it was ever finished.
        rmSync(path, { force: true });
        return [];
      }
      if (size > file.size) {
        // Without the list of commits nobody can tell what was never finished from what is damaged.
        if (hasLog) truncate(handle, file.size);
        else {
          this.#problem(name, file.size, "its end is damaged or unfinished");
          file.size = size;
        }
      }
      if (file.size > 0 && readBytes(handle, file.size - 1, 1)[0] !== NEWLINE) {
        writeBytes(handle, Buffer.from("\n"), file.size++);
      }
      for (const [commit, heads] of lost) this.#noteLoss(file, handle, { commit, holds: heads });
      // What is not in the list may not be on the disk either.
      if (file.size > (known.at(-1)?.size ?? 0)) fsyncSync(handle);
      const commits = [...scanned.seals.values(), ...known].map(({ commit }) => commit);
      file.lastCommit = commits.reduce((last, commit) => Math.max(last, commit), 0);
      this.catalog.lastCommit = Math.max(this.catalog.lastCommit, file.lastCommit, file.generation);
      this.files.set(name, file);
      return found;
    } finally {
      closeSync(handle);
    }
  }

  /** Writes down that something is lost: the list of commits, which says so now, is shortened one day. */
  #noteLoss(file: DataFile, handle: number, seal: Seal): void {
    const header = file.size === 0 ? headerLine(file.name, file.generation) : "";
    const bytes = Buffer.from(header + toLine(seal));
    writeBytes(handle, bytes, file.size);
    file.size += bytes.length;
  }

  /** Takes in what lines say. */
  apply(found: readonly Found[]): void {
    // Within a commit what goes comes first; otherwise what it has written stays in its order.
    const rank = ({ head }: Found): number => (isGone(head) ? 0 : 1);
    for (const each of [...found].sort((a, b) => a.head.at - b.head.at || rank(a) - rank(b))) this.catalog.apply(each);
  }

  #problem(file: string, offset: number, reason: string): void {
    this.problems.push({ file, offset, reason });
  }
}

interface Assessed {
  readonly found: readonly Found[];
  /** What no file says, and the list of commits does; by commit. */
  readonly lost: ReadonlyMap<number, readonly Head[]>;
  readonly problems: readonly FileProblem[];
}

/**
 * What a file and the list of commits say together, of what was acknowledged.
 *
 * @param since the last commit that is known of the part of the file that was not read
 */
function assess(
  file: DataFile,
  scanned: Scanned,
  entries: readonly LogEntry[],
  acknowledged: number,
  since: number,
): Assessed {
  const rest = scanned.rest.filter(({ offset }) => offset < acknowledged);
  const found = [...scanned.found, ...rest];
  const problems = [...scanned.problems];
  for (const offset of scanned.badRest) {
    if (offset < acknowledged) problems.push({ file: file.name, offset, reason: "a line is damaged" });
  }
  const lost = new Map<number, readonly Head[]>();
  for (const { commit, holds, size, all } of entries) {
    if (!all && scanned.seals.has(size)) continue;
    const wanted = all ? holds.filter(({ at }) => at > since) : holds;
    const missing = lostOf(file, wanted, found, scanned.end);
    if (missing.length === 0) continue;
    found.push(...missing);
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
    if (isMissing(error)) return undefined;
    throw error;
  }
}

function openOrMake(path: string): number {
  try {
    return openSync(path, "r+");
  } catch (error) {
    if (isMissing(error)) return openSync(path, "wx+");
    throw error;
  }
}

function tooNew(url: string, found: number): SavepointError<"STORE_TOO_NEW"> {
  return new SavepointError(
    "STORE_TOO_NEW",
    `${url} was written by a newer version of Savepoint (its format is ${found}, this version knows ${FORMAT}). Update the package; the store was not touched.`,
    { details: { found, supported: FORMAT } },
  );
}
