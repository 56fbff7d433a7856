/** Scanning a data file: reading its lines and grouping them into commits. */
import type { LocatedLine } from "./catalog.js";
import { type DataFile, LINES_PER_PROGRESS, readLines } from "./data-file.js";
import type { Fences } from "./fences.js";
import { SavepointError } from "../../errors.js";
import {
  type CommitFooter,
  expandHeads,
  headId,
  isFooter,
  isHead,
  isHeader,
  type LineHead,
  parseLine,
} from "./lines.js";

/** Damage in a file. */
export interface FileProblem {
  readonly file: string;
  readonly offset: number;
  readonly reason: string;
}

/** The lines of a file, as far as they are readable. */
export interface FileScan {
  /** The lines of complete commits. Lines that a footer lists and that are damaged are included as lost. */
  readonly committed: readonly LocatedLine[];
  /** The footers of complete commits, by the offset at which they end. */
  readonly footers: ReadonlyMap<number, CommitFooter>;
  /** The offset at which the last complete commit ends. */
  readonly end: number;
  /** Intact lines after the last complete commit. */
  readonly uncommitted: readonly LocatedLine[];
  /** The offsets of damaged lines after the last complete commit. */
  readonly uncommittedDamage: readonly number[];
  /** Damaged lines of complete commits. */
  readonly problems: readonly FileProblem[];
}

/** The scan of a file that does not exist. */
export const EMPTY_SCAN: FileScan = {
  committed: [],
  footers: new Map(),
  end: 0,
  uncommitted: [],
  uncommittedDamage: [],
  problems: [],
};

/** The part of a file to scan. Both offsets are the beginnings of lines. */
interface ScanRange {
  readonly from: number;
  readonly to: number;
  readonly fences: Fences;
  /** Called regularly, because scanning a large file takes a while. */
  readonly onProgress?: () => void;
}

/** Reads a part of a file. Changes nothing. */
export function scanFile(file: DataFile, handle: number, { from, to, fences, onProgress }: ScanRange): FileScan {
  let end = from;
  let uncommitted: LocatedLine[] = [];
  let uncommittedDamage: number[] = [];
  const committed: LocatedLine[] = [];
  const footers = new Map<number, CommitFooter>();
  const problems: FileProblem[] = [];
  let count = 0;
  for (const { offset, bytes, ends } of readLines(handle, from, to)) {
    if (++count % LINES_PER_PROGRESS === 0) onProgress?.();
    const fields = ends ? parseLine(bytes)?.fields : undefined;
    const length = bytes.length + 1;
    if (isHeader(fields)) end = Math.max(end, offset + length);
    else if (isFooter(fields)) {
      const footer = fields as unknown as CommitFooter;
      if (fences.isVoid(footer)) {
        // The number of a void commit is reused by a valid one.
        uncommitted = uncommitted.filter(({ head }) => head.at !== footer.commit);
        continue;
      }
      const lines = withoutStrayLines(uncommitted, footer);
      pushAll(committed, lines);
      pushAll(committed, findLostLines(file, footer.holds, lines, offset));
      for (const damage of uncommittedDamage) problems.push(damagedLine(file, damage));
      footers.set(offset + length, footer);
      [uncommitted, uncommittedDamage, end] = [[], [], offset + length];
    } else if (isHead(fields)) uncommitted.push({ file, offset, length, head: fields as unknown as LineHead });
    else uncommittedDamage.push(offset);
  }
  return { committed, footers, end, uncommitted, uncommittedDamage, problems };
}

export function damagedLine(file: DataFile, offset: number): FileProblem {
  return { file: file.name, offset, reason: "a line is damaged" };
}

/**
 * Leaves out lines of an unfinished commit with the same number, whose writer was fenced off. A footer that lists a missing
 * line records a loss: it does not have to list the lines that were not lost.
 */
function withoutStrayLines(lines: LocatedLine[], { commit, holds }: CommitFooter): LocatedLine[] {
  const count = holds.reduce((sum, head) => sum + ("item" in head ? (head.count ?? 1) : 1), 0);
  if (lines.length <= count) return lines;
  const listed = new Set([...expandHeads(holds)].map(headId));
  const present = new Set(lines.map(({ head }) => headId(head)));
  if ([...listed].some((id) => !present.has(id))) return lines;
  return lines.filter(({ head }) => head.at !== commit || listed.has(headId(head)));
}

/** The heads that were committed and are not among these lines, as lost lines. Of removals, the head is all there is. */
export function findLostLines(
  file: DataFile,
  heads: readonly LineHead[],
  lines: readonly LocatedLine[],
  offset: number,
): LocatedLine[] {
  const present = new Set(lines.map(({ head }) => headId(head)));
  const lost: LocatedLine[] = [];
  for (const head of expandHeads(heads)) {
    if (present.has(headId(head))) continue;
    lost.push({ file, offset, length: 0, head });
    expectFewLost(++file.lostLines, file.path);
  }
  return lost;
}

/** The most lost lines of a store: a short line can list any number of them. */
const MAX_LOST = 1 << 20;

/** Throws `DAMAGED` if more lines are lost than a reader can keep in memory. @param where the path of a file or store */
export function expectFewLost(lost: number, where: string): void {
  if (lost <= MAX_LOST) return;
  throw new SavepointError(
    "DAMAGED",
    `${where} lists more than ${MAX_LOST} lines that are missing. Restore it from a backup.`,
  );
}

/** Appends any number of elements: `push(...elements)` fails above the maximum number of arguments. */
export function pushAll<T>(list: T[], elements: Iterable<T>): void {
  for (const element of elements) list.push(element);
}
