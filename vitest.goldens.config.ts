import { defineConfig } from "vitest/config";
import base from "./vitest.config.js";

// Writes the golden stores, and then what is expected of them.
export default defineConfig({ test: { ...base.test, include: ["test/goldens/*.golden.ts"], exclude: [] } });
