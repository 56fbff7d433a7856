import { availableParallelism } from "node:os";
import { defineConfig } from "vitest/config";
import { ConsoleReport } from "./test/support/console-report.js";

// Continuous integration sets this to the file in which it wants the results as JSON, beside what people read.
const report = process.env["TEST_REPORT"];
const json: ["json", { outputFile: string }][] = report ? [["json", { outputFile: report }]] : [];

/** Proofs that take minutes; `npm run test:crash` runs them. */
export const SLOW = "test/**/*.slow.test.ts";

/** What runs on Bun and Deno; `npm run test:runtimes` runs it. */
export const RUNTIMES = "test/runtimes/*.test.ts";

export default defineConfig({
  test: {
    include: ["src/**/*.test.ts", "test/**/*.test.ts"],
    exclude: ["node_modules/**", SLOW, RUNTIMES],
    globalSetup: "test/postgres/global-setup.ts",
    setupFiles: "test/support/setup.ts",
    // Real processes: tests kill their children, change the environment and load native code.
    pool: "forks",
    // Test files that run in one process share its modules: loading them again for every file would take a third of the time.
    isolate: false,
    // More than there are cores: many tests wait, for children to start and for time to pass.
    maxWorkers: availableParallelism() * 2,
    // Crash and property tests are slow on a busy machine, and a timeout is not what any test is about.
    testTimeout: 120_000,
    hookTimeout: 120_000,
    reporters: ["default", new ConsoleReport(), ...json],
  },
});
