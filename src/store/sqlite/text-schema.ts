/**
 * The tables of the search index. They are made when it is first used: a store that is never searched has none of them.
 *
 * The full-text table keeps no texts (`content=''`) and no places in them (`detail=none`): it takes about as much room as
 * the texts themselves, where it would take four times that. Documents are removed from it by triggers only. It then writes
 * rows of its own under numbers beyond those of JavaScript, and a driver that tells the last number that was given would
 * fail at whatever is run next; when a trigger has ended, also by an error, that is the one from before.
 */
import { DOCUMENTS_PER_SOURCE } from "../contract/index.js";
import type { Connection } from "./connection.js";

/**
 * Documents are rows of the full-text table by their distance to this number: it is read twice as fast in the order of
 * its rows as against it, and the highest documents are wanted first.
 */
export const TOP_ROWID = 2 ** 50;

/** The rows of a source's documents from the one numbered `from` to before the one numbered `to`. */
const rowsOfDocuments = (from: string, to: string): string =>
  `rowid > ${TOP_ROWID} - OLD.id * ${DOCUMENTS_PER_SOURCE} - ${to} AND rowid <= ${TOP_ROWID} - OLD.id * ${DOCUMENTS_PER_SOURCE} - ${from}`;

const CREATE: readonly string[] = [
  "CREATE TABLE IF NOT EXISTS savepoint_text_mark (key TEXT PRIMARY KEY, sum INTEGER NOT NULL) WITHOUT ROWID",
  // Ids are not reused: a process that has read a source that was removed meanwhile must not confuse it with another.
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

/** Are the tables there? */
export function hasTextTables(connection: Connection): boolean {
  // The last of what is made together.
  const made = "SELECT 1 FROM sqlite_master WHERE name = 'savepoint_text_remove'";
  return connection.row(made) !== undefined;
}

/** Makes the tables where there are none. To be called inside a transaction. */
export function createTextTables(connection: Connection): void {
  for (const sql of CREATE) connection.run(sql);
}

/** Makes them anew, because they may be damaged. Ids go on where they were. To be called inside a transaction. */
export function recreateTextTables(connection: Connection): void {
  const ids = "sqlite_sequence WHERE name = 'savepoint_text_source'";
  const last = hasTextTables(connection) ? connection.row<{ seq: number }>(`SELECT seq FROM ${ids}`)?.seq : undefined;
  for (const sql of [...DROP, ...CREATE]) connection.run(sql);
  if (last === undefined) return;
  connection.run("INSERT INTO sqlite_sequence (name, seq) VALUES ('savepoint_text_source', ?)", last);
}

/** Fails where SQLite was built without what the index needs, or is too old to have it. */
export function probeTextTables(connection: Connection): void {
  connection.rows("SELECT rowid FROM savepoint_text LIMIT 1");
}

/** Is it that SQLite has no full-text index, or an older one? */
export function isFullTextMissing(error: unknown): boolean {
  const missing = /no such module: fts5\b|no such tokenizer: trigram\b|unrecognized option: "?contentless_delete/;
  return error instanceof Error && missing.test(error.message);
}
