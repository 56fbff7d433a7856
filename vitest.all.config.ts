import { defineConfig } from "vitest/config";
import base from "./vitest.config.js";

// The tests of `npm test` on every store, with the full number of random cases.
export default defineConfig({ test: { ...base.test, env: { STORES: "all" } } });
