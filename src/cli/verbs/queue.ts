import type { QueuedRun, QueueState } from "../../index.js";
import { parseCount } from "../arguments.js";
import { formatAge } from "../format.js";
import { suggestResume } from "../resume-hint.js";
import { defineVerb } from "../verb.js";

interface Options {
  readonly agent?: string;
  readonly state?: QueueState;
  readonly limit?: number;
}

const STATES: readonly QueueState[] = ["queued", "scheduled", "waiting", "interrupted", "quarantined"];

export const queue = defineVerb<Options>({
  name: "queue",
  group: "Inspect",
  summary: "list unfinished runs that no process executes, in their order",
  examples: [
    ["savepoint queue", "what workers run next, what waits, what is quarantined"],
    ["savepoint queue --state quarantined", "sessions that crashed their processes, with the reason"],
    ["savepoint queue --agent shop --json", "one agent, for programs"],
  ],
  declare(command) {
    command
      .option("-a, --agent <id>", "only runs of this agent")
      .addOption(command.createOption("--state <state>", "only runs in this state").choices(STATES))
      .option("-n, --limit <count>", "list at most this many", parseCount);
  },
  async run(cli, _, { agent, state, limit = Number.POSITIVE_INFINITY }) {
    const sp = await cli.read();
    const { output } = cli;
    const { colors } = output;
    const now = Date.now();
    const seen = new Map<QueueState, QueuedRun>();
    const entries = (async function* () {
      let left = limit;
      for await (const run of sp.queue(agent === undefined ? {} : { agent })) {
        if (state !== undefined && run.state !== state) continue;
        if (left-- <= 0) return;
        if (!seen.has(run.state)) seen.set(run.state, run);
        yield run;
      }
    })();
    await output.list<QueuedRun>(entries, {
      columns: [
        { title: "#", align: "right", cell: ({ position }) => (position === undefined ? "" : String(position)) },
        {
          title: "SESSION",
          cell: ({ sessionId, branch }) => (branch === "main" ? sessionId : `${sessionId}@${branch}`),
        },
        { title: "AGENT", cell: (run) => run.agent },
        { title: "STATE", cell: (run) => (BAD_STATES.has(run.state) ? colors.red(run.state) : run.state) },
        { title: "PRIO", align: "right", cell: ({ priority }) => (priority === 0 ? "" : String(priority)) },
        { title: "READY", cell: (run) => describeReady(run, now) },
        { title: "", flexible: true, cell: (run) => describeCause(run) },
      ],
      empty: "The queue is empty.",
    });
    const waiting = seen.get("waiting");
    if (waiting) output.note(`To answer: ${cli.suggest("answer", [waiting.sessionId])}`);
    if (seen.has("interrupted")) output.note(`To resume what is interrupted, ${suggestResume(cli)}`);
    const quarantined = seen.get("quarantined");
    if (quarantined) {
      const branch = quarantined.branch === "main" ? [] : ["--branch", quarantined.branch];
      output.note(
        `To try a quarantined session once more: ${cli.suggest("requeue", [quarantined.sessionId], ...branch)}`,
      );
    }
  },
});

const BAD_STATES: ReadonlySet<QueueState> = new Set(["interrupted", "quarantined"]);

function describeReady({ state, readyAt }: QueuedRun, now: number): string {
  if (state === "queued" || state === "interrupted") return "now";
  return readyAt === undefined ? "" : formatAge(readyAt, now);
}

function describeCause({ questions, reason, external, state }: QueuedRun): string {
  if (questions[0]) return `asks: ${questions[0].text}`;
  if (state === "interrupted" && external) return "only its own program can resume it";
  return reason ?? "";
}
