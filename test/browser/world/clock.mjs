// A clock that a program sets: runs of many days are recorded in a moment, with realistic times and durations.

const realNow = Date.now.bind(Date);
const realElapsed = performance.now.bind(performance);
let [age, passed] = [0, 0];

/** Replaces the clocks of this process. Returns a function that brings the real ones back. */
export function installClock() {
  Date.now = () => Math.floor(realNow() - age + passed);
  performance.now = () => realElapsed() + passed;
  return () => {
    Date.now = realNow;
    performance.now = realElapsed;
    [age, passed] = [0, 0];
  };
}

/** Sets the clock to so many milliseconds before now. @param {number} milliseconds */
export function setAge(milliseconds) {
  age = milliseconds + passed;
}

/** Calls that wait, by the time at which they end. @type {{ at: number, resolve: (value?: unknown) => void }[]} */
const waiting = [];
let isPassing = false;

/** Lets time pass. Calls that wait at the same time overlap. @param {number} milliseconds */
export async function pass(milliseconds) {
  const ended = new Promise((resolve) => waiting.push({ at: passed + milliseconds, resolve }));
  if (!isPassing) void advance();
  await ended;
}

async function advance() {
  isPassing = true;
  while (waiting.length > 0) {
    // Everything that starts now has started, and everything that has ended was recorded.
    for (let turn = 0; turn < 3; turn++) await new Promise((resolve) => setImmediate(resolve));
    waiting.sort((a, b) => a.at - b.at);
    const next = waiting.shift();
    if (!next) break;
    passed = Math.max(passed, next.at);
    next.resolve();
  }
  isPassing = false;
}
