// Runs one workload of workload.mjs: node child.mjs <name> <json arguments>
import * as workloads from "./workload.mjs";

const [, , name, args] = process.argv;
const run = /** @type {Record<string, (...args: any[]) => Promise<void>>} */ (/** @type {unknown} */ (workloads))[
  name ?? ""
];
await run?.(...JSON.parse(args ?? "[]"));
process.exit(0);
