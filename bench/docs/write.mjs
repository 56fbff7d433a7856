// Writes the results of the benchmarks into docs/benchmarks.md and README.md, and draws the charts in docs/images.
//
//   npm run bench:docs
//
// The pages mark what is generated: from `<!-- bench: PART -->` to `<!-- /bench -->`. The text between the parts is written by hand.
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { bytes, ms, resultsOf, toMarkdown } from "../lib/report.mjs";
import { barChart } from "./chart.mjs";
import { GOALS } from "./goals.mjs";

/** @typedef {import("../lib/report.mjs").Result} Result */

const root = fileURLToPath(new URL("../../", import.meta.url));
const MAJORS = ["20", "26"];
const PART = /<!-- bench: (.+?) -->\n[\s\S]*?<!-- \/bench -->/g;

const results = new Map(MAJORS.map((major) => [major, readResults(major)]));
const main = results.get("20") ?? new Map();

/** @param {string} major @returns {Map<string, Result>} */
function readResults(major) {
  const folder = resultsOf(major);
  if (!existsSync(folder)) return new Map();
  const names = readdirSync(folder).filter((name) => name.endsWith(".json"));
  return new Map(
    names.map((name) => {
      /** @type {Result} */
      const result = JSON.parse(readFileSync(join(folder, name), "utf8"));
      return [result.name, result];
    }),
  );
}

/** What stands in a part, `undefined` without results: `goals`, `chart NAME`, `tables BENCH`, `compared`. @param {string} part */
function render(part) {
  const [kind, name = ""] = part.split(" ");
  if (kind === "goals") return goals();
  if (kind === "compared") return compared();
  if (kind === "chart") return chart(name);
  if (kind === "tables") return tables(name);
  throw new Error(`There is no part ${JSON.stringify(part)}.`);
}

/** The tables of one benchmark, for each version of Node that has results. @param {string} name */
function tables(name) {
  const measured = MAJORS.flatMap((major) => results.get(major)?.get(name) ?? []);
  if (measured.length === 0) return undefined;
  return measured.map(tablesOf).join("\n\n");
}

/** @param {Result} result */
function tablesOf({ tables: each, at, machine }) {
  return [...each.map(toMarkdown), `Measured on ${at.slice(0, 10)} with ${machine}.`].join("\n\n");
}

function goals() {
  // A part of the benchmarks does not replace the figures of all of them.
  if (GOALS.some(({ check }) => !check((bench, figure) => main.get(bench)?.figures[figure]))) return undefined;
  const head = ["what", "goal", ...MAJORS.map((major) => `Node ${major}`)];
  const rows = GOALS.map(({ what, goal, check }) => [
    what,
    goal,
    ...MAJORS.map((major) => {
      const found = check((bench, figure) => results.get(major)?.get(bench)?.figures[figure]);
      if (!found) return "–";
      return found.reached ? found.show : `**${found.show}**`;
    }),
  ]);
  return [`| ${head.join(" | ")} |`, "|---|---|--:|--:|", ...rows.map((row) => `| ${row.join(" | ")} |`)].join("\n");
}

/** The rows of the comparison in the README that are measured. */
function compared() {
  const figures = main.get("growth")?.figures;
  if (!figures) return undefined;
  const names = ["Savepoint, process", "Savepoint, power", "LangGraph SqliteSaver", "a JSON file per step, fsynced"];
  const [process, power, peer, json] = names.map((name) => ({
    total: `${((figures[`total: ${name}`] ?? Number.NaN) / 1000).toFixed(2)} s`,
    size: bytes(figures[`bytes: ${name}`] ?? Number.NaN),
  }));
  const rows = [
    ["", "Savepoint", "LangGraph.js SQLite saver", "a JSON file per step"],
    ["---", "---", "---", "---"],
    ["1,000 steps of 1 kB messages, on disk", process?.size, peer?.size, json?.size],
    ["total time of these 1,000 saves, if each must survive `kill -9`", process?.total, peer?.total, "–"],
    ["total time of these 1,000 saves, if each must survive a power cut", power?.total, "–", json?.total],
  ];
  return rows.map((row) => `| ${row.join(" | ")} |`).join("\n");
}

/** Draws a chart. Returns the Markdown that shows it. @param {string} name */
function chart(name) {
  const draw = CHARTS[name];
  if (!draw) throw new Error(`There is no chart ${name}.`);
  const { title, note, bars, log } = draw();
  if (bars.length === 0) return undefined;
  writeFileSync(join(root, "docs", "images", `bench-${name}.svg`), barChart(title, note, bars, log));
  return `![${title}](images/bench-${name}.svg)`;
}

/** @param {string} bench @param {string} prefix @param {(value: number) => string} show @returns {import("./chart.mjs").Bar[]} */
function barsOf(bench, prefix, show) {
  return (
    Object.entries(main.get(bench)?.figures ?? {})
      // What a noisy run measured as less than nothing has no bar.
      .filter(([key, value]) => key.startsWith(prefix) && value > 0)
      .map(([key, value]) => {
        const label = key.slice(prefix.length);
        return { label, value, text: show(value), ours: label.startsWith("Savepoint") };
      })
  );
}

/** @type {Record<string, () => { title: string; note: string; bars: import("./chart.mjs").Bar[]; log: boolean }>} */
const CHARTS = {
  time: () => ({
    title: "Saving 1,000 steps of 1 kB, the whole state at each",
    note: "Total time in a new process. Logarithmic scale: each tenfold is the same length.",
    bars: barsOf("growth", "total: ", ms),
    log: true,
  }),
  bytes: () => ({
    title: "Bytes on disk after these 1,000 steps",
    note: "Logarithmic scale.",
    bars: barsOf("growth", "bytes: ", bytes),
    log: true,
  }),
  langgraph: () => ({
    title: "Time that a checkpointer adds to each step of a LangGraph graph",
    note: "1,000 steps, a message of 1 kB each. Logarithmic scale.",
    bars: barsOf("langgraph", "added: ", ms),
    log: true,
  }),
  postgres: () => ({
    title: "Recorded on PostgreSQL, one after another, per second",
    note: "Each waits for the disk of the server.",
    bars: barsOf("postgres", "rate: ", (value) => `${Math.round(value)}/s`),
    log: false,
  }),
};

for (const page of ["docs/benchmarks.md", "README.md"]) {
  const path = join(root, page);
  const before = readFileSync(path, "utf8");
  writeFileSync(
    path,
    before.replace(PART, (whole, part) => {
      const text = render(part);
      if (text === undefined) console.error(`${page}: there are no results for "${part}", so it stays as it is`);
      return text === undefined ? whole : `<!-- bench: ${part} -->\n\n${text}\n\n<!-- /bench -->`;
    }),
  );
}
