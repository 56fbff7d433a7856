/**
 * Loading a store: each file is scanned, reconciled with the commit log, and, if the lock is held, repaired. Then the log
 * itself is repaired.
 */
import { closeSync } from "node:fs";
import { SavepointError } from "../../errors.js";
import { runSlicesSync, type Slices } from "../../util/index.js";
import { Catalog, type LocatedLine } from "./catalog.js";
import type { CommitLog, LogContents, LogEntry, LogLine } from "./commit-log.js";
import {
  type DataFile,
  newDataFile,
  openIfPresent,
  readBytes,
  readHeader,
  sizeOf,
  withFileIfPresent,
} from "./data-file.js";
import { fenceField, Fences } from "./fences.js";
import { FileReplacedError } from "./file-handles.js";
import { EMPTY_SCAN, expectFewLost, type FileProblem, pushAll, scanFile } from "./file-scan.js";
import type { Folder } from "./folder.js";
import { type CommitFooter, FORMAT, summarizeHeads } from "./lines.js";
import type { HeldLock } from "./lock.js";
import { LogIndex } from "./log-index.js";
import { acknowledgedSize, reconcileFile, type ReconciledFile } from "./reconciliation.js";
import { applyRepairs, endLastLine, planRepairs, syncUnlogged } from "./repair.js";

const NEWLINE = 10;

/** How a store is loaded. */
export interface LoadMode {
  /**
   * Whether another process may be writing. Then only commits in the log are valid: others may be unfinished. Otherwise,
   * commits that are not in the log were left by a dead process, and are valid if they are complete.
   */
  readonly isBusy: boolean;
  /** Whether to accept a file that replaced another one and is not in the log yet. */
  readonly acceptsReplaced: boolean;
  /** The lock, if it is held: then the files are repaired. */
  readonly lock?: HeldLock;
}

/** What a store contains, as this process knows it. */
export interface StoreState {
  catalog: Catalog;
  files: Map<string, DataFile>;
  fences: Fences;
  problems: FileProblem[];
}

/**
 * Reads everything. Throws {@link FileReplacedError} while another process is replacing a file.
 *
 * @returns the state, and whether there is something to repair; with the lock held, it has been repaired
 */
export function loadStore(
  url: string,
  folder: Folder,
  log: CommitLog,
  mode: LoadMode,
): { state: StoreState; needsRepair: boolean } {
  const { lock, isBusy } = mode;
  const onProgress = (): void => lock?.refresh();
  const logContents = log.readAll();
  const index = new LogIndex(logContents?.lines ?? []);
  const names = folder.listDataFiles();
  checkFormats(url, folder, logContents?.format, names);

  const { fences } = index;
  if (!logContents?.isIntact && !isBusy) fences.derive(readFooters(folder, names, onProgress));
  const state: StoreState = {
    catalog: new Catalog(),
    files: new Map(),
    fences,
    problems: findLogProblems(logContents, index, names),
  };
  const lines: LocatedLine[] = [];
  let needsFileRepair = false;
  let lostLines = 0;
  for (const name of new Set([...names, ...index.files.keys()])) {
    onProgress();
    const entries = index.files.get(name) ?? [];
    // A file that another process is creating and has not logged yet.
    if (entries.length === 0 && isBusy && logContents) continue;
    const hasLog = logContents !== undefined;
    const { file, reconciled, isRepaired } = loadFile(folder, name, { entries, hasLog, fences, mode, onProgress });
    needsFileRepair ||= isRepaired;
    expectFewLost((lostLines += file.lostLines), folder.path);
    pushAll(state.problems, reconciled.problems);
    if (reconciled.isUnused) continue;
    state.files.set(name, file);
    pushAll(lines, reconciled.lines);
    state.catalog.lastCommit = Math.max(state.catalog.lastCommit, file.lastCommit, file.generation);
  }
  state.catalog.applyAll(lines, onProgress);
  state.catalog.lastCommit = Math.max(state.catalog.lastCommit, index.lastCommit);

  const unlogged = findUnloggedFiles(state.files, index);
  // While another process may be writing, the last line of the log may be unfinished.
  const isLogBad =
    !logContents || logContents.format < FORMAT || !(logContents.isIntact || isBusy) || state.problems.length > 0;
  if (lock) repairLog(log, state, unlogged, isLogBad, lock);
  const hasTemporaryFiles = !isBusy && folder.temporaryFiles().length > 0;
  return { state, needsRepair: needsFileRepair || isLogBad || unlogged.size > 0 || hasTemporaryFiles };
}

interface LoadFileOptions {
  readonly entries: readonly LogEntry[];
  readonly hasLog: boolean;
  readonly fences: Fences;
  readonly mode: LoadMode;
  readonly onProgress: () => void;
}

function loadFile(
  folder: Folder,
  name: string,
  { entries, hasLog, fences, mode, onProgress }: LoadFileOptions,
): { file: DataFile; reconciled: ReconciledFile; isRepaired: boolean } {
  const path = folder.file(name);
  const handle = openIfPresent(path);
  try {
    const last = entries.at(-1);
    const header = handle === undefined ? undefined : readHeader(handle);
    const file = newDataFile(name, path, header?.generation ?? last?.generation ?? 1);
    const isLogged = handle !== undefined && last?.generation === file.generation;
    if (mode.isBusy && last && !isLogged && !mode.acceptsReplaced) throw new FileReplacedError(file);
    const { lock } = mode;
    if (lock && handle !== undefined && lacksLineEnd(handle, file, entries, hasLog)) endLastLine(file, lock);
    const available = handle === undefined ? 0 : sizeOf(handle);
    const size = mode.isBusy && isLogged ? Math.min(available, last.size) : available;
    const scan = handle === undefined ? EMPTY_SCAN : scanFile(file, handle, { from: 0, to: size, fences, onProgress });

    const reconciled = reconcileFile({ file, size, scan, entries, hasLog });
    [file.size, file.lastCommit, file.isDamaged] = [reconciled.size, reconciled.lastCommit, reconciled.isDamaged];

    const endsLine = handle !== undefined && isLineEnd(handle, reconciled.size);
    const repairs = planRepairs(file, reconciled, { exists: handle !== undefined, size, endsLine }, fences);
    if (lock) {
      applyRepairs(file, repairs, lock, folder.mode);
      if (!reconciled.isUnused) syncUnlogged(file, reconciled.loggedSize);
    }
    return { file, reconciled, isRepaired: repairs.length > 0 };
  } finally {
    if (handle !== undefined) closeSync(handle);
  }
}

/**
 * Whether a file ends within a line that is kept. That line is completed before the file is scanned: it may lack nothing but
 * its end, and a line that the repair itself makes readable must not be recorded as lost.
 */
function lacksLineEnd(handle: number, file: DataFile, entries: readonly LogEntry[], hasLog: boolean): boolean {
  const size = sizeOf(handle);
  const isKept = !hasLog || size < acknowledgedSize(file, entries);
  return isKept && size > 0 && !isLineEnd(handle, size);
}

function isLineEnd(handle: number, size: number): boolean {
  return size > 0 && readBytes(handle, size - 1, 1)[0] === NEWLINE;
}

/** Throws `STORE_TOO_NEW` if the log or a file has a newer format than this version supports. */
export function checkFormats(url: string, folder: Folder, logFormat = FORMAT, names = folder.listDataFiles()): void {
  if (logFormat > FORMAT) throw tooNew(url, logFormat);
  for (const name of names) {
    // It may be missing, because another process has just removed it.
    const format = withFileIfPresent(folder.file(name), readHeader)?.savepoint ?? FORMAT;
    if (format > FORMAT) throw tooNew(url, format);
  }
}

/** The footers of all files, from which the fences that a damaged log lacks are derived. */
function readFooters(folder: Folder, names: readonly string[], onProgress: () => void): CommitFooter[] {
  const footers: CommitFooter[] = [];
  for (const name of names) {
    const file = newDataFile(name, folder.file(name), 1);
    withFileIfPresent(file.path, (handle) => {
      const range = { from: 0, to: sizeOf(handle), fences: new Fences(), onProgress };
      pushAll(footers, scanFile(file, handle, range).footers.values());
    });
  }
  return footers;
}

function findLogProblems(log: LogContents | undefined, index: LogIndex, names: readonly string[]): FileProblem[] {
  const problem = (reason: string): FileProblem[] => [{ file: "commits", offset: 0, reason }];
  if (!log) return names.length === 0 ? [] : problem("the commit log is missing");
  return !log.isIntact && !log.isUnfinished && index.isClosed ? problem("the commit log is damaged") : [];
}

/** The names of files whose current size is not in the log. */
function findUnloggedFiles(files: ReadonlyMap<string, DataFile>, index: LogIndex): Set<string> {
  const unlogged = new Set<string>();
  for (const { name, generation, size } of files.values()) {
    const last = index.files.get(name)?.at(-1);
    if (last?.generation !== generation || last.size !== size) unlogged.add(name);
  }
  return unlogged;
}

function repairLog(
  log: CommitLog,
  state: StoreState,
  unlogged: ReadonlySet<string>,
  isBad: boolean,
  lock: HeldLock,
): void {
  const onProgress = (): void => lock.refresh();
  if (isBad) runSlicesSync(rewriteLog(log, state, lock), onProgress);
  else if (unlogged.size > 0) {
    const lines = runSlicesSync(summarizeState(state), onProgress);
    log.append(
      lines.filter((line) => "file" in line && unlogged.has(line.file)),
      () => lock.isHeld,
    );
  }
}

/** Rewrites the commit log from the current state, in slices. The lock is held. */
export function* rewriteLog(log: CommitLog, state: StoreState, lock: Pick<HeldLock, "assertHeld">): Slices<void> {
  yield* log.rewrite(yield* summarizeState(state), () => lock.assertHeld());
}

/** The shortest log that describes the state: one entry for each file, with the heads of everything in it. */
function* summarizeState({ catalog, files, fences }: StoreState): Slices<LogLine[]> {
  const heads = yield* catalog.heads();
  const lines: LogLine[] = [...fences.all, { last: catalog.lastCommit }];
  for (const file of files.values()) {
    const { name, generation, size, lastCommit, isUnsynced, removals } = file;
    const entry: LogEntry = {
      file: name,
      generation,
      size,
      commit: lastCommit,
      ...fenceField(fences.current),
      holds: summarizeHeads([...removals, ...(heads.get(file) ?? [])]),
      all: true,
      ...(isUnsynced && { soft: true }),
    };
    lines.push(entry);
    yield;
  }
  return lines;
}

function tooNew(url: string, found: number): SavepointError<"STORE_TOO_NEW"> {
  return new SavepointError(
    "STORE_TOO_NEW",
    `The store ${url} has format ${found}, and this version of Savepoint supports formats up to ${FORMAT}. Update the package. The store was not changed.`,
    { details: { found, supported: FORMAT } },
  );
}
