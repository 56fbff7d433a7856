/**
 * Adds the internal hooks of src/store/shared/test-hooks.ts to the options of a store, for child processes of tests that use the
 * built package.
 *
 * @template {object} Options
 * @param {{ probe?: (point: string) => void, syncFile?: (file: number, done: (error: Error | null) => void) => void }} hooks
 * @param {Options} [options]
 * @returns {Options}
 */
export function withTestHooks(hooks, options) {
  return /** @type {Options} */ ({ ...options, [Symbol.for("savepoint.testHooks")]: hooks });
}
