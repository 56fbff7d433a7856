/** Reading the lines of a file, and telling what they say together. */
import type { Found } from "./catalog.js";
import { type DataFile, readLines } from "./data-file.js";
import { type FileHeader, type Head, nameOf, parseLine, type Seal, singleHeads } from "./lines.js";

/** Something that is wrong with a file. */
export interface FileProblem {
  readonly file: string;
  readonly offset: number;
  readonly reason: string;
}

/** What was found in a file. */
export interface Scanned {
  readonly header: FileHeader | undefined;
  /** What its whole commits say. */
  readonly found: readonly Found[];
  /** The last lines of whole commits, by where they end. */
  readonly seals: ReadonlyMap<number, Seal>;
  /** Where the last whole commit ends. */
  readonly end: number;
  /** Good lines behind it, and where bad ones are. */
  readonly rest: readonly Found[];
  readonly badRest: readonly number[];
  readonly problems: readonly FileProblem[];
}

/** Reads a file from one place to another; the first must be where a line begins. */
export function scanFile(file: DataFile, handle: number, from: number, to: number): Scanned {
  let header: FileHeader | undefined;
  let end = from;
  let rest: Found[] = [];
  let badRest: number[] = [];
  const found: Found[] = [];
  const seals = new Map<number, Seal>();
  const problems: FileProblem[] = [];
  for (const { offset, bytes, ends } of readLines(handle, from, to)) {
    const fields = ends ? parseLine(bytes)?.fields : undefined;
    const length = bytes.length + 1;
    if (!fields) badRest.push(offset);
    else if ("savepoint" in fields) {
      header = fields as unknown as FileHeader;
      end = Math.max(end, offset + length);
    } else if ("commit" in fields) {
      const seal = fields as unknown as Seal;
      found.push(...rest, ...lostOf(file, seal.holds, rest, offset));
      for (const bad of badRest) problems.push({ file: file.name, offset: bad, reason: "a line is damaged" });
      seals.set(offset + length, seal);
      [rest, badRest, end] = [[], [], offset + length];
    } else rest.push({ file, offset, length, head: fields as unknown as Head });
  }
  return { header, found, seals, end, rest, badRest, problems };
}

/** What was committed and is in none of the lines: texts are lost, everything else is told by the names themselves. */
export function lostOf(file: DataFile, holds: readonly Head[], found: readonly Found[], offset: number): Found[] {
  const good = new Set(found.map(({ head }) => nameOf(head)));
  const lost: Found[] = [];
  for (const head of singleHeads(holds)) {
    if (!good.has(nameOf(head))) lost.push({ file, offset, length: 0, head });
  }
  return lost;
}
