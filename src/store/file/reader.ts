/** Reading the texts of records and items from where the catalog says they are. Every line is verified. */
import type { Frame, StoredRecord, Unreadable, UnreadableRecord } from "../contract/index.js";
import type { CatalogEntry, LineLocation } from "./catalog.js";
import { FileReplacedError, type FileHandles, readBytes } from "./data-file.js";
import { type Line, parseLine } from "./lines.js";

/** Lines that are no further apart are read together. */
const NEAR = 16_384;
/** Bytes that are read together, unless one line has more. */
const TOGETHER = 1 << 20;

export class LineReader {
  readonly #handles: FileHandles;
  /** Is what is missing now missing for good? Else somebody may have put another file in its place. */
  readonly #last: boolean;

  constructor(handles: FileHandles, last: boolean) {
    this.#handles = handles;
    this.#last = last;
  }

  record(key: string, entry: CatalogEntry): StoredRecord | UnreadableRecord {
    const [line] = this.lines([entry]);
    if (line?.fields["put"] !== key || line.fields["at"] !== entry.at) {
      return { key, unreadable: `the record ${JSON.stringify(key)} is damaged` };
    }
    return { key, value: line.value(), refs: refsOf(line) };
  }

  /** The texts of items, one for one. */
  items(wanted: readonly { tape: string; item: number; entry: CatalogEntry | undefined }[]): (Frame | Unreadable)[] {
    const lines = this.lines(wanted.map(({ entry }) => entry));
    return wanted.map(({ tape, item, entry }, index) => {
      if (!entry) return { unreadable: `item ${item} of tape ${tape} is missing` };
      const line = lines[index];
      const isIt = line?.fields["item"] === item && line.fields["tape"] === tape;
      if (!line || !isIt) return { unreadable: `item ${item} of tape ${tape} is damaged` };
      return { json: line.value(), refs: refsOf(line) };
    });
  }

  /** The lines at these places, one for one; `undefined` for what is damaged. */
  lines(places: readonly (LineLocation | undefined)[]): (Line | undefined)[] {
    const found: (Line | undefined)[] = Array.from({ length: places.length });
    for (let from = 0; from < places.length;) {
      const first = places[from];
      let to = from + 1;
      if (!first || first.length === 0) {
        from = to;
        continue;
      }
      let end = first.offset + first.length;
      for (; to < places.length; to++) {
        const next = places[to];
        if (!next || next.length === 0 || next.file !== first.file) break;
        const gap = next.offset - end;
        if (gap < 0 || gap > NEAR || next.offset + next.length - first.offset > TOGETHER) break;
        end = next.offset + next.length;
      }
      const bytes = this.#read(first, end - first.offset);
      for (; from < to; from++) {
        const { offset, length } = places[from] as LineLocation;
        const start = offset - first.offset;
        // The end of the line is not part of it.
        if (bytes.length >= start + length) found[from] = parseLine(bytes.subarray(start, start + length - 1));
      }
    }
    return found;
  }

  #read({ file, offset }: LineLocation, length: number): Buffer {
    try {
      return readBytes(this.#handles.of(file), offset, length);
    } catch (error) {
      if (error instanceof FileReplacedError && this.#last) return Buffer.alloc(0);
      throw error;
    }
  }
}

export function refsOf(line: Line): string {
  return (line.fields["refs"] as string | undefined) ?? "";
}
