/**
 * The lines of the files: one JSON object each, which names what it holds, and ends with a checksum over all before it.
 *
 * | line | holds |
 * |---|---|
 * | `{"savepoint":2,"file":…,"generation":…}` | the first line of every file |
 * | `{"put":<key>,"at":…,"refs":…,"value":…}` | a record |
 * | `{"item":<number>,"tape":…,"at":…,"refs":…,"value":…}` | an item of a tape |
 * | `{"blob":<hash>,"used":…,"bytes":…,"at":…}` | that a blob was used, which is a file of its own |
 * | `{"delete":<key, or a range>,"at":…}` | that records are gone |
 * | `{"free":<tape>,"spans":[[first, count]…],"at":…}` | that items are gone |
 * | `{"drop":<hash>,"at":…}` | that a blob is gone |
 * | `{"commit":…,"fence":…,"holds":[…]}` | the end of a commit: the names of all its lines once more |
 *
 * `at` is the number of the commit, which rises through the whole store: of two lines about the same thing the later one
 * counts, in whichever file it is. What a commit's last line names and no good line holds is known to be lost. `fence`,
 * if it is not 0, identifies the writer: see fences.ts.
 */
import { crc32 } from "node:zlib";
import type { KeyRange } from "../contract/index.js";

export const FORMAT = 2;

/** What a line is about: its name, without its text. */
export type LineHead =
  | { readonly put: string; readonly at: number; readonly refs?: string; readonly as?: "text" | "lines" }
  | {
      readonly item: number;
      readonly tape: string;
      readonly at: number;
      readonly refs?: string;
      readonly as?: "text";
      /** In the last line of a commit: how many items from this one on. */
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

/** The last line of a commit. */
export interface CommitFooter {
  readonly commit: number;
  /** The newest fence that its writer knew; 0 where it is missing. */
  readonly fence?: number;
  readonly holds: readonly LineHead[];
}

/** The first line of a file. */
export interface FileHeader {
  readonly savepoint: number;
  readonly file: string;
  readonly generation: number;
}

const NEWLINE = 10;
const SUM = ',"sum":';
const VALUE = ',"value":';
/** No checksum is longer. */
const MAX_SUM = SUM.length + "4294967295}".length;

/** A line of any kind, with its checksum and its end. */
export function encodeLine(fields: object): string {
  return seal(JSON.stringify(fields).slice(0, -1));
}

/** A line with a text: as it is where it is JSON, so that it can be read and searched. */
export function encodeValueLine(head: LineHead, value: string): string {
  const [as, text] = showValue(value, "item" in head);
  return seal(`${JSON.stringify(as ? { ...head, as } : head).slice(0, -1)}${VALUE}${text}`);
}

function seal(body: string): string {
  return `${body}${SUM}${crc32(body)}}\n`;
}

/** Records are often several lines of JSON; between them stands what JSON has only between values. */
const LINES = ",\t";

function showValue(value: string, isJson: boolean): ["text" | "lines" | undefined, string] {
  if (isJson && !value.includes("\n")) return [undefined, value];
  const lines = value.split("\n");
  if (!lines.every(isJsonLine)) return ["text", JSON.stringify(value)];
  return lines.length === 1 ? [undefined, value] : ["lines", `[${lines.join(LINES)}]`];
}

/** Can it stand between values as it is? */
function isJsonLine(line: string): boolean {
  if (line.includes("\t") || line === "") return false;
  try {
    JSON.parse(line);
    return true;
  } catch {
    // It is no JSON: then it is shown as a text.
    return false;
  }
}

/** A line that is whole. */
export interface Line {
  readonly fields: Readonly<Record<string, unknown>>;
  /** Its text, where it has one. */
  readonly value: () => string;
}

/** Reads a line without its end; `undefined` if it is damaged. */
export function parseLine(bytes: Buffer): Line | undefined {
  const end = bytes.lastIndexOf(SUM, bytes.length, "latin1");
  if (end < 0 || bytes.length - end > MAX_SUM) return undefined;
  const sum = bytes.toString("latin1", end + SUM.length, bytes.length);
  if (sum !== `${crc32(bytes.subarray(0, end))}}`) return undefined;
  const start = bytes.indexOf(VALUE, 0, "latin1");
  const isValue = start >= 0 && start < end;
  try {
    const head = `${bytes.toString("utf8", 0, isValue ? start : end)}}`;
    const fields = JSON.parse(head) as Record<string, unknown>;
    return { fields, value: () => hiddenValue(fields["as"], bytes.toString("utf8", start + VALUE.length, end)) };
  } catch {
    // The checksum is right and the text is no JSON: nothing that this program has written.
    return undefined;
  }
}

function hiddenValue(as: unknown, text: string): string {
  if (as === "text") return JSON.parse(text) as string;
  return as === "lines" ? text.slice(1, -1).split(LINES).join("\n") : text;
}

/** The lines of some bytes, with where each begins; the last one may lack its end. */
export function* splitLines(
  bytes: Buffer,
  offset: number,
): Generator<{ offset: number; bytes: Buffer; ends: boolean }> {
  for (let from = 0; from < bytes.length;) {
    const end = bytes.indexOf(NEWLINE, from);
    const to = end < 0 ? bytes.length : end;
    yield { offset: offset + from, bytes: bytes.subarray(from, to), ends: end >= 0 };
    from = to + 1;
  }
}

/** Names of lines as the last line of their commit has them: without what only reading needs, and items together. */
export function summarizeHeads(heads: readonly LineHead[]): LineHead[] {
  const holds: LineHead[] = [];
  for (const head of heads) {
    const last = holds.at(-1);
    if ("item" in head) {
      const { item, tape, at } = head;
      // Items are written once: which commit it was need not be known of each.
      if (last && "item" in last && last.tape === tape && last.item + (last.count ?? 1) === item) {
        const count = (last.count ?? 1) + 1;
        holds[holds.length - 1] = { item: last.item, tape, at: Math.min(last.at, at), count };
      } else holds.push({ item, tape, at });
    } else if ("put" in head) holds.push({ put: head.put, at: head.at });
    else holds.push(head);
  }
  return holds;
}

/** Says the same of the same thing, wherever a line is named. */
export function headId(head: LineHead): string {
  if ("item" in head) return `i${head.item}\t${head.tape}`;
  if ("put" in head) return `p${head.at}\t${head.put}`;
  return JSON.stringify(head);
}

/** Is it about something that went? */
export function isRemoval(head: LineHead): boolean {
  return "delete" in head || "free" in head || "drop" in head;
}

/** Single items instead of several together. */
export function* expandHeads(holds: readonly LineHead[]): Generator<LineHead> {
  for (const head of holds) {
    if (!("item" in head)) yield head;
    else for (let n = 0; n < (head.count ?? 1); n++) yield { item: head.item + n, tape: head.tape, at: head.at };
  }
}
