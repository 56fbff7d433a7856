import type { Role, SearchHit } from "../../index.js";
import { collectValues, parseCount, parseTime } from "../arguments.js";
import { formatAge, sanitize } from "../terminal-text.js";
import { defineVerb } from "../verb.js";

interface Options {
  readonly agent?: string;
  readonly role?: Role;
  readonly tag?: string[];
  readonly since?: number;
  readonly limit?: number;
  readonly archived?: boolean;
}

export const search = defineVerb<Options>({
  name: "search",
  group: "Look",
  summary: "find what was said, in conversations and in the newest states of sessions",
  examples: [
    ['savepoint search "refund"', "any part of a text, in any case"],
    ['savepoint search "refund" --role user --since 7d', "what users said this week"],
    ["savepoint search refund --agent support --json", "for programs"],
  ],
  declare(command) {
    command
      .argument("<text>", "taken literally")
      .option("-a, --agent <id>", "only in what is this agent's")
      .addOption(
        command
          .createOption("--role <role>", "only in messages of this role")
          .choices(["system", "user", "assistant", "tool"]),
      )
      .option("-t, --tag <tag>", "only in conversations with this tag; may be given several times", collectValues)
      .option("--since <time>", "only in messages from then on: a date, or an age such as 3d", parseTime)
      .option("--archived", "only in archived conversations")
      .option("-n, --limit <count>", "at most so many", parseCount, 10);
  },
  async run(cli, [text = ""], { agent, role, tag, since, limit, archived }) {
    const sp = await cli.open();
    const hits = await sp.search(text, {
      ...(agent !== undefined && { agent }),
      ...(role !== undefined && { role }),
      ...(tag !== undefined && { tags: tag }),
      ...(since !== undefined && { since }),
      ...(archived !== undefined && { archived }),
      ...(limit !== undefined && { limit }),
    });
    const now = Date.now();
    await cli.output.list<SearchHit>(hits, {
      columns: [
        { title: "IN" },
        { title: "WHERE" },
        { title: "ROLE" },
        { title: "WHEN" },
        { title: "TEXT", flexible: true },
      ],
      row: ({ source, id, branch, path, role: said, timestamp, snippet }) => [
        source,
        sanitize(source === "session" ? `${id}${branch === "main" ? "" : `@${branch}`}${path ? `:${path}` : ""}` : id),
        said ?? "",
        timestamp === undefined ? "" : formatAge(timestamp, now),
        sanitize(snippet),
      ],
      empty: "Nothing was found.",
    });
  },
});
