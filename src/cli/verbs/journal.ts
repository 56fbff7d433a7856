import type { JournalEntry } from "../../index.js";
import { requireBranch, requireSession } from "../checkpoint-lookup.js";
import { toPrintableJson } from "../json.js";
import { formatAge, sanitize } from "../terminal-text.js";
import { defineVerb } from "../verb.js";

export const journal = defineVerb<{ readonly branch?: string }>({
  name: "journal",
  group: "Look",
  summary: "list what a session has recorded in the step that it is in",
  examples: [
    ["savepoint journal order-88", "what is done, and of what nobody knows whether it happened"],
    ["savepoint journal order-88 --json", "with arguments and results"],
  ],
  declare(command) {
    command.argument("<session>").option("-b, --branch <name>", "another branch than main");
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
        sanitize(resultOf(entry, now)),
      ],
      empty: "Nothing is recorded since the last step: the state has it all.",
    });
    if (unknown > 0) {
      output.note(
        `${unknown === 1 ? "One effect was interrupted, and nobody knows whether it happened. What becomes of it is up to its policy" : `${unknown} effects were interrupted, and nobody knows whether they happened. What becomes of them is up to their policies`}: "savepoint recover" goes on, and "savepoint answer ${sanitize(id)}" tells what it asks.`,
      );
    }
  },
});

function resultOf({ error, value, outcome, until }: JournalEntry, now: number): string {
  if (error) return `${error.name}: ${error.message}`;
  if (until !== undefined && outcome !== "recorded") return `wakes ${formatAge(until, now)}`;
  return outcome === "recorded" && value !== undefined ? JSON.stringify(toPrintableJson(value)) : "";
}
