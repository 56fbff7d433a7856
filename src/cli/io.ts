/** The command line's access to its process. Nothing else in this folder uses the process directly. */
import type { Readable, Writable } from "node:stream";
import type { ExitCode } from "./exit-codes.js";

/** A stream to read from, which may be a terminal. */
export type InputStream = Readable & { readonly isTTY?: boolean };

/** A stream to print to, which may be a terminal. */
export type OutputStream = Writable & { readonly isTTY?: boolean; readonly columns?: number };

/** The environment of one command. Each command needs its own; any number may run at once in one process. */
export interface CliIo {
  readonly stdin: InputStream;
  readonly stdout: OutputStream;
  readonly stderr: OutputStream;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** The folder that relative paths start from. Absolute. */
  readonly cwd: string;
  /** The Node that runs it. */
  readonly node: { readonly path: string; readonly version: string };
  /**
   * Calls the listener for Ctrl-C and for every other request to end.
   * @returns a function that removes the listener
   */
  onSignal(listener: () => void): () => void;
  /** Ends the process at once, whatever is in progress. */
  exit(code: ExitCode): void;
}

const SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP"] as const;

/** The environment of a command that owns the process. */
export function processIo(): CliIo {
  return {
    // Opened when they are first used: help does not need stdin.
    get stdin() {
      return process.stdin;
    },
    get stdout() {
      return process.stdout;
    },
    get stderr() {
      return process.stderr;
    },
    env: process.env,
    cwd: process.cwd(),
    node: { path: process.execPath, version: process.versions.node },
    onSignal(listener) {
      for (const signal of SIGNALS) process.on(signal, listener);
      return () => {
        for (const signal of SIGNALS) process.off(signal, listener);
      };
    },
    exit: (code) => process.exit(code),
  };
}
