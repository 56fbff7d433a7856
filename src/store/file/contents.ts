/**
 * The contents of a store, as this process knows them: the files, and the catalog of everything in them. They are loaded
 * once and then updated with the commits of other processes.
 */
import { lstatSync, readFileSync, rmSync } from "node:fs";
import type { Slices } from "../../util/index.js";
import { Catalog } from "./catalog.js";
import { CatalogFile, CatalogFileError, MAX_CATALOG_BYTES } from "./catalog-file.js";
import { MIN_INDEXED_BYTES, updateCatalogFile } from "./catalog-file-writer.js";
import { CommitLog, type LogEntry } from "./commit-log.js";
import { type DataFile, newDataFile, readHeader, sizeOf, withFileIfPresent } from "./data-file.js";
import { fenceField, Fences } from "./fences.js";
import { FileHandles, FileReplacedError } from "./file-handles.js";
import { type FileProblem, pushAll, scanFile } from "./file-scan.js";
import type { Folder } from "./folder.js";
import { IndexedCatalog } from "./indexed-catalog.js";
import { checkFormats, type LoadMode, loadStore, rewriteLog, type StoreState } from "./load.js";
import type { HeldLock } from "./lock.js";
import { LogIndex } from "./log-index.js";
import { type ReconciledLines, reconcileLines } from "./reconciliation.js";

/** Lines that another process has added to a file. */
interface FileUpdate extends ReconciledLines {
  readonly file: DataFile;
  readonly last: LogEntry;
}

export class StoreContents implements StoreState {
  readonly folder: Folder;
  readonly url: string;
  readonly handles: FileHandles;
  readonly log: CommitLog;
  catalog = new Catalog();
  files = new Map<string, DataFile>();
  fences = new Fences();
  problems: FileProblem[] = [];
  #distrustsCatalogFile = false;

  /** @param minIndexedBytes stores with fewer bytes have no catalog file */
  constructor(
    folder: Folder,
    url: string,
    isReadOnly = false,
    readonly minIndexedBytes = MIN_INDEXED_BYTES,
  ) {
    this.folder = folder;
    this.url = url;
    this.handles = new FileHandles(isReadOnly);
    this.log = new CommitLog(folder.commits, folder.mode);
  }

  /** Whether the catalog is that of the catalog file: then the files were not scanned. */
  get isIndexed(): boolean {
    return this.catalog instanceof IndexedCatalog;
  }

  /**
   * Reads the catalog file, and the commits since it was written. Changes nothing on the disk.
   *
   * @param isBusy whether another process may be writing: then bytes that are not in the log do not count
   * @returns false if there is none, or if it does not describe the files. Then everything must be read
   */
  loadCatalogFile(isBusy: boolean): boolean {
    if (this.#distrustsCatalogFile) return false;
    try {
      const stat = lstatSync(this.folder.catalog, { throwIfNoEntry: false });
      if (!stat?.isFile() || stat.size > MAX_CATALOG_BYTES) return false;
      const bytes = withFileIfPresent(this.folder.catalog, (handle) => readFileSync(handle));
      if (!bytes) return false;
      const base = new CatalogFile(bytes, this.folder);
      if (!this.log.resume(base.stamp)) return false;
      this.handles.closeAll();
      this.catalog = new IndexedCatalog(base);
      this.files = new Map(base.files.map((file) => [file.name, file]));
      this.fences = new Fences();
      for (const fence of base.fences) this.fences.add(fence);
      this.problems = [];
      return this.catchUp() && this.#hasAllFiles(isBusy);
    } catch (error) {
      // The catalog file is derived: if it is invalid in any way, the files are scanned instead.
      const isForbidden = ["EACCES", "EPERM"].includes((error as NodeJS.ErrnoException).code ?? "");
      if (error instanceof CatalogFileError || error instanceof FileReplacedError || isForbidden) return false;
      throw error;
    }
  }

  /** Whether the files have exactly the known sizes, and there are no others. */
  #hasAllFiles(isBusy: boolean): boolean {
    let known = 0;
    for (const name of this.folder.listDataFiles()) {
      const file = this.files.get(name);
      if (!file && isBusy) continue;
      const size = file && lstatSync(file.path, { throwIfNoEntry: false })?.size;
      if (!file || size === undefined || size < file.size || (size > file.size && !isBusy)) return false;
      known++;
    }
    return known === this.files.size;
  }

  /** Throws {@link CatalogFileError} if the files were not scanned: only a scan shows whether something is lost or damaged. */
  expectScanned(): void {
    if (this.isIndexed) throw new CatalogFileError("A line is not at the location that the catalog file names.");
  }

  /** Never reads the catalog file again. */
  distrustCatalogFile(): void {
    this.#distrustsCatalogFile = true;
  }

  /**
   * Reads everything and changes nothing. Does not need the lock. Throws `FileReplacedError` while another process is
   * replacing a file.
   *
   * @returns whether there is something that {@link recover} would repair
   */
  load(mode: Omit<LoadMode, "lock">): boolean {
    return this.#load(mode);
  }

  /** Reads everything, and repairs it. The lock is held. */
  recover(lock: HeldLock): void {
    // Before anything is changed.
    checkFormats(this.url, this.folder, this.log.readAll()?.format);
    // Before anything is read, so that a process that lost the lock can no longer rename them.
    for (const path of this.folder.temporaryFiles()) {
      lock.assertHeld();
      rmSync(path, { force: true });
    }
    this.#load({ isBusy: false, acceptsReplaced: true, lock });
  }

  #load(mode: LoadMode): boolean {
    this.handles.closeAll();
    const { state, needsRepair } = loadStore(this.url, this.folder, this.log, mode);
    this.catalog = state.catalog;
    this.files = state.files;
    this.fences = state.fences;
    this.problems = state.problems;
    return needsRepair;
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

  /** Rewrites the commit log from the current contents, and then the catalog file, in slices. The lock is held. */
  *rewriteLog(lock: Pick<HeldLock, "assertHeld">): Slices<void> {
    yield* rewriteLog(this.log, this, lock);
    yield* updateCatalogFile(this, lock);
  }

  /** The field of a commit that identifies its writer. */
  get writer(): { readonly fence?: number } {
    return fenceField(this.fences.current);
  }

  /**
   * Reads the commits of other processes. Throws `FileReplacedError`, and changes nothing, while another process is
   * replacing a file.
   *
   * @returns false if everything must be read again: another process has added a fence that may void known commits
   */
  catchUp(): boolean {
    const { lines, isAll, hasDamage, acknowledge } = this.log.readUpdate();
    if (this.isIndexed && (isAll || hasDamage)) return false;
    if (lines.length === 0 && !isAll) return true;
    const index = new LogIndex(lines, isAll ? 0 : this.fences.current);
    if (index.fences.current > this.fences.current) return false;
    const updates = [...index.files].flatMap(([name, entries]) => this.#readFileUpdate(name, entries) ?? []);
    const obsolete = this.#obsoleteFiles(updates, index, isAll);
    // The catalog file has no information about damage, or about obsolete data in a file: the files must be scanned.
    if (this.isIndexed && (obsolete.size > 0 || updates.some(({ problems }) => problems.length > 0))) return false;
    for (const { file, last, problems } of updates) {
      [file.size, file.lastCommit, file.isUnsynced] = [last.size, last.commit, last.soft ?? false];
      file.isDamaged ||= problems.length > 0;
      this.#setFile(file);
      pushAll(this.problems, problems);
    }
    for (const file of obsolete) if (this.files.get(file.name) === file) this.remove(file);
    this.catalog.applyAll(updates.flatMap((update) => update.lines));
    // Entries that are not in the replacement of their file were removed by a line that may itself be compacted away.
    if (obsolete.size > 0) this.catalog.forget(obsolete);
    this.catalog.lastCommit = Math.max(this.catalog.lastCommit, index.lastCommit);
    acknowledge();
    return true;
  }

  /** The new lines of a file; `undefined` if there are none. */
  #readFileUpdate(name: string, entries: readonly LogEntry[]): FileUpdate | undefined {
    const last = entries.at(-1) as LogEntry;
    const current = this.files.get(name);
    const isSame = current?.generation === last.generation;
    if (isSame && current.size >= last.size) return undefined;
    const file = isSame ? current : newDataFile(name, this.folder.file(name), last.generation);
    const range = { from: file.size, to: last.size, fences: this.fences };
    const scan = scanFile(file, this.handles.of(file), range);
    const added = entries.filter(({ size }) => size > file.size);
    return { file, last, ...reconcileLines(file, scan, added, last.size, file.lastCommit) };
  }

  /** Known files that were replaced or removed. A rewritten log mentions every file that exists. */
  #obsoleteFiles(updates: readonly FileUpdate[], index: LogIndex, isAll: boolean): Set<DataFile> {
    const updated = new Set(updates.map(({ file }) => file));
    const names = [...updates.map(({ file }) => file.name), ...index.removed];
    if (isAll) names.push(...[...this.files.keys()].filter((name) => !index.files.has(name)));
    const known = names.flatMap((name) => this.files.get(name) ?? []);
    return new Set(known.filter((file) => !updated.has(file)));
  }

  /**
   * Accepts the replacement of a file before the log mentions it: the process that replaced it has died, or is about to add
   * it to the log. Both files have the same contents, so the new one can be trusted.
   */
  adopt({ file: before }: FileReplacedError): void {
    if (this.files.get(before.name) !== before) return;
    withFileIfPresent(before.path, (handle) => {
      const header = readHeader(handle);
      if (!header || header.generation <= before.generation) return;
      const file = newDataFile(before.name, before.path, header.generation);
      const scan = scanFile(file, handle, { from: 0, to: sizeOf(handle), fences: this.fences });
      [file.size, file.lastCommit] = [scan.end, header.generation];
      this.#setFile(file);
      this.catalog.applyAll(scan.committed);
      this.catalog.forget(new Set([before]));
    });
  }

  /** Puts a compacted file in the place of the one with the same name. It does not have the damage of that one. */
  replace(file: DataFile): void {
    this.#setFile(file);
    this.problems = this.problems.filter((problem) => problem.file !== file.name);
  }

  /** Forgets a file. Its entries stay in the catalog. */
  remove({ name }: DataFile): void {
    const file = this.files.get(name);
    if (file) this.handles.close(file);
    this.files.delete(name);
  }

  #setFile(file: DataFile): void {
    const before = this.files.get(file.name);
    if (before !== file && before) this.handles.close(before);
    this.files.set(file.name, file);
  }
}
