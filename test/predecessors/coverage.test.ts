/** Checks that docs/coverage.md is right: the tests that it names exist. */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";

const root = fileURLToPath(new URL("../../", import.meta.url));

/** How many lines of each sort a system has. */
const SYSTEMS = [
  { number: "000", S: 14, U: 7, B: 8 },
  { number: "001", S: 10, U: 5, B: 8 },
  { number: "002", S: 9, U: 4, B: 5 },
  { number: "003", S: 17, U: 2, B: 8 },
  { number: "004", S: 7, U: 7, B: 9 },
] as const;

const LINES = [
  ...SYSTEMS.flatMap(({ number, ...counts }) =>
    Object.entries(counts).flatMap(([sort, count]) =>
      Array.from({ length: count }, (_, n) => `${number}-${sort}${n + 1}`),
    ),
  ),
  ...Array.from({ length: 9 }, (_, n) => `Rule ${n + 1}`),
];

interface Row {
  readonly line: string;
  readonly says: string;
  readonly shownBy: string;
  readonly files: readonly string[];
}

function readPage(): Row[] {
  const page = readFileSync(`${root}docs/coverage.md`, "utf8");
  return page.split("\n").flatMap((text) => {
    const [, line = "", says = "", shownBy = ""] = text.split("|").map((cell) => cell.trim());
    if (!/^(\d{3}-[SUB]|Rule )\d+$/.test(line)) return [];
    return [{ line, says, shownBy, files: [...shownBy.matchAll(/`([^`]+)`/g)].map(([, file = ""]) => file) }];
  });
}

/** The lines that tests of a file are titled with: those that run, and those that are only planned, or known to fail. */
function titlesOf(text: string): { readonly shown: ReadonlySet<string>; readonly missing: ReadonlySet<string> } {
  const find = (part: string): Set<string> =>
    new Set([...part.matchAll(/["`]((?:\d{3}-[SUB]|Rule )\d+)[: ]/g)].map(([, line = ""]) => line));
  const notYet = /it\.(todo|fails)\(\s*"[^"]*"/g;
  return { shown: find(text.replaceAll(notYet, "")), missing: find((text.match(notYet) ?? []).join("\n")) };
}

const rows = readPage();
const testFiles = readdirSync(`${root}test`, { recursive: true, encoding: "utf8" })
  .map((name) => `test/${name.replaceAll("\\", "/")}`)
  .filter((name) => name.endsWith(".test.ts") && name !== "test/predecessors/coverage.test.ts");
const titles = new Map(testFiles.map((name) => [name, titlesOf(readFileSync(root + name, "utf8"))]));

describe("docs/coverage.md", () => {
  it("has every line exactly once", () => {
    expect(rows.map(({ line }) => line).sort()).toEqual(LINES.slice().sort());
    for (const { line, says } of rows) expect(says.length, line).toBeGreaterThan(5);
  });

  it.each(rows.filter(({ files }) => files.length > 0))("names tests that show $line", ({ line, files }) => {
    for (const file of files) {
      expect(existsSync(root + file), `${file} exists`).toBe(true);
      expect([...(titles.get(file)?.shown ?? [])], `${file} has a test titled ${line}`).toContain(line);
    }
  });

  it("names every test that is titled with a line", () => {
    const named = new Set(rows.flatMap(({ line, files }) => files.map((file) => `${line} in ${file}`)));
    const titled = [...titles].flatMap(([file, { shown }]) => [...shown].map((line) => `${line} in ${file}`));
    expect(titled.filter((each) => !named.has(each))).toEqual([]);
  });

  it("lists as missing exactly the tests that are planned or known to fail", () => {
    const missing = new Set([...titles.values()].flatMap((each) => [...each.missing]));
    const said = rows.filter(({ shownBy }) => shownBy.includes("not yet")).map(({ line }) => line);
    expect(said.sort()).toEqual([...missing].sort());
  });

  it("gives a reason for every line that is left out, and leaves out only promised lines", () => {
    for (const { line, shownBy } of rows.filter(({ files }) => files.length === 0)) {
      if (shownBy === "not yet") continue;
      expect(shownBy, line).toMatch(/^left out: .{10}/);
      expect(line).toMatch(/-U/);
    }
  });
});
