// Changes stores and bundles as an attacker could, with checksums that fit, and uses them: nothing may crash, hang, change
// other sessions, touch other files or execute a run.
//
//   npm run test:fuzz [-- --minutes 5] [--seed 7] [--store sqlite|file|bundle] [--cases 100] [--keep] [--verbose]
//
// The first case has the seed, the next one the seed after it, and so on. A case is repeated with its store and seed:
//
//   npm run test:fuzz -- --store sqlite --seed 12345 --cases 1
import { availableParallelism } from "node:os";
import { parseArgs } from "node:util";
import { casesFrom, fuzz, STORES } from "./campaign.mjs";

const { values } = parseArgs({
  options: {
    minutes: { type: "string", default: "5" },
    seed: { type: "string", default: String(Date.now() % 1_000_000) },
    store: { type: "string", multiple: true, default: [...STORES] },
    cases: { type: "string" },
    keep: { type: "boolean", default: false },
    verbose: { type: "boolean", default: false },
  },
});

const seed = Number(values.seed);
const limit = values.cases === undefined ? Number.POSITIVE_INFINITY : Number(values.cases);

function* cases() {
  let left = limit;
  for (const each of casesFrom(values.store, seed)) {
    if (left-- <= 0) return;
    yield each;
  }
}

console.log(`seed ${seed}`);
const { outcomes, groups } = await fuzz(cases(), {
  stores: values.store,
  milliseconds: Number(values.minutes) * 60_000,
  children: availableParallelism(),
  keep: values.keep,
  log: console.log,
});

/** @param {Set<string>} names */
const some = (names) => [...names].slice(0, 6).join(", ") + (names.size > 6 ? ", …" : "");

for (const store of values.store) {
  const cases = outcomes.filter((outcome) => outcome.store === store);
  /** @type {Map<string, number>} */
  const kinds = new Map();
  for (const { kind } of cases) kinds.set(kind, (kinds.get(kind) ?? 0) + 1);
  const slowest = Math.max(0, ...cases.map(({ milliseconds }) => milliseconds));
  const rejected = cases.filter(({ rejections }) => rejections > 0).length;
  console.log(
    `${store}: ${cases.length} cases, ${rejected} with rejected operations; the slowest took ${(slowest / 1000).toFixed(1)} s`,
  );
  for (const [kind, count] of [...kinds].sort(([, a], [, b]) => b - a))
    console.log(`  ${String(count).padStart(6)}  ${kind}`);
}
console.log(groups.length === 0 ? "Nothing was found." : `Found, by cause (${groups.length}):`);
for (const { cause, cases: found, stores, kinds, operations, example } of groups) {
  console.log(`  ${String(found.size).padStart(5)}  ${cause}`);
  console.log(`         ${some(stores)}; changed: ${some(kinds)}; in: ${some(operations)}`);
  console.log(`         npm run test:fuzz -- --store ${example.store} --seed ${example.seed} --cases 1`);
  if (values.verbose) console.log(`         ${example.message}\n         ${example.detail}`);
}
process.exitCode = groups.length === 0 ? 0 : 1;
