import type { RunEventOf, WorkerOptions } from "../../index.js";
import { parseCount } from "../arguments.js";
import type { Cli } from "../cli.js";
import { loadAgents } from "../agent-module.js";
import { colorStatus } from "../checkpoint-line.js";
import { toPrintableJson } from "../json.js";
import { printRunEvents } from "../run-output.js";
import { sanitize } from "../terminal-text.js";
import { defineVerb } from "../verb.js";

interface Options {
  readonly agents?: string;
  readonly concurrency?: number;
  readonly lease?: NonNullable<WorkerOptions["lease"]>;
  readonly name?: string;
  readonly poll?: NonNullable<WorkerOptions["poll"]>;
  readonly grace?: NonNullable<WorkerOptions["grace"]>;
  readonly maxDeaths?: number;
  readonly verbose?: boolean;
}

export const worker = defineVerb<Options>({
  name: "worker",
  group: "Run",
  summary: "run whatever is queued, due or left behind, until it is told to end",
  examples: [
    ["savepoint worker --agents ./agents.mjs", "ten sessions at once"],
    ["savepoint worker --agents ./agents.mjs --concurrency 50 --lease 10s", "more, and taken over sooner"],
    ["savepoint worker --agents ./agents.mjs --jsonl", "how sessions end, a line each, for programs"],
  ],
  declare(command) {
    command
      .option("-A, --agents <module>", "a module that exports what defineAgent() returned")
      .option("-c, --concurrency <count>", "sessions at once (default: 10)", parseCount)
      .option("--lease <time>", "after how long without a sign of life others take over (default: 30s)")
      .option("--name <name>", "names it in messages (default: host and process)")
      .option("--poll <time>", "how often to look for work that nobody tells of")
      .option("--grace <time>", "how long steps get to end when it is told to (default: 30s)")
      .option(
        "--max-deaths <count>",
        "processes that may die over one step before it is put aside (default: 5)",
        parseCount,
      )
      .option("--verbose", "tell of every step and effect");
  },
  async run(cli, _, { agents, verbose, ...options }) {
    const loaded = await loadAgents(cli, agents);
    const told = cli.interceptInterruption();
    const sp = await cli.open({});
    const worker = sp.worker(loaded, { ...options, signals: false });
    if (verbose) sp.on("run", printRunEvents(cli));
    worker.on("status", (event) => print(cli, event));
    worker.on("leaseLost", ({ sessionId }) =>
      cli.output.warn(`${sanitize(sessionId)} was taken over by somebody else.`),
    );
    worker.on("quarantined", ({ sessionId, reason }) =>
      cli.output.warn(`${sanitize(sessionId)} is put aside: ${sanitize(reason)}.`),
    );
    worker.on("failure", ({ message, error }) => {
      cli.output.warn(`${sanitize(message)}: ${sanitize((error as Error).message)}`);
    });
    await worker.start();
    const names = loaded.map(({ name }) => sanitize(name)).join(", ");
    cli.output.note(`Worker ${sanitize(worker.name)} works for ${names}. Ctrl-C ends it.`);
    await told;
    cli.output.note(`Handing back ${worker.running} sessions, each at the end of its step. Ctrl-C again ends at once.`);
    await worker.stop();
  },
});

function print({ output }: Cli, event: RunEventOf<"status">): void {
  const { sessionId, status, reason } = event;
  const line =
    output.format === "text"
      ? `${sanitize(sessionId)}  ${colorStatus(status, output.colors)}${reason === undefined ? "" : `  ${sanitize(reason)}`}`
      : JSON.stringify(toPrintableJson({ session: sessionId, branch: event.branch, status, reason }));
  output.line(line).catch((error: unknown) => output.warn(sanitize((error as Error).message)));
}
