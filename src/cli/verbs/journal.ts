import type { JournalEntry } from "../../index.js";
import { requireSession } from "../checkpoint-lookup.js";
import { formatAge, formatCount } from "../format.js";
import { toPrintableJson } from "../json.js";
import { suggestCommand } from "../shell.js";
import { defineVerb } from "../verb.js";

export const journal = defineVerb<{ readonly branch?: string }>({
  name: "journal",
  group: "Inspect",
  summary: "list the effects of the current step of a session",
  examples: [
    ["savepoint journal order-88", "recorded effects, and effects with an unknown outcome"],
    ["savepoint journal order-88 --json", "with arguments and results"],
  ],
  declare(command) {
    command.argument("<session>").option("-b, --branch <name>", "the branch (default: main)");
  },
  async run(cli, [id = ""], options) {
    const sp = await cli.read();
    await requireSession(sp, id, options.branch);
    const now = Date.now();
    const { output } = cli;
    const { colors } = output;
    let unknown = 0;
    const entries = (async function* () {
      for await (const entry of sp.journal(id, options)) {
        if (entry.outcome === "unknown") unknown++;
        yield entry;
      }
    })();
    await output.list<JournalEntry>(entries, {
      columns: [
        { title: "#", align: "right", cell: ({ index }) => String(index) },
        { title: "EFFECT", cell: ({ kind }) => kind },
        { title: "NAME", cell: ({ name, callId }) => (callId === undefined ? name : `${name} ${callId}`) },
        { title: "OUTCOME", cell: ({ outcome }) => (BAD_OUTCOMES.has(outcome) ? colors.red(outcome) : outcome) },
        { title: "STARTED", cell: ({ startedAt }) => formatAge(startedAt, now) },
        { title: "RESULT", flexible: true, cell: (entry) => describeResult(entry, now) },
      ],
      empty: "No effects since the last completed step.",
    });
    if (unknown > 0) {
      output.note(
        `${formatCount(unknown, "effect was", "effects were")} interrupted with an unknown outcome. "savepoint recover" resumes the session: the policy of each effect decides whether it is executed again or becomes a question for "${suggestCommand("answer", [id])}".`,
      );
    }
  },
});

const BAD_OUTCOMES: ReadonlySet<string> = new Set(["unknown", "failed"]);

function describeResult({ error, value, outcome, until }: JournalEntry, now: number): string {
  if (error) return `${error.name}: ${error.message}`;
  if (until !== undefined && outcome !== "recorded") return `wakes ${formatAge(until, now)}`;
  return outcome === "recorded" && value !== undefined ? JSON.stringify(toPrintableJson(value)) : "";
}
