// Finds phrases that read like a translation: node scripts/check-words.mjs
//
// Plain technical English uses the established term (docs/glossary.md). A phrase that is right in one place is allowed there
// by an entry in ALLOWED, with the reason.
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("..", import.meta.url));

/** Each phrase, and what to write instead. @type {readonly (readonly [RegExp, string])[]} */
const BANNED = [
  [/\b(goes|going|gone|go) on with\b/i, "resume, continue"],
  [/\bgoes on\b/i, "resumes, continues"],
  [/\blets? go of\b/i, "release"],
  [/\bnothing whole\b/i, "no intact checkpoint"],
  [/\b(is|are|gets?|was|were) told\b/i, "reports, emits, returns, throws"],
  [/\bsays? so\b/i, "reports, returns, throws"],
  [/\bis given again\b/i, "is replayed"],
  [/\b(somebody|whoever|whatever has|nobody)\b/i, "another process, the caller, the user, no process"],
  [/\bby (itself|themselves)\b/i, "automatically; alone"],
  [/\bmend(ed|s|ing)?\b/i, "fix"],
  [/\bmakes no sense\b/i, "is invalid: expected X, got Y"],
  [/\bthe ways? back\b/i, "the previous head stays reachable"],
  [/\b(put aside|parked)\b/i, "quarantined"],
  [/\bcosts? what (is new|changed)\b/i, "writes only the change"],
  [/\bas it is\b.*\bas it was\b/i, "unchanged"],
];

/** Files that are not checked, with the reason. @type {readonly (readonly [RegExp, string])[]} */
const SKIPPED = [
  [/^scripts\/check-words\.mjs$/, "lists the phrases"],
  [/^package-lock\.json$/, "generated"],
  [/^docs\/(benchmarks|coverage)\.md$/, "tables of figures and of behaviours"],
  [/^bench\//, "rewritten with the next change of the benchmarks"],
  [/^test\//, "test data contains such words; titles and comments are reviewed by people"],
];

/** Allowed occurrences: file, phrase, reason. @type {readonly { file: string; text: string; reason: string }[]} */
const ALLOWED = [];

const files = execFileSync("git", ["ls-files", "*.ts", "*.mjs", "*.md"], { cwd: root, encoding: "utf8" })
  .trim()
  .split("\n");
const used = new Set();
let problems = 0;
for (const file of files) {
  if (SKIPPED.some(([pattern]) => pattern.test(file))) continue;
  for (const [index, line] of readFileSync(new URL(file, `file://${root}`), "utf8")
    .split("\n")
    .entries()) {
    for (const [pattern, instead] of BANNED) {
      const [phrase] = pattern.exec(line) ?? [];
      if (phrase === undefined) continue;
      const allowed = ALLOWED.find((each) => each.file === file && line.includes(each.text));
      if (allowed) used.add(allowed);
      else {
        problems++;
        console.error(`${file}:${index + 1}: "${phrase}". Write: ${instead}.`);
      }
    }
  }
}
for (const each of ALLOWED) {
  if (used.has(each)) continue;
  problems++;
  console.error(`scripts/check-words.mjs allows "${each.text}" in ${each.file}, where it is not. Remove the entry.`);
}
if (problems > 0) {
  console.error(`\n${problems} phrases to rewrite.`);
  process.exitCode = 1;
}
