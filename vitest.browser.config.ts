import { defineConfig } from "vitest/config";
import base from "./vitest.config.js";

// Pages in a real browser: that of the inspector, and a chat. They need the built package.
export default defineConfig({
  test: {
    include: ["test/browser/**/*.browser.ts"],
    globalSetup: "test/browser/global-setup.ts",
    pool: "forks",
    // Each file has a browser of its own.
    maxWorkers: 2,
    testTimeout: 60_000,
    hookTimeout: 120_000,
    reporters: base.test?.reporters ?? ["default"],
  },
});
