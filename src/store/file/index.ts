/**
 * The `file:` store: a folder of plain text files, for people who want to read, search and version what is stored.
 *
 * A commit is one append to one file. It counts if its last line (the footer) is intact and its writer held the lock, so a
 * torn or late write is never returned as data.
 */
export { openFileStore } from "./store.js";
