// Results as Markdown, for people, and as JSON, for everything else.
import { mkdirSync, writeFileSync } from "node:fs";
import { cpus } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("../results/", import.meta.url));

/** @typedef {{ title: string; head: string[]; rows: (string | number)[][]; notes?: string[] }} Table */
/** Numbers that `bench/docs` compares with the goals and draws. @typedef {Record<string, number>} Figures */
/** @typedef {{ name: string; at: string; machine: string; tables: Table[]; figures: Figures }} Result */

/** The folder for results of a major version of Node. @param {string} [major] */
export const resultsOf = (major = process.versions.node.split(".")[0] ?? "") => join(root, `node${major}`);

/**
 * Whether this run was given another length, or some of its parts: its results are kept in a folder of their own, and are not for the
 * page. A comparison with another build is not.
 */
function isPartial() {
  const [, , , ...args] = process.argv;
  return args.some((arg, index) => arg !== "--against" && args[index - 1] !== "--against");
}

/** Prints tables, and writes them and the figures to `bench/results`. @param {string} name @param {Table[]} tables @param {Figures} [figures] */
export function report(name, tables, figures = {}) {
  const machine = `Node ${process.version}, ${cpus().length} cores (${cpus()[0]?.model.trim()}), ${process.platform}`;
  const text = tables.map(toMarkdown).join("\n\n");
  const folder = isPartial() ? join(resultsOf(), "partial") : resultsOf();
  mkdirSync(folder, { recursive: true });
  /** @type {Result} */
  const result = { name, at: new Date().toISOString(), machine, tables, figures };
  writeFileSync(join(folder, `${name}.json`), `${JSON.stringify(result, undefined, 2)}\n`);
  console.log(`${text}\n\n${machine}\n`);
}

/** @param {Table} table */
export function toMarkdown({ title, head, rows, notes = [] }) {
  const lines = [head, head.map((_, index) => (index === 0 ? "---" : "--:")), ...rows];
  const table = lines.map((line) => `| ${line.join(" | ")} |`).join("\n");
  return [`**${title}**`, table, ...notes].join("\n\n");
}

/** @param {number} value milliseconds */
export const ms = (value) => (value >= 100 ? `${value.toFixed(0)} ms` : `${value.toFixed(value >= 10 ? 1 : 2)} ms`);

/** @param {number} value bytes */
export function bytes(value) {
  if (value >= 1e6) return `${(value / 1e6).toFixed(2)} MB`;
  return value >= 1e4 ? `${(value / 1e3).toFixed(1)} kB` : `${value.toFixed(0)} B`;
}

/** A ratio below one as a fraction. @param {number} value */
export function ratio(value) {
  return value < 0.5 ? `1/${(1 / value).toFixed(1 / value >= 10 ? 0 : 1)}` : `${value.toFixed(2)}×`;
}
