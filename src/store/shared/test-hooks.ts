/**
 * Hooks for fault tests. They travel in the options of a store under a symbol, so that they reach every store through any
 * `open` function without being part of its public options.
 */

/** Syncs an open file, like `fdatasync` of node:fs. */
export type SyncFile = (file: number, done: (error: Error | null) => void) => void;

/** What a test can replace or observe in a store. */
export interface TestHooks {
  /** Makes written data durable: a disk that is slow, or fails. @default fdatasync of node:fs */
  readonly syncFile?: SyncFile;
  /** Called synchronously at every named point of a write, with its name. A crash test may kill the process there. */
  readonly probe?: (point: string) => void;
}

/** The key of the hooks in a store's options. Registered globally, so that child processes of tests need no import. */
export const TEST_HOOKS = Symbol.for("savepoint.testHooks");

/** Adds hooks to the options of a store. */
export function withTestHooks<const Options extends object>(hooks: TestHooks, options?: Options): Options {
  return { ...options, [TEST_HOOKS]: hooks } as unknown as Options;
}

/** The hooks in these options. */
export function testHooksOf(options: object): TestHooks {
  return (options as { readonly [TEST_HOOKS]?: TestHooks })[TEST_HOOKS] ?? {};
}
