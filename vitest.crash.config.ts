import { defineConfig } from "vitest/config";
import base, { SLOW } from "./vitest.config.js";

// Proofs that take minutes: bytes of whole stores damaged one by one, processes killed wherever they pass.
export default defineConfig({ test: { ...base.test, env: { STORES: "all" }, include: [SLOW], exclude: [] } });
