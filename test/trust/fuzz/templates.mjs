/** The stores and bundles that cases start from. The library makes them once per campaign, in processes of their own. */
import { execFile } from "node:child_process";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

const script = fileURLToPath(new URL("template-child.mjs", import.meta.url));

/** The URL of the store in a folder. @param {string} store @param {string} folder */
export function urlOf(store, folder) {
  return store === "sqlite" ? `sqlite:${join(folder, "store.db")}` : `file:${join(folder, "store")}`;
}

/**
 * Makes the stores to be changed (`subject-…`), the stores to import into (`target-…`), and bundles (in `exporter`).
 *
 * @param {string} folder @param {readonly string[]} stores
 */
export async function buildTemplates(folder, stores) {
  const subjects = stores.filter((store) => store !== "bundle").map((store) => build(store, folder, "subject"));
  const others = ["sqlite", "file"].map((store) => /** @type {const} */ ([store, "target"]));
  const forBundles = stores.includes("bundle") ? [...others, /** @type {const} */ (["sqlite", "exporter"])] : [];
  await Promise.all([...subjects, ...forBundles.map(([store, what]) => build(store, folder, what))]);
}

/** @param {string} store @param {string} folder @param {"subject" | "target" | "exporter"} what */
async function build(store, folder, what) {
  const path = join(folder, what === "exporter" ? what : `${what}-${store}`);
  mkdirSync(path, { recursive: true });
  await promisify(execFile)(process.execPath, [script, urlOf(store, path), what, path]);
}
