/** Pseudo-random numbers that a seed repeats. */

/** @param {number} seed @returns {() => number} from 0 to 1 */
export function createRandom(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}

/** @template T @param {() => number} random @param {readonly T[]} from @returns {T} */
export function pick(random, from) {
  return /** @type {T} */ (from[Math.floor(random() * from.length)]);
}
