import type { JournalEntry } from "../../index.js";
import { requireBranch, requireSession } from "../checkpoint-lookup.js";
import { formatAge, formatCount } from "../format.js";
import { toPrintableJson } from "../json.js";
import { sanitize } from "../terminal-text.js";
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
  async run(cli, [id = ""], { branch }) {
    const sp = await cli.open();
    await requireSession(sp, id);
    await requireBranch(sp, id, branch);
    const now = Date.now();
    const { output } = cli;
    const { colors } = output;
    let unknown = 0;
    const entries = (async function* () {
      for await (const entry of sp.journal(id, branch === undefined ? {} : { branch })) {
        if (entry.outcome === "unknown") unknown++;
        yield entry;
      }
    })();
    await output.list<JournalEntry>(entries, {
      columns: [
        { title: "#", align: "right" },
        { title: "EFFECT" },
        { title: "NAME" },
        { title: "OUTCOME" },
        { title: "STARTED" },
        { title: "RESULT", flexible: true },
      ],
      row: (entry) => [
        String(entry.index),
        entry.kind,
        sanitize(entry.callId === undefined ? entry.name : `${entry.name} ${entry.callId}`),
        entry.outcome === "unknown" || entry.outcome === "failed" ? colors.red(entry.outcome) : entry.outcome,
        formatAge(entry.startedAt, now),
        sanitize(describeOutcome(entry, now)),
      ],
      empty: "No effects since the last completed step.",
    });
    if (unknown > 0) {
      output.note(
        `${formatCount(unknown, "effect was", "effects were")} interrupted with an unknown outcome. "savepoint recover" resumes the session: the policy of each effect decides whether it is executed again or becomes a question for "savepoint answer ${sanitize(id)}".`,
      );
    }
  },
});

function describeOutcome({ error, value, outcome, until }: JournalEntry, now: number): string {
  if (error) return `${error.name}: ${error.message}`;
  if (until !== undefined && outcome !== "recorded") return `wakes ${formatAge(until, now)}`;
  return outcome === "recorded" && value !== undefined ? JSON.stringify(toPrintableJson(value)) : "";
}
