/** Runs before each test file: a warning of Node that points at a mistake in the code fails the file it comes from. */

/** Too many listeners, and timers that do not wait as long as they should. Dependencies warn of other things. */
const MISTAKES = new Set([
  "MaxListenersExceededWarning",
  "TimeoutOverflowWarning",
  "TimeoutNaNWarning",
  "TimeoutNegativeWarning",
]);

process.on("warning", (warning) => {
  if (MISTAKES.has(warning.name)) throw new Error(`Node warned: ${warning.message}`, { cause: warning });
});
