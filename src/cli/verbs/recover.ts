import type { RunResult } from "../../index.js";
import { loadAgents } from "../agent-module.js";
import { EXIT } from "../exit-codes.js";
import { describeResult, exitCodeForResults, printRunEvents, toResultRecord } from "../run-output.js";
import { defineVerb } from "../verb.js";

interface Options {
  readonly agents?: string;
  readonly wait?: boolean;
  readonly restartStep?: boolean;
}

export const recover = defineVerb<Options>({
  name: "recover",
  group: "Run",
  summary: "resume interrupted, answered and scheduled sessions",
  examples: [
    ["savepoint recover --agents ./agents.mjs", "resume after a crash"],
    ["savepoint recover --agents ./agents.mjs --wait", "and wait for sleeping sessions"],
  ],
  declare(command) {
    command
      .option("-A, --agents <module>", "a module that exports agents of defineAgent()")
      .option("--wait", "wait while sessions sleep or wait for answers")
      .option("--restart-step", "restart the current steps from their beginning; for code that has changed");
  },
  async run(cli, _, { agents: path, ...options }) {
    const agents = await loadAgents(cli, path);
    const sp = await cli.open();
    sp.on("run", printRunEvents(cli));
    // The results have the errors, with their stacks.
    sp.on("runError", () => {});
    const handles = await sp.recover(agents, options);
    const settled = await Promise.allSettled(handles.map((handle) => handle.result()));
    const results: RunResult[] = [];
    for (const [index, outcome] of settled.entries()) {
      if (outcome.status === "fulfilled") results.push(outcome.value);
      else {
        const session = handles[index]?.session ?? "";
        cli.output.warn(`${session} could not be resumed: ${(outcome.reason as Error).message}`);
      }
    }
    if (cli.output.format !== "text") await cli.output.stream(results.map(toResultRecord));
    else
      for (const line of results.flatMap((result) => describeResult(cli, result, { agents: path })))
        await cli.output.line(line);
    if (handles.length === 0) cli.output.note("Nothing to resume.");
    return results.length < handles.length ? EXIT.partial : exitCodeForResults(results);
  },
});
