import { availableParallelism } from "node:os";
import { defineConfig } from "vitest/config";

// Continuous integration sets this to the file in which it wants the results as JSON, beside what people read.
const report = process.env["TEST_REPORT"];

/** What takes minutes; `npm run test:slow` runs it. */
export const SLOW = "test/**/*.slow.test.ts";

export default defineConfig({
  test: {
    include: ["src/**/*.test.ts", "test/**/*.test.ts"],
    exclude: ["node_modules/**", SLOW],
    globalSetup: "test/postgres/global-setup.ts",
    // Real processes: tests kill their children, change the environment and load native code.
    pool: "forks",
    // More than there are cores: many tests wait, for children to start and for time to pass.
    maxWorkers: Math.ceil(availableParallelism() * 1.5),
    // Crash and property tests are slow on a busy machine, and a timeout is not what any test is about.
    testTimeout: 60_000,
    hookTimeout: 60_000,
    reporters: report ? ["default", ["json", { outputFile: report }]] : ["default"],
  },
});
