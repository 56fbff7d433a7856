/** Many cases: prepares the templates, shares the cases among children, and groups what they find by cause. */
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { CaseRunner } from "./pool.mjs";
import { buildTemplates } from "./templates.mjs";

/** @typedef {import("./pool.mjs").Outcome} Outcome */

/** What can be changed. */
export const STORES = /** @type {const} */ (["sqlite", "file", "bundle"]);

/** Milliseconds per case. */
const LIMIT = 10_000;

/**
 * @param {{ stores: readonly string[], seed: number, cases: number, milliseconds: number, children: number, keep?: boolean, log?: (line: string) => void }} options
 *   `seed`: of the first case. The campaign ends after that many cases, or when the time is over
 */
export async function fuzz({ stores, seed, cases, milliseconds, children, keep = false, log = () => {} }) {
  const folder = mkdtempSync(join(tmpdir(), "savepoint-fuzz-"));
  const [templates, work] = [join(folder, "templates"), join(folder, "work")];
  mkdirSync(work);
  /** @type {Outcome[]} */
  const outcomes = [];
  try {
    buildTemplates(templates, stores);
    log(`seed ${seed}`);
    const end = performance.now() + milliseconds;
    let next = 0;
    await Promise.all(
      Array.from({ length: children }, async () => {
        const runner = new CaseRunner({ templates, work, limit: LIMIT, keep });
        while (next < cases && performance.now() < end) {
          const at = next++;
          const store = /** @type {string} */ (stores[at % stores.length]);
          const outcome = await runner.run(store, seed + at);
          outcomes.push(outcome);
          for (const { rule, operation, message } of outcome.findings) log(`${store} ${seed + at}: ${rule} (${operation}): ${message}`);
        }
        await runner.stop();
      }),
    );
  } finally {
    if (!keep) rmSync(folder, { recursive: true, force: true });
    else log(`kept ${folder}`);
  }
  return { outcomes, groups: groupFindings(outcomes) };
}

/** What was found, by cause: the rule, and where the error comes from. Most frequent first. @param {readonly Outcome[]} outcomes */
function groupFindings(outcomes) {
  /** @type {Map<string, { cause: string, count: number, stores: string[], kinds: string[], operations: string[], example: { store: string, seed: number, message: string, detail: string } }>} */
  const groups = new Map();
  for (const { store, seed, kind, detail, findings } of outcomes) {
    const causes = new Map(findings.map((finding) => [causeOf(finding), finding]));
    for (const [cause, { message, operation, stack }] of causes) {
      const group = groups.get(cause) ?? { cause, count: 0, stores: [], kinds: [], operations: [], example: { store, seed, message: `${message} at ${stack}`, detail } };
      group.count++;
      group.stores = [...new Set([...group.stores, store])];
      group.kinds = [...new Set([...group.kinds, kind])];
      group.operations = [...new Set([...group.operations, operation])];
      groups.set(cause, group);
    }
  }
  return [...groups.values()].sort((a, b) => b.count - a.count);
}

/** @param {import("./pool.mjs").Finding} finding */
function causeOf({ rule, operation, message, stack }) {
  if (stack === "") return `${rule} (${operation})`;
  // The place that throws, without the numbers of lines, and the kind of error.
  const [place = ""] = stack.replace(/:\d+:\d+/g, "").split(" < ");
  return `${rule}: ${message.split(":")[0]} at ${place}`;
}
