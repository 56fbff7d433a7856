// A clock that a program sets: runs of many days are recorded in a moment, with realistic times.

const realNow = Date.now.bind(Date);
let offset = 0;

/** Replaces the clock of this process. Returns a function that brings the real one back. */
export function installClock() {
  Date.now = () => realNow() + offset;
  return () => {
    Date.now = realNow;
  };
}

/** Sets the clock to so many milliseconds before now. @param {number} milliseconds */
export function setAge(milliseconds) {
  offset = -milliseconds;
}

/** Lets time pass. @param {number} milliseconds */
export async function pass(milliseconds) {
  // Other calls start first, so that calls that are made together overlap.
  await new Promise((resolve) => setImmediate(resolve));
  offset += milliseconds;
}
