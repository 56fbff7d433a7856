/** Parts that are missing in a bundle, because they are damaged in the store. */
import type { BundleHole } from "../index.js";
import { EXIT, type ExitCode } from "./exit-codes.js";
import type { Output } from "./output.js";

/** Warns about each hole. Returns the exit code of a verb that has copied everything else. */
export function warnHoles(output: Output, what: string, holes: readonly BundleHole[]): ExitCode {
  for (const { place, reason } of holes) output.warn(`${what}: ${place}: ${reason}`);
  return holes.length > 0 ? EXIT.partial : EXIT.ok;
}
