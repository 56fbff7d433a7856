// Contenders that are all under way at once and work in turns, a few times each: what slows the machine down for a moment
// slows all of them down.
import { timed } from "./measure.mjs";

/** Times that something is done before it counts: for the compiler, and for the plans that a server keeps. */
export const WARM_UP = 100;

/**
 * Told by a contender where it is. `before(index)` is to be awaited before each time that something is done, `end` after
 * the last; index counts from 0, those of the warm-up included.
 *
 * @typedef {{ total: number; before: (index: number) => Promise<void> | undefined; end: () => Promise<void> }} Meter
 */

/**
 * Milliseconds of one, of each contender, in each slice.
 * @param {Record<string, (meter: Meter) => Promise<void>>} contenders @param {number} slices @param {number} length
 * @returns {Promise<Record<string, number[]>>}
 */
export async function inSlices(contenders, slices, length) {
  /** @type {Record<string, number[]>} */
  const times = {};
  /** @type {{ go: () => Promise<void>; returned: Promise<void> }[]} */
  const runners = [];
  for (const [name, run] of Object.entries(contenders)) {
    const baton = makeBaton();
    const mine = /** @type {number[]} */ (times[name] = []);
    let began = 0;
    const slice = async () => {
      if (began > 0) mine.push((performance.now() - began) / length);
      await baton.handBack();
      began = performance.now();
    };
    const total = WARM_UP + slices * length;
    const before = (/** @type {number} */ index) =>
      index >= WARM_UP && (index - WARM_UP) % length === 0 ? slice() : undefined;
    const running = run({ total, before, end: slice });
    // It comes to its first slice, which it is not given before the others have come to theirs.
    process.stderr.write(`getting ready: ${name}\n`);
    await Promise.race([baton.handedBack(), running]);
    runners.push({
      async go() {
        const back = baton.handedBack();
        baton.hand();
        await Promise.race([back, running]);
      },
      returned: running,
    });
  }
  for (let slice = 0; slice < slices; slice++) {
    const spent = await timed(async () => {
      for (const { go } of runners) await go();
    });
    if (slice % 10 === 0) process.stderr.write(`slice ${slice + 1}/${slices} (${spent.toFixed(0)} ms)\n`);
  }
  for (const { go, returned } of runners) {
    await go();
    await returned;
  }
  return times;
}

/** Who has it works; the others wait for it. */
function makeBaton() {
  let given = () => {};
  let back = () => {};
  return {
    /** Gives it back, and waits until it is handed out again. @returns {Promise<void>} */
    handBack() {
      const again = /** @type {Promise<void>} */ (new Promise((resolve) => (given = () => resolve())));
      back();
      return again;
    },
    /** @returns {Promise<void>} */
    handedBack: () => new Promise((resolve) => (back = () => resolve())),
    hand: () => given(),
  };
}
