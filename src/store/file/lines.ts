/**
 * The lines of data files: one JSON object each, which ends with a checksum of everything before it.
 *
 * | line | meaning |
 * |---|---|
 * | `{"savepoint":2,"file":…,"generation":…}` | header: the first line of every file |
 * | `{"put":<key>,"at":…,"refs":…,"value":…}` | a record |
 * | `{"item":<number>,"tape":…,"at":…,"refs":…,"value":…}` | an item of a tape |
 * | `{"blob":<hash>,"used":…,"bytes":…,"at":…}` | the use of a blob, whose bytes are in a file of their own |
 * | `{"delete":<key or range>,"at":…}` | removal of records |
 * | `{"free":<tape>,"spans":[[first, count]…],"at":…}` | removal of items |
 * | `{"drop":<hash>,"at":…}` | removal of a blob |
 * | `{"commit":…,"fence":…,"holds":[…]}` | footer: the last line of a commit, with the heads of all its lines |
 *
 * `at` is the number of the commit, which increases across all files of the store: of two lines about the same thing, the
 * one with the higher number counts. A line that a footer lists and that cannot be read is known to be lost. `fence`
 * identifies the writer (see fences.ts); it is omitted if it is 0.
 */
import { crc32 } from "node:zlib";
import type { KeyRange } from "../contract/index.js";
import {
  either,
  isCounter,
  isNumber,
  isString,
  listOf,
  objectOf,
  oneOf,
  optional,
  type Shape,
  tupleOf,
} from "../../util/index.js";

/** The version of the format, which every file header contains. */
export const FORMAT = 2;

/** The subject of a line: all of its fields except the value. */
export type LineHead =
  | { readonly put: string; readonly at: number; readonly refs?: string; readonly as?: "text" | "lines" }
  | {
      readonly item: number;
      readonly tape: string;
      readonly at: number;
      readonly refs?: string;
      readonly as?: "text";
      /** Only in footers: the number of consecutive items, beginning with this one. */
      readonly count?: number;
    }
  | { readonly blob: string; readonly used: number; readonly bytes: number; readonly at: number }
  | { readonly delete: string | KeyRange; readonly at: number }
  | {
      readonly free: string;
      readonly spans: readonly (readonly [first: number, count: number])[];
      readonly at: number;
    }
  | { readonly drop: string; readonly at: number };

/** The last line of a commit. Without it, the other lines of the commit do not count. */
export interface CommitFooter {
  readonly commit: number;
  /** The newest fence that the writer knew; 0 if omitted. */
  readonly fence?: number;
  readonly holds: readonly LineHead[];
}

/** The first line of a file. */
export interface FileHeader {
  readonly savepoint: number;
  readonly file: string;
  readonly generation: number;
}

/** The highest number of a commit. Writers reject higher ones, so that they stay exact. */
export const MAX_COMMIT = 2 ** 50;

/** The name of a blob. */
export const isBlobName: Shape = (value) => typeof value === "string" && /^[0-9a-f]{64}$/.test(value);

/** The number of a commit, or the generation of a file. */
export const isCommit: Shape = (value) => isCounter(value) && (value as number) <= MAX_COMMIT;

/** The shapes of heads, by the field that says what a line is about. */
const HEADS: Readonly<Record<string, Shape>> = {
  put: objectOf({ put: isString, at: isCommit, refs: optional(isString), as: optional(oneOf("text", "lines")) }),
  item: objectOf({
    item: isCounter,
    tape: isString,
    at: isCommit,
    refs: optional(isString),
    as: optional(oneOf("text")),
    count: optional(isCounter),
  }),
  blob: objectOf({ blob: isBlobName, used: isNumber, bytes: isCounter, at: isCommit }),
  delete: objectOf({ delete: either(isString, objectOf({ from: isString, to: isString })), at: isCommit }),
  free: objectOf({ free: isString, spans: listOf(tupleOf(isCounter, isCounter)), at: isCommit }),
  drop: objectOf({ drop: isBlobName, at: isCommit }),
};

/**
 * The shape of an object that belongs to exactly one of these kinds. An object belongs to a kind if it has a field with the
 * kind's name.
 */
export function oneKindOf(kinds: Readonly<Record<string, Shape>>): Shape {
  return (value) => {
    const [kind, ...others] = Object.keys(value ?? {}).filter((name) => Object.hasOwn(kinds, name));
    return kind !== undefined && others.length === 0 && (kinds[kind] as Shape)(value);
  };
}

/** Whether decoded fields are a head: of a record, an item, a blob or a removal. */
export const isHead = oneKindOf(HEADS);

/** Whether decoded fields are a footer. */
export const isFooter = objectOf({ commit: isCommit, fence: optional(isCounter), holds: listOf(isHead) });

/** Whether decoded fields are a header, also one of a later format. */
export const isHeader = objectOf({ savepoint: isCounter, file: isString, generation: isCommit });

const NEWLINE = 10;
const SUM = ',"sum":';
const VALUE = ',"value":';
/** The length of the longest checksum field. */
const MAX_SUM = SUM.length + "4294967295}".length;

/** Encodes a line without a value, with its checksum and line end. */
export function encodeLine(fields: object): string {
  return addChecksum(JSON.stringify(fields).slice(0, -1));
}

/** Encodes a line with a value. A value that is JSON is written unquoted, so that it can be read and searched. */
export function encodeValueLine(head: LineHead, value: string): string {
  const [as, text] = encodeValue(value, "item" in head);
  return addChecksum(`${JSON.stringify(as ? { ...head, as } : head).slice(0, -1)}${VALUE}${text}`);
}

function addChecksum(body: string): string {
  return `${body}${SUM}${crc32(body)}}\n`;
}

/** Separates the lines of a multi-line record. Lines that contain a tab are not embedded, so it is unambiguous. */
const LINE_SEPARATOR = ",\t";

function encodeValue(value: string, isJson: boolean): ["text" | "lines" | undefined, string] {
  if (isJson && !value.includes("\n")) return [undefined, value];
  const lines = value.split("\n");
  if (!lines.every(isEmbeddable)) return ["text", JSON.stringify(value)];
  return lines.length === 1 ? [undefined, value] : ["lines", `[${lines.join(LINE_SEPARATOR)}]`];
}

/** Whether a line is JSON that can be written unquoted. */
function isEmbeddable(line: string): boolean {
  if (line.includes("\t") || line === "") return false;
  try {
    JSON.parse(line);
    return true;
  } catch {
    // Anything that is not JSON is written as a quoted string.
    return false;
  }
}

/** An intact line. */
export interface Line {
  readonly fields: Readonly<Record<string, unknown>>;
  /** Decodes the value; `undefined` if the line has none, or one that Savepoint does not write. */
  readonly value: () => string | undefined;
}

/** Decodes a line without its line end; `undefined` if it is damaged. */
export function parseLine(bytes: Buffer): Line | undefined {
  const end = bytes.lastIndexOf(SUM, bytes.length, "latin1");
  if (end < 0 || bytes.length - end > MAX_SUM) return undefined;
  const sum = bytes.toString("latin1", end + SUM.length, bytes.length);
  if (sum !== `${crc32(bytes.subarray(0, end))}}`) return undefined;
  const start = bytes.indexOf(VALUE, 0, "latin1");
  const hasValue = start >= 0 && start < end;
  try {
    const head = `${bytes.toString("utf8", 0, hasValue ? start : end)}}`;
    const fields = JSON.parse(head) as Record<string, unknown>;
    const value = (): string | undefined =>
      hasValue ? decodeValue(fields["as"], bytes.toString("utf8", start + VALUE.length, end)) : undefined;
    return { fields, value };
  } catch {
    // A correct checksum of something that is not JSON: this line was not written by Savepoint.
    return undefined;
  }
}

function decodeValue(as: unknown, text: string): string | undefined {
  if (as === "text") {
    try {
      const value: unknown = JSON.parse(text);
      return typeof value === "string" ? value : undefined;
    } catch {
      // A fitting checksum does not mean that the line was written by Savepoint.
      return undefined;
    }
  }
  return as === "lines" ? text.slice(1, -1).split(LINE_SEPARATOR).join("\n") : text;
}

/** A line as it was found in a file, without its line end. */
export interface RawLine {
  readonly offset: number;
  readonly bytes: Buffer;
  /** Whether the line end is present. It can be missing from the last line of a file. */
  readonly ends: boolean;
}

/**
 * Splits bytes into lines.
 *
 * @param offset the offset of the first byte in its file
 */
export function* splitLines(bytes: Buffer, offset: number): Generator<RawLine> {
  for (let from = 0; from < bytes.length;) {
    const end = bytes.indexOf(NEWLINE, from);
    const to = end < 0 ? bytes.length : end;
    yield { offset: offset + from, bytes: bytes.subarray(from, to), ends: end >= 0 };
    from = to + 1;
  }
}

/** The heads that a footer lists: without fields that only readers of the line need, and with consecutive items merged. */
export function summarizeHeads(heads: readonly LineHead[]): LineHead[] {
  const summary: LineHead[] = [];
  for (const head of heads) {
    const last = summary.at(-1);
    if ("item" in head) {
      const { item, tape, at } = head;
      // An item is written once, so the commit of each merged item does not matter.
      if (last && "item" in last && last.tape === tape && last.item + (last.count ?? 1) === item) {
        const count = (last.count ?? 1) + 1;
        summary[summary.length - 1] = { item: last.item, tape, at: Math.min(last.at, at), count };
      } else summary.push({ item, tape, at });
    } else if ("put" in head) summary.push({ put: head.put, at: head.at });
    else summary.push(head);
  }
  return summary;
}

/** Reverses the merging of {@link summarizeHeads}: one head for each item. */
export function* expandHeads(summary: readonly LineHead[]): Generator<LineHead> {
  for (const head of summary) {
    if (!("item" in head)) yield head;
    else for (let n = 0; n < (head.count ?? 1); n++) yield { item: head.item + n, tape: head.tape, at: head.at };
  }
}

/** A string that is equal for a line and its entry in a footer. */
export function headId(head: LineHead): string {
  if ("item" in head) return `i${head.item}\t${head.tape}`;
  if ("put" in head) return `p${head.at}\t${head.put}`;
  return JSON.stringify(head);
}

/** Whether a line removes something. */
export function isRemoval(head: LineHead): boolean {
  return "delete" in head || "free" in head || "drop" in head;
}
