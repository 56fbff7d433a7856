/** Distinguishes damage from pages that the disk fails to read: SQLite reports both as damage. */
import { isReadError } from "./errors.js";

/** The queries of a connection. */
interface Queries {
  row<Row>(sql: string): Row | undefined;
  rows<Row>(sql: string): Row[];
}

/** The most pages of a database that is searched, which takes about a second. */
const MAX_SEARCHED_PAGES = 131_072;

/** Whether there are pages that the disk fails to read. `false` if the database is too large, or cannot be searched. */
export function hasReadErrors(connection: Queries): boolean {
  try {
    const pages = connection.row<{ page_count: number }>("PRAGMA page_count")?.page_count ?? 0;
    if (pages > MAX_SEARCHED_PAGES) return false;
    return connection
      .rows<{ quick_check: string }>("PRAGMA quick_check(10)")
      .some((row) => isReadError(row.quick_check));
  } catch {
    // The first error is the one to report.
    return false;
  }
}
