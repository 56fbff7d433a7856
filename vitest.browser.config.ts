import { defineConfig } from "vitest/config";
import base from "./vitest.config.js";

// Pages in a real browser.
export default defineConfig({ test: { ...base.test, include: ["test/browser/**/*.browser.ts"], exclude: [] } });
