import { join } from "node:path";

/** The store in a folder of a crash test: a SQLite file, or plain files where that is asked for. @param {string} folder */
export function storeUrl(folder) {
  return process.env.CRASH_STORE === "file" ? `file:${join(folder, "store")}` : `sqlite:${join(folder, "store.db")}`;
}
