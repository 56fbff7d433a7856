/**
 * Documents that are found by what they contain: an optional part of a store.
 *
 * What it holds is derived from what the store holds, by whoever uses it: it may be thrown away and made again. It knows
 * **sources** (things that have documents, by name), each with numbered documents, and **marks**: which records have been
 * looked at, and as what. Nothing is done here when something is saved; `changes` says later what has changed since.
 */
import type { KeyRange } from "./key-range.js";

/** Documents of one source are numbered from `source.id * DOCUMENTS` on, in order; it has no more than that. */
export const DOCUMENTS_PER_SOURCE = 2 ** 20;

/** A record as it was looked at; `sum` stands for its content, and is missing where the record is. */
export interface Mark {
  readonly key: string;
  readonly sum: number | undefined;
}

/** Something that has documents. */
export interface TextSource {
  /** Given by the index: rises with every source that is new to it. */
  readonly id: number;
  readonly name: string;
  /** How many documents it has. */
  readonly count: number;
  /** Whatever its user wants to remember of it: well-formed, without NUL characters. */
  readonly note: string;
}

/** What becomes of one source. */
export interface SourceUpdate {
  readonly name: string;
  /** The source as it was read, `undefined` for one that is new. */
  readonly before: TextSource | undefined;
  /** Documents from this one on, of those there are, are removed; those of `texts` take their place. */
  readonly from: number;
  readonly texts: readonly string[];
  /** What to remember; `undefined` removes the source with all its documents. */
  readonly note: string | undefined;
}

export interface TextUpdate {
  readonly sources: readonly SourceUpdate[];
  /** Records that are taken note of with it. */
  readonly marks: readonly Mark[];
}

/** Where what it holds is damaged, a member fails with `DAMAGED`, and says that it is the index: {@link TextIndex.clear} helps. */
export interface TextIndex {
  /**
   * Up to `limit` records of these ranges that are not as they were last noted: new, changed or gone. `[]` means that
   * all are noted. Costs next to nothing where nothing was written since it last said so.
   */
  changes(ranges: readonly KeyRange[], limit: number): Promise<Mark[]>;

  /** The sources with these names, one for one. */
  sources(names: readonly string[]): Promise<(TextSource | undefined)[]>;

  /** The sources with these ids, one for one. */
  sourcesById(ids: readonly number[]): Promise<(TextSource | undefined)[]>;

  /**
   * Applies an update, all or nothing. `false` where a source is not what it was when it was read: another process was
   * faster, and nothing is applied.
   */
  update(update: TextUpdate): Promise<boolean>;

  /**
   * Numbers of documents that may contain this text, highest first, all below `below`: every one that does contain it,
   * literally and in its own case, and possibly some that do not. Fewer than `limit` means that there are no more.
   */
  find(text: string, options: { readonly below: number; readonly limit: number }): Promise<number[]>;

  /** Puts the index in order when much was added to it, so that finding is fast. */
  tidy?(): Promise<void>;

  /** Forgets everything. */
  clear(): Promise<void>;
}

/** Is a source what it was when it was read? */
export function isSameSource(source: TextSource | undefined, before: TextSource | undefined): boolean {
  return source?.id === before?.id && source?.count === before?.count && source?.note === before?.note;
}
