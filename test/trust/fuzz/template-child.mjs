/** Makes one template: node template-child.mjs <url> subject|target|exporter <folder for bundles> */
import { join } from "node:path";
import { Savepoint } from "savepoint";
import { fillRuns, fillSubject, fillVictim } from "./seed.mjs";

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
  await sp.export({ agent: "agent-a" }).save(join(folder, "agent.bundle"));
  for (const session of ["alpha", "scattered", "run-hangs"]) {
    await sp.export({ session }).save(join(folder, `${session}.bundle`));
  }
}
if (what === "target") await sp.close();
// A run is in flight: the process ends without closing the store, as after a crash.
process.exit(0);
