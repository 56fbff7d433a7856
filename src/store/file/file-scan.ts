/** Reading the lines of a file, and telling what they say together. */
import type { LocatedLine } from "./catalog.js";
import { type DataFile, readLines } from "./data-file.js";
import type { Fences } from "./fences.js";
import { type FileHeader, type LineHead, headId, parseLine, type CommitFooter, expandHeads } from "./lines.js";

/** Something that is wrong with a file. */
export interface FileProblem {
  readonly file: string;
  readonly offset: number;
  readonly reason: string;
}

/** What was found in a file. */
export interface FileScan {
  readonly header: FileHeader | undefined;
  /** What its whole commits say. */
  readonly committed: readonly LocatedLine[];
  /** The last lines of whole commits, by where they end. */
  readonly footers: ReadonlyMap<number, CommitFooter>;
  /** Where the last whole commit ends. */
  readonly end: number;
  /** Good lines behind it, and where bad ones are. */
  readonly uncommitted: readonly LocatedLine[];
  readonly uncommittedDamage: readonly number[];
  readonly problems: readonly FileProblem[];
}

/** The result for a file that does not exist. */
export const EMPTY_SCAN: FileScan = {
  header: undefined,
  committed: [],
  footers: new Map(),
  end: 0,
  uncommitted: [],
  uncommittedDamage: [],
  problems: [],
};

/** The part of a file to read: from one offset, where a line begins, to another. */
interface Part {
  readonly from: number;
  readonly to: number;
  readonly fences: Fences;
  /** Called regularly, because a large file takes a while. */
  readonly onProgress?: () => void;
}

/** Lines between two signs of progress. */
export const LINES_PER_PROGRESS = 1_024;

/** Reads a part of a file. */
export function scanFile(file: DataFile, handle: number, { from, to, fences, onProgress }: Part): FileScan {
  let header: FileHeader | undefined;
  let end = from;
  let rest: LocatedLine[] = [];
  let badRest: number[] = [];
  const found: LocatedLine[] = [];
  const seals = new Map<number, CommitFooter>();
  const problems: FileProblem[] = [];
  let lines = 0;
  for (const { offset, bytes, ends } of readLines(handle, from, to)) {
    if (++lines % LINES_PER_PROGRESS === 0) onProgress?.();
    const fields = ends ? parseLine(bytes)?.fields : undefined;
    const length = bytes.length + 1;
    if (!fields) badRest.push(offset);
    else if ("savepoint" in fields) {
      header = fields as unknown as FileHeader;
      end = Math.max(end, offset + length);
    } else if ("commit" in fields) {
      const seal = fields as unknown as CommitFooter;
      // The number of a void commit is reused.
      rest = fences.isVoid(seal) ? rest.filter(({ head }) => head.at !== seal.commit) : withoutStrays(rest, seal);
      if (fences.isVoid(seal)) continue;
      pushAll(found, rest);
      pushAll(found, findLostLines(file, seal.holds, rest, offset));
      for (const bad of badRest) problems.push({ file: file.name, offset: bad, reason: "a line is damaged" });
      seals.set(offset + length, seal);
      [rest, badRest, end] = [[], [], offset + length];
    } else rest.push({ file, offset, length, head: fields as unknown as LineHead });
  }
  return { header, committed: found, footers: seals, end, uncommitted: rest, uncommittedDamage: badRest, problems };
}

/**
 * Leaves out lines of an unfinished commit that had the same number: its writer was fenced off. A last line that names
 * something missing records a loss; it need not name the parts that were not lost.
 */
function withoutStrays(found: LocatedLine[], { commit, holds }: CommitFooter): LocatedLine[] {
  const count = holds.reduce((sum, head) => sum + ("item" in head ? (head.count ?? 1) : 1), 0);
  if (found.length <= count) return found;
  const named = new Set([...expandHeads(holds)].map(headId));
  const present = new Set(found.map(({ head }) => headId(head)));
  if ([...named].some((name) => !present.has(name))) return found;
  return found.filter(({ head }) => head.at !== commit || named.has(headId(head)));
}

/** Adds any number of elements: `push(...many)` fails with more elements than a call can have arguments. */
export function pushAll<T>(list: T[], elements: Iterable<T>): void {
  for (const element of elements) list.push(element);
}

/** What was committed and is in none of the lines: texts are lost, everything else is told by the names themselves. */
export function findLostLines(
  file: DataFile,
  holds: readonly LineHead[],
  found: readonly LocatedLine[],
  offset: number,
): LocatedLine[] {
  const good = new Set(found.map(({ head }) => headId(head)));
  const lost: LocatedLine[] = [];
  for (const head of expandHeads(holds)) {
    if (!good.has(headId(head))) lost.push({ file, offset, length: 0, head });
  }
  return lost;
}
