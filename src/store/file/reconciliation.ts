/**
 * Reconciling a scanned file with the commit log: which lines count, which are lost, and which bytes to keep. Pure functions:
 * nothing is read or written here.
 */
import type { LocatedLine } from "./catalog.js";
import type { LogEntry } from "./commit-log.js";
import type { DataFile } from "./data-file.js";
import { damagedLine, type FileProblem, type FileScan, findLostLines, pushAll } from "./file-scan.js";
import type { LineHead } from "./lines.js";

/** The lines of a file that count, according to the file and the log together. */
export interface ReconciledLines {
  /** Including lost ones. */
  readonly lines: readonly LocatedLine[];
  /** Heads that only the log contains, by commit: these lines were acknowledged, and their values are lost. */
  readonly lost: ReadonlyMap<number, readonly LineHead[]>;
  readonly problems: readonly FileProblem[];
}

/** A file after reconciliation. */
export interface ReconciledFile extends ReconciledLines {
  /** The size of the part to keep. The rest of the file is unfinished commits. */
  readonly size: number;
  /** Whether the file has no commits at all: a process died while it created the file. */
  readonly isUnused: boolean;
  readonly isDamaged: boolean;
  readonly lastCommit: number;
  /** The size of the file according to the log; `undefined` if the log does not mention it. */
  readonly loggedSize: number | undefined;
}

/** A scanned file, and what the log contains about it. */
export interface ScannedFile {
  readonly file: DataFile;
  /** The size of the part that was scanned. */
  readonly size: number;
  readonly scan: FileScan;
  readonly entries: readonly LogEntry[];
  /** Whether there is a commit log. Without it, unfinished commits cannot be distinguished from damage. */
  readonly hasLog: boolean;
}

/** The size that a file had when everything in it was acknowledged and durable, according to the log. */
export function acknowledgedSize(file: DataFile, entries: readonly LogEntry[]): number {
  return syncedEntries(file, entries).reduce((most, { size }) => Math.max(most, size), 0);
}

/** Commits that were not synced may be missing after a power cut: that is not damage. */
function syncedEntries(file: DataFile, entries: readonly LogEntry[]): LogEntry[] {
  return entries.filter(({ generation, soft }) => generation === file.generation && !soft);
}

/** Reconciles an entire file. */
export function reconcileFile({ file, size, scan, entries, hasLog }: ScannedFile): ReconciledFile {
  const logged = entries.filter(({ generation }) => generation === file.generation);
  const synced = syncedEntries(file, entries);
  const acknowledged = acknowledgedSize(file, entries);
  const { lines, lost, problems } = reconcileLines(file, scan, synced, acknowledged, 0);
  const end = Math.max(scan.end, Math.min(size, acknowledged));
  const more: FileProblem[] = [];
  if (size < acknowledged) {
    more.push({ file: file.name, offset: size, reason: `${acknowledged - size} bytes that were saved are missing` });
  }
  if (size > end && !hasLog) {
    more.push({ file: file.name, offset: end, reason: "its end is damaged or unfinished" });
  }
  const commits = [...scan.footers.values(), ...logged].map(({ commit }) => commit);
  return {
    lines,
    lost,
    problems: [...problems, ...more],
    size: hasLog ? end : Math.max(end, size),
    isUnused: hasLog && acknowledged === 0 && scan.footers.size === 0,
    isDamaged: problems.length > 0,
    lastCommit: commits.reduce((most, commit) => Math.max(most, commit), 0),
    loggedSize: logged.at(-1)?.size,
  };
}

/**
 * Reconciles a part of a file with the log entries about that part.
 *
 * @param acknowledged the offset up to which everything was acknowledged
 * @param since the last commit in the part of the file before the scanned one
 */
export function reconcileLines(
  file: DataFile,
  scan: FileScan,
  entries: readonly LogEntry[],
  acknowledged: number,
  since: number,
): ReconciledLines {
  const lines = [...scan.committed, ...scan.uncommitted.filter(({ offset }) => offset < acknowledged)];
  const problems = [...scan.problems];
  for (const offset of scan.uncommittedDamage) if (offset < acknowledged) problems.push(damagedLine(file, offset));
  const lost = new Map<number, readonly LineHead[]>();
  for (const { commit, holds, size, all } of entries) {
    if (!all && scan.footers.has(size)) continue;
    const expected = all ? holds.filter(({ at }) => at > since) : holds;
    const missing = findLostLines(file, expected, lines, scan.end);
    if (missing.length === 0) continue;
    pushAll(lines, missing);
    lost.set(
      commit,
      missing.map(({ head }) => head),
    );
  }
  return { lines, lost, problems };
}
