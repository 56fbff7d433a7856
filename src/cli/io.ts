/** The process as a command sees it. Apart from bin.ts, nothing else in this folder uses `process` directly. */
import type { Readable, Writable } from "node:stream";
import type { ExitCode } from "./exit-codes.js";

/** An input stream that may be a terminal. */
export type InputStream = Readable & { readonly isTTY?: boolean };

/** An output stream that may be a terminal. */
export type OutputStream = Writable & { readonly isTTY?: boolean; readonly columns?: number };

/** The environment of one command. Any number of commands may run in one process, each with its own. */
export interface CliIo {
  readonly stdin: InputStream;
  readonly stdout: OutputStream;
  readonly stderr: OutputStream;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** The folder that relative paths start from. Absolute. */
  readonly cwd: string;
  /** The Node.js that runs the command. */
  readonly node: { readonly path: string; readonly version: string };
  /**
   * Calls the listener for Ctrl-C and every other signal that asks the process to end.
   * @returns a function that removes the listener
   */
  onSignal(listener: () => void): () => void;
  /** Ends the process immediately, without waiting for work in progress. */
  exit(code: ExitCode): void;
}

const SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP"] as const;

/** The environment of a command that owns the process. */
export function processIo(): CliIo {
  return {
    // Node opens the standard streams on first access: help does not need stdin.
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
