import { onTestFailed } from "vitest";

/** The seed of a random test: that of the environment, or a new one. It is printed if the test fails. */
export function chooseSeed(): number {
  const seed = Number(process.env["SEED"] ?? Date.now() % 1e6);
  onTestFailed(() => console.log(`To repeat it: SEED=${seed}`));
  return seed;
}
