import type { RunEventOf, WorkerOptions } from "../../index.js";
import { toCount } from "../arguments.js";
import type { Cli } from "../cli.js";
import { loadAgents } from "../load-agents.js";
import { colorStatus } from "../one-line.js";
import { toPlain } from "../plain.js";
import { tellEvent } from "../tell-run.js";
import { clean } from "../text.js";
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
      .option("-c, --concurrency <count>", "sessions at once (default: 10)", toCount)
      .option("--lease <time>", "after how long without a sign of life others take over (default: 30s)")
      .option("--name <name>", "names it in messages (default: host and process)")
      .option("--poll <time>", "how often to look for work that nobody tells of")
      .option("--grace <time>", "how long steps get to end when it is told to (default: 30s)")
      .option(
        "--max-deaths <count>",
        "processes that may die over one step before it is put aside (default: 5)",
        toCount,
      )
      .option("--verbose", "tell of every step and effect");
  },
  async run(cli, _, { agents, verbose, ...options }) {
    const loaded = await loadAgents(cli, agents);
    const told = cli.onInterruption();
    const sp = await cli.open({});
    const worker = sp.worker(loaded, { ...options, signals: false });
    if (verbose) sp.on("run", tellEvent(cli));
    worker.on("status", (event) => print(cli, event));
    worker.on("leaseLost", ({ sessionId }) => cli.output.warn(`${clean(sessionId)} was taken over by somebody else.`));
    worker.on("quarantined", ({ sessionId, reason }) =>
      cli.output.warn(`${clean(sessionId)} is put aside: ${clean(reason)}.`),
    );
    worker.on("failure", ({ message, error }) => {
      cli.output.warn(`${clean(message)}: ${clean((error as Error).message)}`);
    });
    await worker.start();
    const names = loaded.map(({ name }) => clean(name)).join(", ");
    cli.output.note(`Worker ${clean(worker.name)} works for ${names}. Ctrl-C ends it.`);
    await told;
    cli.output.note(`Handing back ${worker.running} sessions, each at the end of its step. Ctrl-C again ends at once.`);
    await worker.stop();
  },
});

function print({ output }: Cli, event: RunEventOf<"status">): void {
  const { sessionId, status, reason } = event;
  const line =
    output.format === "text"
      ? `${clean(sessionId)}  ${colorStatus(status, output.colors)}${reason === undefined ? "" : `  ${clean(reason)}`}`
      : JSON.stringify(toPlain({ session: sessionId, branch: event.branch, status, reason }));
  output.line(line).catch((error: unknown) => output.warn(clean((error as Error).message)));
}
