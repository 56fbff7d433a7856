/** Runs before each test file: a warning of Node that points at a mistake in the code fails the file it comes from. */

/** Too many listeners, and timers that do not wait as long as they should. Dependencies warn of other things. */
const MISTAKES = new Set([
  "MaxListenersExceededWarning",
  "TimeoutOverflowWarning",
  "TimeoutNaNWarning",
  "TimeoutNegativeWarning",
]);

function onWarning(warning: Error): void {
  if (MISTAKES.has(warning.name)) throw new Error(`Node warned: ${warning.message}`, { cause: warning });
}

// Several test files share a process.
for (const listener of process.listeners("warning"))
  if (listener.name === onWarning.name) process.off("warning", listener);
process.on("warning", onWarning);
