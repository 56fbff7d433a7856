import type { WorkerInfo } from "../../index.js";
import { formatAge, formatCount } from "../format.js";
import { suggestResume } from "../resume-hint.js";
import { defineVerb } from "../verb.js";

export const workers = defineVerb({
  name: "workers",
  group: "Inspect",
  summary: "list the processes that run sessions, with their leases",
  examples: [
    ["savepoint workers", "who runs what, and until when its lease lasts"],
    ["savepoint workers --json", "for programs, with the runs of each"],
  ],
  declare() {},
  async run(cli) {
    const sp = await cli.read();
    const { output } = cli;
    const { colors } = output;
    const now = Date.now();
    let gone = 0;
    const entries = (async function* () {
      for await (const worker of sp.workers()) {
        if (!worker.alive) gone++;
        yield worker;
      }
    })();
    await output.list<WorkerInfo>(entries, {
      columns: [
        { title: "OWNER", cell: ({ owner }) => owner },
        { title: "HOST", cell: ({ host }) => host },
        { title: "PID", align: "right", cell: ({ pid }) => String(pid) },
        { title: "STATE", cell: ({ alive }) => (alive ? colors.green("alive") : colors.red("gone")) },
        { title: "LEASE", cell: ({ alive, leaseUntil }) => describeLease(alive, leaseUntil, now) },
        { title: "RUNS", align: "right", cell: ({ runs }) => String(runs.length) },
        { title: "SESSIONS", flexible: true, cell: ({ runs }) => runs.map(nameOf).join(", ") },
      ],
      empty: "No process runs a session.",
    });
    if (gone > 0) {
      const whose = gone === 1 ? "Its sessions are" : "Their sessions are";
      output.note(
        `${formatCount(gone, "process", "processes")} died. ${whose} interrupted. To resume, ${suggestResume(cli)}`,
      );
    }
  },
});

function describeLease(alive: boolean, until: number | undefined, now: number): string {
  if (until === undefined) return "released";
  // A process that is known to be dead loses its leases at once.
  return alive || until <= now ? `${alive ? "expires" : "expired"} ${formatAge(until, now)}` : "ended";
}

function nameOf({ sessionId, branch }: WorkerInfo["runs"][number]): string {
  return branch === "main" ? sessionId : `${sessionId}@${branch}`;
}
