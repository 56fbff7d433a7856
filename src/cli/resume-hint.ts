/** What the user can run to resume sessions. */
import { existsSync } from "node:fs";
import type { Cli } from "./cli.js";

/** The usual names of a module that exports agents. A hint names one only if it exists. */
const MODULES = ["agents.mjs", "agents.js", "agents.ts", "agents.mts"];

/** The end of a sentence such as "To resume, …": running the program again always works, `recover` needs a module. */
export function suggestResume(cli: Cli): string {
  const module = MODULES.find((name) => existsSync(cli.resolvePath(name)));
  if (module === undefined) return "run your program again";
  return `run your program again, or: ${cli.suggest("recover", [], "--agents", `./${module}`)}`;
}
