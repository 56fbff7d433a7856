// Adds up the reports of vitest: node tally.mjs <passed|failed> <folder of reports>
// A test file that could not be loaded counts as one failure. After a failure that is in no report (a failed install, an
// error outside of the tests) this prints nothing, because "0 failed" would be wrong.
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

const [outcome, folder] = process.argv.slice(2);
const files = readdirSync(folder).filter((name) => name.endsWith(".json"));
const results = files.flatMap((name) => JSON.parse(readFileSync(join(folder, name), "utf8")).testResults);
const count = (wanted) =>
  results.flatMap((file) => file.assertionResults).filter(({ status }) => status === wanted).length;
const unloaded = results.filter(
  (file) => file.status === "failed" && !file.assertionResults.some(({ status }) => status === "failed"),
).length;
const failed = count("failed") + unloaded;
if (outcome === "passed" || failed > 0) console.log(`\n${count("passed")} passed, ${failed} failed`);
