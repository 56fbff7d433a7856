import type { RunEventOf, WorkerOptions } from "../../index.js";
import { loadAgents } from "../agent-module.js";
import { parseCount } from "../arguments.js";
import { colorStatus } from "../checkpoint-line.js";
import type { Cli } from "../cli.js";
import { formatCount } from "../format.js";
import { printRunEvents } from "../run-output.js";
import { joinParts } from "../text.js";
import { defineVerb } from "../verb.js";

interface Options extends Omit<WorkerOptions, "signals"> {
  readonly agents?: string;
  readonly verbose?: boolean;
}

export const worker = defineVerb<Options>({
  name: "worker",
  group: "Run",
  summary: "run queued, scheduled and interrupted sessions until stopped",
  examples: [
    ["savepoint worker --agents ./agents.mjs", "up to ten sessions at once"],
    ["savepoint worker --agents ./agents.mjs --concurrency 50 --lease 10s", "more sessions, and a shorter lease"],
    ["savepoint worker --agents ./agents.mjs --jsonl", "one JSON object per result"],
  ],
  declare(command) {
    command
      .option("-A, --agents <module>", "a module that exports agents of defineAgent()")
      .option("-c, --concurrency <count>", "how many sessions to run at once (default: 10)", parseCount)
      .option("--lease <time>", "without a heartbeat for this long, another worker takes over (default: 30s)")
      .option("--name <name>", "the name of the worker in messages (default: host and process)")
      .option("--poll <time>", "how often to poll the queue for work without a notification")
      .option("--grace <time>", "how long running steps may take when the worker is stopped (default: 30s)")
      .option(
        "--max-crashes <count>",
        "how many processes may crash in one step before the session is quarantined (default: 5)",
        parseCount,
      )
      .option("--verbose", "print every step and effect");
  },
  async run(cli, _, { agents: path, verbose, ...options }) {
    const agents = await loadAgents(cli, path);
    const interrupted = cli.interceptInterruption();
    const sp = await cli.open({});
    const worker = sp.worker(agents, { ...options, signals: false });
    if (verbose) sp.on("run", printRunEvents(cli));
    // A worker that runs a session must not look like an idle one.
    else worker.on("started", printRunEvents(cli));
    worker.on("status", (event) => printStatus(cli, event));
    worker.on("retry", verbose ? () => {} : printRunEvents(cli));
    worker.on("runError", ({ sessionId, step, reason }) => {
      cli.output.warn(`${sessionId}: step ${step} failed: ${reason}`);
      // The stack is stored without the functions of Savepoint.
      cli.output.note(`Its stack: ${cli.suggest("status", [sessionId])}`);
    });
    worker.on("leaseLost", ({ sessionId }) =>
      cli.output.warn(`${sessionId}: lease lost, this worker no longer runs the session.`),
    );
    worker.on("quarantined", ({ sessionId, reason }) => cli.output.warn(`${sessionId} is quarantined: ${reason}.`));
    worker.on("failure", ({ message, error }) => {
      cli.output.warn(`${message}: ${(error as Error).message}`);
    });
    await worker.start();
    const names = agents.map(({ name }) => name).join(", ");
    cli.output.note(`Worker ${worker.name} is running. Agents: ${names}. Ctrl-C stops it.`);
    await interrupted;
    const isIdle = worker.running === 0;
    cli.output.note(
      isIdle
        ? "Stopping."
        : `Stopping: releasing ${formatCount(worker.running, "session")}, each at the end of its step. Ctrl-C again exits immediately.`,
    );
    await worker.stop();
  },
});

function printStatus({ output }: Cli, event: RunEventOf<"status">): void {
  const { sessionId, status, reason } = event;
  const printed =
    output.format === "text"
      ? output.line(joinParts([sessionId, colorStatus(status, output.colors), reason ?? ""]))
      : output.json({ session: sessionId, branch: event.branch, status, reason });
  printed.catch((error: unknown) => output.warn((error as Error).message));
}
