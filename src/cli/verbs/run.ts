import { parsePositiveNumber, parseJson } from "../arguments.js";
import { usageError } from "../errors.js";
import { selectAgent, loadAgents } from "../agent-module.js";
import { describeResult, exitCodeForResults, printRunEvents, toResultRecord } from "../run-output.js";
import { defineVerb } from "../verb.js";

interface Options {
  readonly agents?: string;
  readonly session?: string;
  readonly input?: unknown;
  readonly key?: string;
  readonly branch?: string;
  readonly wait?: boolean;
  readonly resume?: boolean;
  readonly restartStep?: boolean;
  readonly maxSteps?: number;
  readonly maxTokens?: number;
  readonly budget?: number;
  readonly maxTime?: string;
}

export const run = defineVerb<Options>({
  name: "run",
  group: "Run",
  summary: "run an agent on a session: begins it, or goes on with it",
  examples: [
    [`savepoint run shop --agents ./agents.mjs --session order-88 --input '{"order":"88"}'`, "begin"],
    ["savepoint run shop --agents ./agents.mjs --session order-88", "go on"],
    [
      "savepoint run shop --agents ./agents.mjs --session order-88 --resume --budget 5",
      "go on after it was halted, with more money",
    ],
  ],
  declare(command) {
    command
      .argument("[agent]", "its name; not needed where there is only one")
      .option("-A, --agents <module>", "a module that exports what defineAgent() returned")
      .option("--session <id>", "the session")
      .option("-i, --input <json>", "what to work on", parseJson)
      .option("--key <key>", "the same input under the same key is taken once")
      .option("-b, --branch <name>", "another branch than main")
      .option("--wait", "stay while it waits to be woken or answered")
      .option("--resume", "go on with a session that has failed or was halted")
      .option("--restart-step", "begin the current step anew; for code that no longer does what it did")
      .option("--max-steps <count>", "halt it after so many steps", parsePositiveNumber)
      .option("--max-tokens <count>", "halt it after so many tokens", parsePositiveNumber)
      .option("--budget <cost>", "halt it when it has cost so much", parsePositiveNumber)
      .option("--max-time <time>", 'halt it after so much work, such as "10m"');
  },
  async run(cli, [name], options) {
    const { agents, session, input, key, branch, wait, resume, restartStep } = options;
    const { maxSteps, maxTokens, budget, maxTime } = options;
    if (session === undefined) throw usageError("Say which session: --session order-88.");
    const agent = selectAgent(await loadAgents(cli, agents), name);
    const limits = {
      ...(maxSteps !== undefined && { steps: maxSteps }),
      ...(maxTokens !== undefined && { tokens: maxTokens }),
      ...(budget !== undefined && { cost: budget }),
      ...(maxTime !== undefined && { time: maxTime as `${number}m` }),
    };
    const sp = await cli.open({});
    const result = await sp.run(agent, {
      session,
      ...("input" in options && { input: input as never }),
      ...(key !== undefined && { key }),
      ...(branch !== undefined && { branch }),
      ...(wait && { wait }),
      ...(resume && { resume }),
      ...(restartStep && { restartStep }),
      ...(Object.keys(limits).length > 0 && { limits }),
      onEvent: printRunEvents(cli),
    });
    await cli.output.result(toResultRecord(result), () => describeResult(cli, result));
    return exitCodeForResults([result]);
  },
});
