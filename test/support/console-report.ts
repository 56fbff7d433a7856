import type { Reporter, TestModule } from "vitest/node";

/**
 * Counts what passing tests print, so that the next warning that matters is not lost among those that do not. A test that
 * expects output catches it, by a listener of its own or by `vi.spyOn(console, …)`.
 *
 * It does not fail the run: on a very slow machine a lease that expires is reported, and that is no failure of a test.
 */
export class ConsoleReport implements Reporter {
  #prints = 0;

  onUserConsoleLog(): void {
    this.#prints++;
  }

  onTestRunEnd(modules: readonly TestModule[]): void {
    // A test that fails may print what it knows.
    if (this.#prints === 0 || modules.some((module) => !module.ok())) return;
    console.error(`\nPassing tests printed something ${this.#prints} times; see above. They should print nothing.`);
  }
}
