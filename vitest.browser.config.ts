import { defineConfig } from "vitest/config";
import base from "./vitest.config.js";

// Pages in a real browser: that of the inspector, and a chat. They need the built package.
export default defineConfig({
  test: {
    ...base.test,
    include: ["test/**/*.browser.ts"],
    exclude: [],
    globalSetup: ["test/postgres/global-setup.ts", "test/browser/global-setup.ts"],
    // Each file has a browser of its own.
    isolate: true,
    maxWorkers: 2,
    testTimeout: 60_000,
  },
});
