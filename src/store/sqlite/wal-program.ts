/**
 * The program of the thread that checkpoints the WAL. The build replaces this module by one that contains the program as a
 * script, so that the thread also starts in programs that a bundler has made one file of.
 */
export const WAL_PROGRAM: string | URL = new URL("./wal-worker.mjs", import.meta.url);
