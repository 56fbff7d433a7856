/**
 * The tables of the search index. They are created when the index is first used, so a store that is never searched has
 * none of them.
 *
 * The full-text table stores no documents (`content=''`) and no positions (`detail=none`), so it takes about as much
 * space as the documents themselves, instead of four times as much. Only triggers delete documents from it. A deletion
 * makes the full-text table write internal rows with rowids beyond the safe integers of JavaScript, and a driver that
 * returns the last inserted rowid would fail at the next statement. After a trigger, even a failed one, SQLite restores
 * the previous rowid.
 */
import { DOCUMENTS_PER_SOURCE } from "../contract/index.js";
import type { SqliteConnection } from "./connection.js";

/**
 * The rowid of document `n` is `TOP_ROWID - n`. The full-text table is read twice as fast in the order of its rowids as in reverse,
 * and queries return the highest documents first.
 */
export const TOP_ROWID = 2 ** 50;

/** A condition for the rows of a source's documents from number `from` (included) to `to` (excluded). */
const rowsOfDocuments = (from: string, to: string): string =>
  `rowid > ${TOP_ROWID} - OLD.id * ${DOCUMENTS_PER_SOURCE} - ${to} AND rowid <= ${TOP_ROWID} - OLD.id * ${DOCUMENTS_PER_SOURCE} - ${from}`;

/** The statements that create the tables and triggers. */
export const CREATE_TEXT_TABLES: readonly string[] = [
  "CREATE TABLE IF NOT EXISTS savepoint_text_mark (key TEXT PRIMARY KEY, sum INTEGER NOT NULL) WITHOUT ROWID",
  // Ids are not reused, because a process that has read a source that was removed meanwhile must not confuse it with
  // another.
  `CREATE TABLE IF NOT EXISTS savepoint_text_source (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL UNIQUE,
    count INTEGER NOT NULL,
    note TEXT NOT NULL
  )`,
  `CREATE VIRTUAL TABLE IF NOT EXISTS savepoint_text USING fts5(
    text, content='', contentless_delete=1, detail=none, tokenize='trigram case_sensitive 1'
  )`,
  "CREATE VIRTUAL TABLE IF NOT EXISTS savepoint_text_term USING fts5vocab('savepoint_text', 'row')",
  `CREATE TRIGGER IF NOT EXISTS savepoint_text_shorten AFTER UPDATE OF count ON savepoint_text_source
  WHEN NEW.count < OLD.count BEGIN
    DELETE FROM savepoint_text WHERE ${rowsOfDocuments("NEW.count", "OLD.count")};
  END`,
  `CREATE TRIGGER IF NOT EXISTS savepoint_text_remove AFTER DELETE ON savepoint_text_source BEGIN
    DELETE FROM savepoint_text WHERE ${rowsOfDocuments("0", "OLD.count")};
  END`,
];

const DROP: readonly string[] = [
  "DROP TABLE IF EXISTS savepoint_text_source",
  "DROP TABLE IF EXISTS savepoint_text_mark",
  "DROP TABLE IF EXISTS savepoint_text_term",
  "DROP TABLE IF EXISTS savepoint_text",
];

/** Whether the tables exist. */
export function hasTextTables(connection: SqliteConnection): boolean {
  // This trigger is created last.
  const lastTrigger = "SELECT 1 FROM sqlite_master WHERE name = 'savepoint_text_remove'";
  return connection.row(lastTrigger) !== undefined;
}

/** Creates the tables if they do not exist. To be called inside a transaction. */
export function createTextTables(connection: SqliteConnection): void {
  for (const sql of CREATE_TEXT_TABLES) connection.run(sql);
}

/** Drops and creates the tables, because they may be damaged. Ids are not reused. To be called inside a transaction. */
export function recreateTextTables(connection: SqliteConnection): void {
  const ids = "sqlite_sequence WHERE name = 'savepoint_text_source'";
  const last = hasTextTables(connection) ? connection.row<{ seq: number }>(`SELECT seq FROM ${ids}`)?.seq : undefined;
  for (const sql of [...DROP, ...CREATE_TEXT_TABLES]) connection.run(sql);
  if (last === undefined) return;
  connection.run("INSERT INTO sqlite_sequence (name, seq) VALUES ('savepoint_text_source', ?)", last);
}

/** Throws if SQLite has no full-text index, or one that is too old. */
export function probeTextTables(connection: SqliteConnection): void {
  connection.rows("SELECT rowid FROM savepoint_text LIMIT 1");
}

/** Whether the error means that SQLite has no full-text index, or one that is too old. */
export function isFullTextMissing(error: unknown): boolean {
  const missing = /no such module: fts5\b|no such tokenizer: trigram\b|unrecognized option: "?contentless_delete/;
  return error instanceof Error && missing.test(error.message);
}
