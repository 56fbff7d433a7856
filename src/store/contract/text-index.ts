/**
 * The full-text index: an optional part of a store.
 *
 * Its contents are derived from the store by the caller, so they can be dropped and built again. It holds **sources**
 * (named things with numbered documents) and **marks** (which records were indexed, and in which version). A save does not
 * update it; `changes` finds later which records differ from their marks.
 */
import type { KeyRange } from "./key-range.js";

/** The most documents of one source. They are numbered consecutively from `source.id * DOCUMENTS_PER_SOURCE`. */
export const DOCUMENTS_PER_SOURCE = 2 ** 20;

/** The version of a record that was indexed: `sum` identifies its content, and is `undefined` if the record is missing. */
export interface Mark {
  readonly key: string;
  readonly sum: number | undefined;
}

/** A named thing with documents. */
export interface TextSource {
  /** Assigned by the index; increases with every new source. */
  readonly id: number;
  readonly name: string;
  /** The number of documents. */
  readonly count: number;
  /** Data of the caller: well-formed, without NUL characters. */
  readonly note: string;
}

/** A change of one source. */
export interface SourceUpdate {
  readonly name: string;
  /** The source as it was read; `undefined` if it is new. */
  readonly before: TextSource | undefined;
  /** Existing documents from this number on are removed, and `texts` are added in their place. */
  readonly from: number;
  readonly texts: readonly string[];
  /** The new note; `undefined` removes the source with all its documents. */
  readonly note: string | undefined;
}

/** An atomic change of the index. */
export interface TextUpdate {
  readonly sources: readonly SourceUpdate[];
  /** The records that are up to date after this change. */
  readonly marks: readonly Mark[];
}

/** A full-text index. If its data is damaged, calls fail with `DAMAGED`, and {@link TextIndex.clear} fixes it. */
export interface TextIndex {
  /**
   * Finds up to `limit` records of these ranges that differ from their marks: new, changed or removed ones. `[]` means that
   * all are up to date. Costs almost nothing if nothing was written since the last call that returned `[]`.
   */
  changes(ranges: readonly KeyRange[], limit: number): Promise<Mark[]>;

  /** Reads the sources with these names, in order; `undefined` for a missing one. */
  sources(names: readonly string[]): Promise<(TextSource | undefined)[]>;

  /** Reads the sources with these ids, in order; `undefined` for a missing one. */
  sourcesById(ids: readonly number[]): Promise<(TextSource | undefined)[]>;

  /**
   * Applies an update atomically. Returns `false`, and applies nothing, if a source has changed since it was read, because
   * another process was faster.
   */
  update(update: TextUpdate): Promise<boolean>;

  /**
   * Finds numbers of documents that may contain this string, highest first, all below `below`. The result has every document
   * that contains it literally and case-sensitively, and may have others. Fewer than `limit` means that there are no more.
   */
  find(text: string, options: { readonly below: number; readonly limit: number }): Promise<number[]>;

  /** Optimises the index after many additions. Optional. */
  tidy?(): Promise<void>;

  /**
   * Removes sources with all their documents, and the marks with the same keys: if such a record still exists, `changes`
   * returns it, so that the source can be added again. Unknown names are ignored; does not create an index.
   */
  remove(names: readonly string[]): Promise<void>;

  /** Removes everything. */
  clear(): Promise<void>;
}

/** Whether a source is unchanged since it was read. */
export function isSameSource(source: TextSource | undefined, before: TextSource | undefined): boolean {
  return source?.id === before?.id && source?.count === before?.count && source?.note === before?.note;
}
