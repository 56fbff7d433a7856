import type { RunResult } from "../../index.js";
import { EXIT } from "../exit-codes.js";
import { loadAgents } from "../agent-module.js";
import { describeResult, exitCodeForResults, printRunEvents, toResultRecord } from "../run-output.js";
import { sanitize } from "../terminal-text.js";
import { defineVerb } from "../verb.js";

interface Options {
  readonly agents?: string;
  readonly wait?: boolean;
  readonly restartStep?: boolean;
}

export const recover = defineVerb<Options>({
  name: "recover",
  group: "Run",
  summary: "go on with whatever was interrupted, was answered, or is to be woken",
  examples: [
    ["savepoint recover --agents ./agents.mjs", "what the last crash interrupted goes on"],
    ["savepoint recover --agents ./agents.mjs --wait", "and what sleeps is waited for"],
  ],
  declare(command) {
    command
      .option("-A, --agents <module>", "a module that exports what defineAgent() returned")
      .option("--wait", "stay while sessions wait to be woken or answered")
      .option("--restart-step", "begin current steps anew; for code that no longer does what it did");
  },
  async run(cli, _, { agents, wait, restartStep }) {
    const loaded = await loadAgents(cli, agents);
    const sp = await cli.open();
    sp.on("run", printRunEvents(cli));
    const handles = await sp.recover(loaded, { ...(wait && { wait }), ...(restartStep && { restartStep }) });
    const ended = await Promise.allSettled(handles.map((handle) => handle.result()));
    const results: RunResult[] = [];
    for (const [index, end] of ended.entries()) {
      if (end.status === "fulfilled") results.push(end.value);
      else {
        const session = handles[index]?.session ?? "";
        cli.output.warn(`${sanitize(session)} could not be gone on with: ${sanitize((end.reason as Error).message)}`);
      }
    }
    if (cli.output.format !== "text") await cli.output.stream(results.map(toResultRecord));
    else for (const result of results) await cli.output.line(describeResult(cli, result));
    if (handles.length === 0) cli.output.note("Nothing was left to do.");
    return results.length < handles.length ? EXIT.partly : exitCodeForResults(results);
  },
});
