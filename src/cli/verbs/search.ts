import type { SearchHit, SearchOptions } from "../../index.js";
import { collectValues, parseCount, parseTime } from "../arguments.js";
import { formatAge } from "../format.js";
import { defineVerb } from "../verb.js";

interface Options extends Omit<SearchOptions, "tags"> {
  readonly tag?: string[];
}

export const search = defineVerb<Options>({
  name: "search",
  group: "Inspect",
  summary: "search conversations and the newest states of sessions",
  examples: [
    ['savepoint search "refund"', "matches any part of a text, ignoring case"],
    ['savepoint search "refund" --role user --since 7d', "messages of users in the last week"],
    ["savepoint search refund --agent support --json", "for programs"],
  ],
  declare(command) {
    command
      .argument("<text>", "the text, taken literally")
      .option("-a, --agent <id>", "only in what belongs to this agent")
      .addOption(
        command
          .createOption("--role <role>", "only in messages with this role")
          .choices(["system", "user", "assistant", "tool"]),
      )
      .option("-t, --tag <tag>", "only in conversations with this tag; repeatable", collectValues)
      .option("--since <time>", "only in messages since a date, or an age such as 3d", parseTime)
      .option("--archived", "only in archived conversations")
      .option("-n, --limit <count>", "list at most this many", parseCount, 10);
  },
  async run(cli, [text = ""], { tag, ...options }) {
    const sp = await cli.read();
    const hits = await sp.search(text, { ...options, ...(tag && { tags: tag }) });
    const now = Date.now();
    await cli.output.list<SearchHit>(hits, {
      columns: [
        { title: "IN", cell: ({ source }) => source },
        { title: "WHERE", cell: (hit) => locationOf(hit) },
        { title: "ROLE", cell: ({ role = "" }) => role },
        { title: "WHEN", cell: ({ timestamp }) => (timestamp === undefined ? "" : formatAge(timestamp, now)) },
        { title: "TEXT", flexible: true, cell: ({ snippet }) => snippet },
      ],
      empty: "No matches.",
    });
  },
});

/** A conversation by its id; a state by the name that `savepoint show` accepts. */
function locationOf({ source, id, branch, path }: SearchHit): string {
  return source === "session" ? `${id}${branch === "main" ? "" : `@${branch}`}${path ? `:${path}` : ""}` : id;
}
