// The instructions that a save executes, counted with callgrind (valgrind). Unlike times, they are almost the same in every run,
// also on a busy machine: what a change of the save path has saved shows here first.
//
//   npm run bench instructions                              this build; takes about five minutes
//   npm run bench instructions -- --against ../other/dist   beside another build, such as that of an earlier commit
import { spawnSync } from "node:child_process";
import { rmSync } from "node:fs";
import { join, resolve } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { inFolder } from "./lib/measure.mjs";
import { ratio, report } from "./lib/report.mjs";

/** @typedef {{ all: number; own: number }} Count `own` is without V8's optimizing compiler, which runs on other threads */

const CHILD = fileURLToPath(new URL("./instructions-child.mjs", import.meta.url));
const OURS = new URL("../dist/", import.meta.url);
const FLOOR = "SQLite INSERT";
/** Functions of V8's optimizing compiler. */
const COMPILER = /v8::internal::compiler|turboshaft|OptimizedCompilation|maglev/i;

/** @param {string[]} args saves to count, and after `--against` the folder `dist` of another build */
export default async function instructions(args) {
  const at = args.indexOf("--against");
  const other = at < 0 ? undefined : args[at + 1];
  const [saves = "1000"] = at < 0 ? args : args.filter((_, index) => index !== at && index !== at + 1);
  if (spawnSync("valgrind", ["--version"]).status !== 0) {
    console.error("not measured: valgrind is not installed");
    return;
  }
  const count = Number(saves);
  /** @type {Record<string, URL>} */
  const builds = { "this build": OURS };
  if (other !== undefined) builds["the other build"] = pathToFileURL(`${resolve(other)}/`);
  const rows = [];
  /** @type {Record<string, number>} */
  const figures = {};
  for (const [build, dist] of Object.entries(builds)) {
    const insert = await measure(dist, "insert", count);
    if (dist === OURS) rows.push(toRow(FLOOR, insert, insert));
    for (const work of ["append", "save"]) {
      const measured = await measure(dist, work, count);
      rows.push(toRow(`${work}, ${build}`, measured, insert));
      figures[`${work}, ${build}`] = measured.warm.all;
      figures[`${work}, ${build}, cold`] = measured.cold.own;
    }
  }
  report(
    "instructions",
    [
      {
        title: `Thousands of instructions for one save of 1 kB more, on threads of 100 to 200 messages, \`process\``,
        head: ["", `first ${count} of a process`, "without the compiler", `the next ${count}`, "warm vs. INSERT"],
        rows,
        notes: [
          "All of a process is counted: this package, SQLite, Node, garbage collection. V8's optimizing compiler runs on other threads; its work is only in the columns that do not exclude it.",
        ],
      },
    ],
    figures,
  );
}

/** @typedef {{ cold: Count; warm: Count }} Measured */

/** @param {URL} dist @param {string} work @param {number} count @returns {Promise<Measured>} */
async function measure(dist, work, count) {
  const none = await countAll(dist, work, 0);
  const once = await countAll(dist, work, count);
  const twice = await countAll(dist, work, 2 * count);
  return { cold: perSave(none, once, count), warm: perSave(once, twice, count) };
}

/** @param {Count} before @param {Count} after @param {number} count @returns {Count} */
const perSave = (before, after, count) => ({
  all: (after.all - before.all) / count,
  own: (after.own - before.own) / count,
});

/** The instructions of a process that saves so often. @param {URL} dist @param {string} work @param {number} total @returns {Promise<Count>} */
function countAll(dist, work, total) {
  process.stderr.write(`${work}, ${total}\n`);
  return inFolder(async (folder) => {
    const out = join(folder, "callgrind.out");
    const stores = join(folder, "store");
    const { status } = spawnSync(
      "valgrind",
      [
        "--tool=callgrind",
        "-q",
        `--callgrind-out-file=${out}`,
        "--smc-check=all-non-file",
        process.execPath,
        // So that which thread does what does not depend on time.
        "--single-threaded",
        CHILD,
        JSON.stringify({ dist: dist.href, work, total, folder: stores }),
      ],
      { stdio: ["ignore", "ignore", "inherit"] },
    );
    if (status !== 0) throw new Error(`${work} failed under valgrind`);
    const { stdout } = spawnSync("callgrind_annotate", ["--threshold=100", out], {
      encoding: "utf8",
      maxBuffer: 2 ** 28,
    });
    rmSync(stores, { recursive: true, force: true });
    return sum(stdout);
  });
}

/** Adds the lines `1,234 ( 5.6%)  file:function`. @param {string} text @returns {Count} */
function sum(text) {
  let [all, own] = [0, 0];
  for (const [, number = "", name = ""] of text.matchAll(/^\s*([\d,]+) \([ \d.]+%\)\s+(.*)$/gm)) {
    if (name.includes("PROGRAM TOTALS")) continue;
    const instructions = Number(number.replaceAll(",", ""));
    all += instructions;
    if (!COMPILER.test(name)) own += instructions;
  }
  if (all === 0) throw new Error("callgrind_annotate printed no counts");
  return { all, own };
}

/** @param {string} name @param {Measured} measured @param {Measured} floor */
function toRow(name, { cold, warm }, floor) {
  const thousands = (/** @type {number} */ value) => `${Math.round(value / 1000)} k`;
  return [name, thousands(cold.all), thousands(cold.own), thousands(warm.all), ratio(warm.all / floor.warm.all)];
}
