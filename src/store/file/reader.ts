/** Reads the values of records and items at the locations in the catalog. Every line is verified each time. */
import type { Frame, Unreadable } from "../contract/index.js";
import type { RecordResult } from "../shared/index.js";
import type { CatalogEntry, LineLocation } from "./catalog.js";
import { readBytes } from "./data-file.js";
import { type FileHandles, FileReplacedError } from "./file-handles.js";
import { isHead, type Line, parseLine } from "./lines.js";

/** Lines with at most this many bytes between them are read together. */
const MAX_GAP = 16_384;
/** The most bytes that are read together, unless a single line is longer. */
const MAX_READ = 1 << 20;

export class LineReader {
  readonly #handles: FileHandles;
  readonly #isLastAttempt: boolean;
  /** Whether a line was damaged, missing, or not the expected one at its location. */
  hasFailed = false;

  /** @param isLastAttempt whether a missing file is missing for good; otherwise another process may be replacing it */
  constructor(handles: FileHandles, isLastAttempt: boolean) {
    this.#handles = handles;
    this.#isLastAttempt = isLastAttempt;
  }

  record(key: string, entry: CatalogEntry): RecordResult {
    const [line] = this.lines([entry]);
    const damaged = { key, unreadable: `the record ${JSON.stringify(key)} is damaged` };
    const isRecord = line?.fields["put"] === key && line.fields["at"] === entry.at;
    const value = isRecord ? line.value() : undefined;
    this.hasFailed ||= value === undefined;
    return !line || value === undefined ? damaged : { key, value, refs: refsOf(line) };
  }

  /** Reads items. The results are in the order of the requests. */
  items(requests: readonly { tape: string; item: number; entry: CatalogEntry | undefined }[]): (Frame | Unreadable)[] {
    const lines = this.lines(requests.map(({ entry }) => entry));
    return requests.map(({ tape, item, entry }, index) => {
      const line = lines[index];
      const isItem = line?.fields["item"] === item && line.fields["tape"] === tape;
      const json = isItem ? line.value() : undefined;
      this.hasFailed ||= json === undefined;
      if (!entry) return { unreadable: `item ${item} of tape ${tape} is missing` };
      if (!line || json === undefined) return { unreadable: `item ${item} of tape ${tape} is damaged` };
      return { json, refs: refsOf(line) };
    });
  }

  /** Reads lines. The results are in the order of the locations; `undefined` for damaged and lost lines. */
  lines(locations: readonly (LineLocation | undefined)[]): (Line | undefined)[] {
    const lines: (Line | undefined)[] = Array.from({ length: locations.length });
    for (let from = 0; from < locations.length;) {
      const first = locations[from];
      let to = from + 1;
      if (!first || first.length === 0) {
        from = to;
        continue;
      }
      let end = first.offset + first.length;
      for (; to < locations.length; to++) {
        const next = locations[to];
        if (!next || next.length === 0 || next.file !== first.file) break;
        const gap = next.offset - end;
        if (gap < 0 || gap > MAX_GAP || next.offset + next.length - first.offset > MAX_READ) break;
        end = next.offset + next.length;
      }
      const bytes = this.#read(first, end - first.offset);
      for (; from < to; from++) {
        const { offset, length } = locations[from] as LineLocation;
        const start = offset - first.offset;
        // Without the line end.
        if (bytes.length >= start + length) lines[from] = parseHeadLine(bytes.subarray(start, start + length - 1));
      }
    }
    return lines;
  }

  #read({ file, offset }: LineLocation, length: number): Buffer {
    try {
      return readBytes(this.#handles.of(file), offset, length);
    } catch (error) {
      if (error instanceof FileReplacedError && this.#isLastAttempt) return Buffer.alloc(0);
      throw error;
    }
  }
}

/** Decodes a line of a record, an item, a blob or a removal. The file may have changed since it was scanned. */
function parseHeadLine(bytes: Buffer): Line | undefined {
  const line = parseLine(bytes);
  return isHead(line?.fields) ? line : undefined;
}

function refsOf(line: Line): string {
  return (line.fields["refs"] as string | undefined) ?? "";
}
