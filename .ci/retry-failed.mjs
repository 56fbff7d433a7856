// Runs the tests that failed once more, one at a time: node retry-failed.mjs <report.json> <command of vitest …>
// Exits with 0 if each of them passes alone, and prints those as FLAKY. The new results are written into the report.
import { spawnSync } from "node:child_process";
import { existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { relative } from "node:path";

/** More failures than this are not accidents of timing. */
const MOST = 20;

const [reportFile, command, ...args] = process.argv.slice(2);

process.exitCode = retry();

function retry() {
  if (!existsSync(reportFile)) return fail("There is no report: the failure was not in a test.");
  const report = readReport(reportFile);
  const failed = report.testResults.flatMap((file) =>
    file.assertionResults.filter(({ status }) => status === "failed").map((test) => ({ file, test })),
  );
  const unloaded = report.testResults.filter(
    (file) => file.status === "failed" && !file.assertionResults.some(({ status }) => status === "failed"),
  );
  const count = failed.length + unloaded.length;
  if (count === 0) return retryAll();
  if (count > MOST) return fail(`${count} failures are too many for accidents of timing: nothing is retried.`);
  console.log(`\n=== ${count} failed; each is run once more, alone`);
  const flaky = [];
  for (const { file, test } of failed) {
    const path = relative(process.cwd(), file.name);
    if (!passes(path, ["-t", `^${test.fullName.replaceAll(/[.*+?^${}()|[\]\\]/g, "\\$&")}$`])) continue;
    test.status = "passed";
    flaky.push(`${path} > ${test.fullName}`);
  }
  for (const { file } of failed) {
    if (file.assertionResults.every(({ status }) => status !== "failed")) file.status = "passed";
  }
  for (const file of unloaded) {
    const path = relative(process.cwd(), file.name);
    if (!passes(path, [])) continue;
    file.status = "passed";
    flaky.push(path);
  }
  writeFileSync(reportFile, JSON.stringify(report));
  for (const name of flaky) console.log(`FLAKY ${name}`);
  return flaky.length === count ? 0 : fail(`${count - flaky.length} of ${count} failed again.`);
}

/** All tests passed, and something outside of them failed: an error that no test waited for, or something left behind. */
function retryAll() {
  console.log("\n=== no test failed, but something outside of them did; all are run once more");
  if (spawnSync(command, args, { stdio: "inherit", env: { ...process.env, TEST_REPORT: reportFile } }).status !== 0) {
    return fail("The run failed again.");
  }
  console.log("FLAKY something outside of the tests: see the first run");
  return 0;
}

/** Runs one file. Returns whether at least one of its tests passed and none failed. */
function passes(path, more) {
  const report = `${reportFile}.retry`;
  rmSync(report, { force: true });
  const { status } = spawnSync(command, [...args, path, ...more, "--maxWorkers=1"], {
    stdio: "inherit",
    env: { ...process.env, TEST_REPORT: report },
  });
  return status === 0 && readReport(report).numPassedTests > 0;
}

function readReport(file) {
  return JSON.parse(readFileSync(file, "utf8"));
}

function fail(message) {
  console.error(message);
  return 1;
}
