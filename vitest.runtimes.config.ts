import { defineConfig } from "vitest/config";
import base, { RUNTIMES } from "./vitest.config.js";

// The built package on Bun and Deno.
const options = { include: [RUNTIMES], exclude: [], globalSetup: [] };
export default defineConfig({ test: { ...base.test, ...options } });
