import type { Duration, RunOptions } from "../../index.js";
import { loadAgents, selectAgent } from "../agent-module.js";
import { parseJson, parsePositiveNumber } from "../arguments.js";
import { usageError } from "../errors.js";
import { describeResult, exitCodeForResults, printRunEvents, toResultRecord } from "../run-output.js";
import { defineVerb } from "../verb.js";

interface Options extends Partial<Omit<RunOptions<never>, "limits" | "onEvent">> {
  readonly agents?: string;
  readonly maxSteps?: number;
  readonly maxTokens?: number;
  readonly budget?: number;
  readonly maxTime?: Duration;
}

export const run = defineVerb<Options>({
  name: "run",
  group: "Run",
  summary: "run an agent on a session, or resume the session",
  examples: [
    [`savepoint run shop --agents ./agents.mjs --session order-88 --input '{"order":"88"}'`, "start"],
    ["savepoint run shop --agents ./agents.mjs --session order-88", "resume"],
    [
      "savepoint run shop --agents ./agents.mjs --session order-88 --resume --budget 5",
      "resume a halted session with a higher budget",
    ],
  ],
  declare(command) {
    command
      .argument("[agent]", "the name of the agent, if the module exports several")
      .option("-A, --agents <module>", "a module that exports agents of defineAgent()")
      .option("--session <id>", "the session")
      .option("-i, --input <json>", "the input of the run", parseJson)
      .option("--key <key>", "an idempotency key: the same key is accepted once")
      .option("-b, --branch <name>", "the branch (default: main)")
      .option("--wait", "wait while the session sleeps or waits for an answer")
      .option("--resume", "resume a session that has failed or was halted")
      .option("--restart-step", "restart the current step from its beginning; for code that has changed")
      .option("--max-steps <count>", "halt after this many steps", parsePositiveNumber)
      .option("--max-tokens <count>", "halt after this many tokens", parsePositiveNumber)
      .option("--budget <cost>", "halt at this cost", parsePositiveNumber)
      .option("--max-time <time>", 'halt after this running time, such as "10m"');
  },
  async run(cli, [name], options) {
    const { agents, session, maxSteps, maxTokens, budget, maxTime, ...rest } = options;
    if (session === undefined) throw usageError("--session is missing. Name the session: --session order-88.");
    const agent = selectAgent(await loadAgents(cli, agents), name);
    const limits = {
      ...(maxSteps !== undefined && { steps: maxSteps }),
      ...(maxTokens !== undefined && { tokens: maxTokens }),
      ...(budget !== undefined && { cost: budget }),
      ...(maxTime !== undefined && { time: maxTime }),
    };
    const sp = await cli.open({});
    // The result has the error, with its stack.
    sp.on("runError", () => {});
    const result = await sp.run(agent, {
      ...rest,
      session,
      ...(Object.keys(limits).length > 0 && { limits }),
      onEvent: printRunEvents(cli),
    });
    await cli.output.result(toResultRecord(result), () => describeResult(cli, result, { agent: agent.name, agents }));
    return exitCodeForResults([result]);
  },
});
