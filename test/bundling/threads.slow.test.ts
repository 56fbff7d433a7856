import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { borrowMigratedUrl, returnMigratedUrl } from "../postgres/schemas.js";
import { type Bundle, esbuildCommonJs, esbuildModule, rolldownModule, runBundle } from "./bundles.js";

const bundles: [string, Bundle, string][] = [
  ["by esbuild, as CommonJS", esbuildCommonJs, "program.cjs"],
  ["by rolldown", rolldownModule, "program.mjs"],
];

it.each(bundles)("both threads work in a program that is bundled into one file %s", async (_by, bundle, name) => {
  const report = await runBundle(bundle, (folder) => `sqlite:${join(folder, "store.db")}`, { name });
  expect(report).toMatchObject({ status: "completed", failures: [] });
  expect(report.checkpoints).toBeGreaterThan(0);
});

it("in a bundle, the lease of a run on a store of plain files is renewed by a thread", async () => {
  const report = await runBundle(esbuildModule, (folder) => `file:${join(folder, "store")}`);
  expect(report).toMatchObject({ status: "completed", failures: [] });
});

it("in a bundle, the lease of a run on PostgreSQL is renewed by a thread", async () => {
  const url = await borrowMigratedUrl();
  onTestFinished(() => returnMigratedUrl(url));
  const report = await runBundle(rolldownModule, () => url);
  expect(report).toMatchObject({ status: "completed", failures: [] });
});
