/**
 * The search index in tables beside those of the store: the same file, the same transactions.
 *
 * An update is atomic, with its marks, but does not wait for the disk, because it can be derived again. Damage of these tables is
 * reported as damage of the index, and does not prevent writes to the store.
 */
import { SavepointError } from "../../errors.js";
import {
  DOCUMENTS_PER_SOURCE,
  isSameSource,
  type KeyRange,
  type Mark,
  type SourceUpdate,
  type TextIndex,
  type TextSource,
  type TextUpdate,
} from "../contract/index.js";
import { pickByKey } from "../../util/index.js";
import type { SqliteConnection } from "./connection.js";
import type { WriteBuffer } from "./write-buffer.js";
import { matchAny, toDocumentText, buildTextQuery } from "./text-query.js";
import {
  createTextTables,
  hasTextTables,
  isFullTextMissing,
  recreateTextTables,
  TOP_ROWID,
  probeTextTables,
} from "./text-schema.js";

/** A short string that begins more different trigrams than this is so common that reading all documents is no slower. */
const MAX_TERMS = 256;
/** The most trigrams that are read at once, and the milliseconds that reading them may take. */
const TERM_PAGE = 16;
const MAX_TERM_TIME = 1;
/** The most short strings that are remembered as common. */
const MAX_COMMON = 1000;
/** Pages that are merged in one transaction. */
const TIDY_PAGES = 200;

// No store writes another sum, and a driver cannot return a larger number.
const SUM = "CASE WHEN r.sum BETWEEN 0 AND 4294967295 THEN r.sum ELSE -1 END";
const CHANGES = `
  SELECT r.key AS key, ${SUM} AS sum FROM savepoint_record r LEFT JOIN savepoint_text_mark m ON m.key = r.key
  WHERE r.key >= ?1 AND r.key < ?2 AND m.sum IS NOT ${SUM}
  UNION ALL
  SELECT m.key, NULL FROM savepoint_text_mark m
  WHERE m.key >= ?1 AND m.key < ?2 AND NOT EXISTS (SELECT 1 FROM savepoint_record r WHERE r.key = m.key)
  LIMIT ?3`;
/** The records with these keys that differ from their marks. */
const CHANGED_KEYS = `
  SELECT k.value AS key, CASE WHEN r.key IS NULL THEN NULL ELSE ${SUM} END AS sum FROM json_each(?) k
  LEFT JOIN savepoint_record r ON r.key = k.value LEFT JOIN savepoint_text_mark m ON m.key = k.value
  WHERE m.sum IS NOT CASE WHEN r.key IS NULL THEN NULL ELSE ${SUM} END LIMIT ?`;
const SOURCES = "SELECT id, name, count, note FROM savepoint_text_source";
const TERMS = "SELECT term FROM savepoint_text_term WHERE term BETWEEN ? AND ? LIMIT ?";
// Some drivers bind every number as a float, with which the full-text table cannot seek.
const PAGE = `rowid > ${TOP_ROWID} - CAST(? AS INTEGER) ORDER BY rowid LIMIT ?`;
const ALL = `SELECT ${TOP_ROWID} - rowid AS number FROM savepoint_text WHERE ${PAGE}`;
const MATCHING = `SELECT ${TOP_ROWID} - rowid AS number FROM savepoint_text WHERE savepoint_text MATCH ? AND ${PAGE}`;
const MERGE = "INSERT INTO savepoint_text (savepoint_text, rank) VALUES ('merge', ?)";
const ADD = "INSERT INTO savepoint_text (rowid, text) VALUES (?, ?)";
const MARK = `INSERT OR REPLACE INTO savepoint_text_mark (key, sum)
  SELECT value ->> 0, value ->> 1 FROM json_each(?)`;
const REMOVE = "DELETE FROM savepoint_text_source WHERE name IN (SELECT value FROM json_each(?))";
const UNMARK = "DELETE FROM savepoint_text_mark WHERE key IN (SELECT value FROM json_each(?))";

/** A changed record; its sum is null if it was removed. */
interface MarkRow {
  readonly key: string;
  readonly sum: number | null;
}

export class TextTables implements TextIndex {
  readonly #connection: SqliteConnection;
  readonly #buffer: WriteBuffer;
  /** Short strings that many documents contain. If one becomes rare, finding it takes longer but stays correct. */
  readonly #common = new Set<string>();
  /** The state of the database in which `changes` last found nothing, and the ranges. */
  #upToDate: string | undefined;

  constructor(connection: SqliteConnection, buffer: WriteBuffer) {
    this.#connection = connection;
    this.#buffer = buffer;
  }

  /** Creates the tables if they do not exist. Throws if they cannot be used. */
  async prepare(): Promise<void> {
    if (!this.#read(() => hasTextTables(this.#connection))) await this.#write(() => createTextTables(this.#connection));
    this.#read(() => probeTextTables(this.#connection));
  }

  async changes(ranges: readonly KeyRange[], limit: number): Promise<Mark[]> {
    if (this.#read(() => this.#stateOf(ranges)) === this.#upToDate) return [];
    if (this.#read(() => this.#buffer.isEmpty)) return this.#findChanges(ranges, limit);
    // In one transaction: a commit that is buffered after the flush would be missed.
    return this.#connection.transaction("Searching", () => {
      this.#buffer.flush();
      return this.#findChanges(ranges, limit);
    });
  }

  async sources(names: readonly string[]): Promise<(TextSource | undefined)[]> {
    const sql = `${SOURCES} WHERE name IN (SELECT value FROM json_each(?))`;
    return pickByKey(names, this.#sources(sql, names), ({ name }) => name);
  }

  async sourcesById(ids: readonly number[]): Promise<(TextSource | undefined)[]> {
    const sql = `${SOURCES} WHERE id IN (SELECT value FROM json_each(?))`;
    return pickByKey(ids, this.#sources(sql, ids), ({ id }) => id);
  }

  async update({ sources, marks }: TextUpdate): Promise<boolean> {
    return this.#write(() => {
      if (!sources.every((source) => this.#isUnchanged(source))) return false;
      const documents = sources.flatMap((source) => this.#writeSource(source));
      const present = marks.filter(({ sum }) => sum !== undefined);
      const removed = marks.filter(({ sum }) => sum === undefined);
      // After all sources, and in the order of the rowids: a statement that may run a trigger makes the full-text table write
      // out what it holds in memory, and so does a rowid below the last one.
      documents.sort(([a], [b]) => b - a);
      for (const [number, text] of documents) this.#connection.run(ADD, TOP_ROWID - number, text);
      if (present.length > 0) this.#connection.run(MARK, JSON.stringify(present.map(({ key, sum }) => [key, sum])));
      if (removed.length > 0) this.#connection.run(UNMARK, JSON.stringify(removed.map(({ key }) => key)));
      return true;
    });
  }

  async remove(names: readonly string[]): Promise<void> {
    if (!this.#read(() => hasTextTables(this.#connection))) return;
    await this.#write(() => {
      this.#connection.run(REMOVE, JSON.stringify(names));
      this.#connection.run(UNMARK, JSON.stringify(names));
    });
    // Added after the transaction: if it fails, the marks are as before.
    this.#buffer.changedKeys?.add({ deletes: names });
  }

  /** Rewrites the index without the terms of removed documents, which it otherwise keeps until it merges its segments. */
  async purge(): Promise<void> {
    if (!this.#read(() => hasTextTables(this.#connection))) return;
    await this.#write(() => this.#connection.run("INSERT INTO savepoint_text (savepoint_text) VALUES ('optimize')"));
  }

  async find(text: string, { below, limit }: { below: number; limit: number }): Promise<number[]> {
    return this.#read(() => {
      const query = buildTextQuery(text);
      if (query === "all") return this.#numbers(ALL, below, limit);
      if ("match" in query) return this.#numbers(MATCHING, query.match, below, limit);
      const terms = this.#termsBetween(query.first, query.last);
      if (!terms) return this.#numbers(ALL, below, limit);
      return terms.length === 0 ? [] : this.#numbers(MATCHING, matchAny(terms), below, limit);
    });
  }

  /**
   * The trigrams from `first` to `last`; `undefined` if they are very common. The time to read one grows with the number of
   * documents that have it, so a few are read at a time, and it stops when that takes long.
   */
  #termsBetween(first: string, last: string): string[] | undefined {
    if (this.#common.has(first)) return undefined;
    const deadline = performance.now() + MAX_TERM_TIME;
    const terms: string[] = [];
    for (let [from, page] = [first, 2]; ; page = Math.min(page * 2, TERM_PAGE)) {
      const rows = this.#connection.rows<{ term: string }>(TERMS, from, last, page);
      for (const { term } of rows) if (term !== terms.at(-1)) terms.push(term);
      if (rows.length < page) return terms;
      if (terms.length >= MAX_TERMS || performance.now() > deadline) break;
      from = terms.at(-1) as string;
    }
    if (this.#common.size >= MAX_COMMON) this.#common.clear();
    this.#common.add(first);
    return undefined;
  }

  async tidy(): Promise<void> {
    // The first merge, with a negative number, schedules all segments of the index; the others merge them, a little at a time.
    for (let pages = -TIDY_PAGES; ; pages = TIDY_PAGES) {
      const changed = await this.#write(() => {
        const before = this.#changes();
        this.#connection.run(MERGE, pages);
        return this.#changes() - before;
      });
      if (changed < 2) return;
    }
  }

  async clear(): Promise<void> {
    await this.#write(() => {
      this.#buffer.changedKeys?.forget();
      recreateTextTables(this.#connection);
    });
  }

  /** Identifies the state of the database: one number changes with writes of other connections, the other with ours. */
  #stateOf(ranges: readonly KeyRange[]): string {
    return JSON.stringify([this.#dataVersion(), this.#changes(), ranges]);
  }

  #dataVersion(): number | undefined {
    return this.#connection.row<{ data_version: number }>("PRAGMA data_version")?.data_version;
  }

  /** How many rows this connection has changed so far. */
  #changes(): number {
    return this.#connection.row<{ changes: number }>("SELECT total_changes() AS changes")?.changes ?? 0;
  }

  #findChanges(ranges: readonly KeyRange[], limit: number): Mark[] {
    return this.#read(() => {
      const state = this.#stateOf(ranges);
      const marks: Mark[] = [];
      for (const range of ranges) {
        const left = Math.max(0, limit - marks.length);
        const rows = this.#compare(range, left);
        if (rows.length < left)
          this.#buffer.changedKeys?.set(
            range,
            rows.map(({ key }) => key),
          );
        for (const { key, sum } of rows) marks.push({ key, sum: sum ?? undefined });
      }
      if (marks.length === 0 && limit > 0) this.#upToDate = state;
      return marks;
    });
  }

  /** Compares the records of a range with their marks: those that were written since the last comparison, or all. */
  #compare(range: KeyRange, limit: number): MarkRow[] {
    const changes = this.#buffer.changedKeys?.of(range, this.#dataVersion());
    if (!changes) return this.#connection.rows<MarkRow>(CHANGES, range.from, range.to, limit);
    const keys = new Map<string, MarkRow>();
    for (const { from, to } of changes.ranges)
      for (const row of this.#connection.rows<MarkRow>(CHANGES, from, to, limit)) keys.set(row.key, row);
    if (changes.keys.size > 0) {
      const rows = this.#connection.rows<MarkRow>(CHANGED_KEYS, JSON.stringify([...changes.keys]), limit);
      for (const row of rows) keys.set(row.key, row);
    }
    return [...keys.values()].slice(0, limit);
  }

  #sources(sql: string, values: readonly (string | number)[]): TextSource[] {
    const rows = this.#read(() => this.#connection.rows<TextSource>(sql, JSON.stringify(values)));
    return rows.map(({ id, name, count, note }) => ({ id, name, count, note }));
  }

  #isUnchanged({ name, before }: SourceUpdate): boolean {
    return isSameSource(this.#connection.row<TextSource>(`${SOURCES} WHERE name = ?`, name), before);
  }

  /** Writes a source and removes its replaced documents. Returns the documents to add. */
  #writeSource({ name, before, from, texts, note }: SourceUpdate): [number: number, text: string][] {
    if (note === undefined) {
      // Triggers remove its documents, and those beyond a smaller count.
      this.#connection.run("DELETE FROM savepoint_text_source WHERE name = ?", name);
      return [];
    }
    const count = from + texts.length;
    let id = before?.id;
    if (id === undefined) {
      const insert = "INSERT INTO savepoint_text_source (name, count, note) VALUES (?, ?, ?) RETURNING id";
      id = (this.#connection.row<{ id: number }>(insert, name, count, note) as { id: number }).id;
    } else {
      this.#connection.run("UPDATE savepoint_text_source SET count = ? WHERE id = ? AND count > ?", from, id, from);
      this.#connection.run("UPDATE savepoint_text_source SET count = ?, note = ? WHERE id = ?", count, note, id);
    }
    const first = id * DOCUMENTS_PER_SOURCE + from;
    return texts.map((text, index) => [first + index, toDocumentText(text)]);
  }

  #numbers(sql: string, ...values: (string | number)[]): number[] {
    return this.#connection.rows<{ number: number }>(sql, ...values).map(({ number }) => number);
  }

  #read<T>(work: () => T): T {
    try {
      return work();
    } catch (error) {
      throw this.#failure(error);
    }
  }

  async #write<T>(work: () => T): Promise<T> {
    this.#upToDate = undefined;
    return this.#connection.transaction("Searching", () =>
      // Errors are converted in here: otherwise damage of the index would poison the connection of the store.
      this.#read(() => {
        const result = work();
        // Makes the full-text table write out what it holds in memory; otherwise that would happen, and could fail, in COMMIT.
        this.#connection.run("SAVEPOINT texts");
        this.#connection.run("RELEASE texts");
        return result;
      }),
    );
  }

  #failure(error: unknown): SavepointError {
    const { url } = this.#connection;
    const failure = this.#connection.failure(error, "Searching");
    // The statements are constant: if SQLite rejects one, the tables are not as they were created.
    const isDamaged = failure.code === "DAMAGED" || failure.code === "STORE_FAILED";
    if (!isDamaged || isFullTextMissing(error)) return failure;
    return new SavepointError(
      "DAMAGED",
      `The search index of ${url} is damaged. No saved data is lost. Clear the index; the next search builds it again.`,
      { cause: error },
    );
  }
}
