/** The stores and bundles that cases start from, made by the library once per run: node templates.mjs <url> <what> */
import { execFileSync } from "node:child_process";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { Savepoint } from "savepoint";
import { fillRuns, fillSubject, fillVictim } from "./seed.mjs";

const script = fileURLToPath(import.meta.url);

/** The URL of the store in a folder. @param {string} store @param {string} folder */
export const urlOf = (store, folder) => (store === "sqlite" ? `sqlite:${join(folder, "store.db")}` : `file:${join(folder, "store")}`);

/** Makes `subject-…` (to be changed), `target-…` (to be imported into) and bundles. @param {string} folder @param {readonly string[]} stores */
export function buildTemplates(folder, stores) {
  for (const store of stores.filter((each) => each !== "bundle")) build(store, join(folder, `subject-${store}`), "subject");
  if (!stores.includes("bundle")) return;
  for (const store of ["sqlite", "file"]) build(store, join(folder, `target-${store}`), "target");
  build("sqlite", join(folder, "exporter"), "exporter");
}

/** @param {string} store @param {string} folder @param {string} what */
function build(store, folder, what) {
  mkdirSync(folder, { recursive: true });
  execFileSync(process.execPath, [script, urlOf(store, folder), what, folder], { stdio: "inherit" });
}

if (process.argv[1] === script) {
  const [, , url = "", what, folder = ""] = process.argv;
  const sp = await Savepoint.open(url, { durability: "process" });
  if (what !== "exporter") await fillVictim(sp);
  if (what !== "target") {
    await fillSubject(sp);
    if (what === "subject") await sp.compact();
    await fillRuns(sp);
    // Some commits are still in the write buffer of SQLite, and some items are not packed.
    for (let n = 0; n < 3; n++) await sp.session("alpha").save({ n, late: "late ".repeat(100) });
  }
  if (what === "exporter") {
    await sp.export({}).save(join(folder, "all.bundle"));
    await sp.export({ session: "alpha" }).save(join(folder, "alpha.bundle"));
    await sp.export({ session: "run-hangs" }).save(join(folder, "run.bundle"));
    await sp.export({ session: "scattered" }).save(join(folder, "scattered.bundle"));
    await sp.export({ agent: "agent-a" }).save(join(folder, "agent.bundle"));
  }
  if (what === "target") await sp.close();
  // A run is in flight: the process ends without closing the store, as after a crash.
  process.exit(0);
}
