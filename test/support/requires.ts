import { it } from "vitest";

/** Why tests may be skipped in continuous integration: its machines do not have what they need, and that is accepted. */
const EXPECTED: ReadonlySet<string> = new Set([
  "needs root to mount a small disk",
  "needs a user who is not root",
  "needs root to give a folder to another user",
]);

/**
 * `it`, where the machine has what the tests need. Where it has not, they are skipped and the reason is printed; in
 * continuous integration that is a failure, unless the reason is among those that are expected.
 */
export function requireOrSkip(condition: boolean, reason: string): ReturnType<typeof it.runIf> {
  if (!condition) {
    if (process.env["CI"] && !EXPECTED.has(reason)) throw new Error(`Tests would be skipped: ${reason}.`);
    console.warn(`Tests are skipped: ${reason}.`);
  }
  return it.runIf(condition);
}
