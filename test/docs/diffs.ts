/** The diffs on the pages of the documentation: what a user changes in a program. */
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("../../", import.meta.url));

/** The program before and after the first diff of a page that contains a text. */
export function readDiff(page: string, containing: string): { readonly before: string; readonly after: string } {
  const text = readFileSync(`${root}${page}`, "utf8");
  const diffs = [...text.matchAll(/^```diff[^\n]*\n([^]*?)^```/gm)].map((match) => match[1] ?? "");
  const diff = diffs.find((each) => each.includes(containing));
  if (diff === undefined) throw new Error(`${page} has no diff with ${containing}.`);
  const lines = (without: string): string =>
    diff
      .split("\n")
      .filter((line) => !line.startsWith(without))
      .map((line) => line.slice(1))
      .join("\n");
  return { before: lines("+"), after: lines("-") };
}
