import { join } from "node:path";
import { expect, it } from "vitest";
import { esbuildModule, runBundle } from "./bundles.js";

it("bundled into one file by esbuild, a thread renews the lease while a step blocks the event loop, and another one checkpoints the WAL", async () => {
  const report = await runBundle(esbuildModule, (folder) => `sqlite:${join(folder, "store.db")}`);
  expect(report).toMatchObject({ status: "completed", failures: [] });
  expect(report.checkpoints).toBeGreaterThan(0);
});
