/** Many cases: prepares the templates, shares the cases among children, and groups what they find by cause. */
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { CaseRunner } from "./pool.mjs";
import { buildTemplates } from "./templates.mjs";

/** @typedef {import("./pool.mjs").Outcome} Outcome */

/** What can be changed. */
export const STORES = /** @type {const} */ (["sqlite", "file", "bundle"]);

/** Milliseconds per operation. */
const LIMIT = 10_000;

/** @typedef {{ store: string, seed: number }} CaseId */

/** Cases without end: the stores in turn, with rising seeds. @param {readonly string[]} stores @param {number} seed @returns {Generator<CaseId>} */
export function* casesFrom(stores, seed) {
  for (let at = 0; ; at++) yield { store: /** @type {string} */ (stores[at % stores.length]), seed: seed + at };
}

/**
 * Runs cases until there are no more, or the time has passed.
 *
 * @param {Iterator<CaseId>} cases
 * @param {{ stores: readonly string[], milliseconds: number, children: number, keep?: boolean, log?: (line: string) => void }} options
 *   `stores`: those of the cases. `keep`: keep the folders of all cases
 */
export async function fuzz(cases, { stores, milliseconds, children, keep = false, log = () => {} }) {
  const end = performance.now() + milliseconds;
  const folder = mkdtempSync(join(tmpdir(), "savepoint-fuzz-"));
  const [templates, work] = [join(folder, "templates"), join(folder, "work")];
  mkdirSync(work);
  /** @type {Outcome[]} */
  const outcomes = [];
  const runChild = async () => {
    const runner = new CaseRunner({ templates, work, limit: LIMIT, keep });
    try {
      for (let next = cases.next(); !next.done && performance.now() < end; next = cases.next()) {
        const { store, seed } = next.value;
        const outcome = await runner.run(store, seed);
        outcomes.push(outcome);
        for (const { rule, operation, message } of outcome.findings) {
          log(`${store} ${seed}: ${rule} (${operation}): ${message}`);
        }
      }
    } finally {
      await runner.stop();
    }
  };
  try {
    await buildTemplates(templates, stores);
    await Promise.all(Array.from({ length: children }, runChild));
  } finally {
    if (keep) log(`The folders are in ${folder}.`);
    else rmSync(folder, { recursive: true, force: true });
  }
  return { outcomes, groups: groupFindings(outcomes) };
}

/** What was found, by cause: the rule, and where the error comes from. Most frequent first. @param {readonly Outcome[]} outcomes */
function groupFindings(outcomes) {
  /** @type {Map<string, { cause: string, cases: Set<string>, stores: Set<string>, kinds: Set<string>, operations: Set<string>, example: { store: string, seed: number, message: string, detail: string } }>} */
  const groups = new Map();
  for (const { store, seed, kind, detail, findings } of outcomes) {
    for (const finding of findings) {
      const cause = causeOf(finding);
      const message = `${finding.message} at ${finding.stack}`;
      const group = groups.get(cause) ?? {
        cause,
        cases: new Set(),
        stores: new Set(),
        kinds: new Set(),
        operations: new Set(),
        example: { store, seed, message, detail },
      };
      group.cases.add(`${store} ${seed}`);
      group.stores.add(store);
      group.kinds.add(kind);
      group.operations.add(finding.operation);
      groups.set(cause, group);
    }
  }
  return [...groups.values()].sort((a, b) => b.cases.size - a.cases.size);
}

/** @param {import("./pool.mjs").Finding} finding */
function causeOf({ rule, operation, message, stack }) {
  if (stack === "") return `${rule} (${operation})`;
  // The place that throws, without the numbers of lines, and the kind of error.
  const [place = ""] = stack.replace(/:\d+:\d+/g, "").split(" < ");
  return `${rule}: ${message.split(":")[0]} at ${place}`;
}
