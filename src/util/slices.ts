/** Long computations in slices, as generators: they run synchronously, or let the event loop turn after each slice. */
import { setImmediate as nextTurn } from "node:timers/promises";

/** A computation that returns a `T` and yields at each point where it may be interrupted. */
export type Slices<T> = Generator<undefined, T, undefined>;

/**
 * Runs all slices synchronously.
 *
 * @param onSlice called after each slice
 */
export function runSlicesSync<T>(slices: Slices<T>, onSlice: () => void = () => {}): T {
  for (;;) {
    const { done, value } = slices.next();
    if (done) return value;
    onSlice();
  }
}

/** Runs the slices with a turn of the event loop after each. */
export async function runSlices<T>(slices: Slices<T>): Promise<T> {
  for (;;) {
    const { done, value } = slices.next();
    if (done) return value;
    await nextTurn();
  }
}
