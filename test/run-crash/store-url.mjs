import { basename, join } from "node:path";

/** What the names of schemas begin with. */
export const SCHEMAS = "crash_";

/**
 * The store of a folder of a crash test: a SQLite file, or, if requested, plain files or a schema in a
 * PostgreSQL.
 *
 * @param {string} folder
 */
export function storeUrl(folder) {
  const kind = process.env.CRASH_STORE ?? "sqlite";
  if (kind === "file") return `file:${join(folder, "store")}`;
  if (kind === "sqlite") return `sqlite:${join(folder, "store.db")}`;
  const url = new URL(kind);
  url.searchParams.set("schema", `${SCHEMAS}${basename(folder)}`);
  return url.href;
}
