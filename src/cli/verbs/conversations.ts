import type { Conversation, ConversationInfo } from "../../index.js";
import { parseCount, parseTime } from "../arguments.js";
import { notFoundError } from "../errors.js";
import { quote } from "../checkpoint-lookup.js";
import type { Colors } from "../output.js";
import { formatAge, sanitize, sanitizeLines, formatCount, formatTime } from "../terminal-text.js";
import { defineVerb } from "../verb.js";

interface Options {
  readonly agent?: string;
  readonly tag?: string;
  readonly archived?: boolean;
  readonly since?: number;
  readonly limit?: number;
}

export const conversations = defineVerb<Options>({
  name: "conversations",
  group: "Look",
  summary: "list conversations, or print one",
  examples: [
    ["savepoint conversations --agent support", "those of one agent"],
    ["savepoint conversations 0190f3c2-… --limit 20", "the last 20 messages of one"],
    ["savepoint conversations 0190f3c2-… --json", "its messages exactly as they were appended"],
  ],
  declare(command) {
    command
      .argument("[conversation]", "the id of one")
      .option("-a, --agent <id>", "only those of this agent")
      .option("-t, --tag <tag>", "only those with this tag")
      .option("--archived", "only archived ones")
      .option("--no-archived", "only those that are not archived")
      .option("--since <time>", "only those with a message since then: a date, or an age such as 3d", parseTime)
      .option("-n, --limit <count>", "at most so many; of one, the last messages", parseCount);
    // Without either, both are listed.
    command.setOptionValue("archived", undefined);
  },
  async run(cli, [id], { limit, ...filter }) {
    const sp = await cli.open();
    const { output } = cli;
    const limited = limit === undefined ? {} : { limit };
    if (id !== undefined) {
      const found = await sp.conversations.load<unknown>(id, limited);
      if (!found) throw notFoundError(`There is no conversation ${quote(id)}. "savepoint conversations" lists them.`);
      const { entries: _, ...rest } = found;
      return output.result(rest, () => describeConversation(found, output.colors));
    }
    const now = Date.now();
    const set = Object.fromEntries(Object.entries(filter).filter(([, value]) => value !== undefined));
    await output.list<ConversationInfo>(sp.conversations.list({ ...set, ...limited }), {
      columns: [
        { title: "CONVERSATION" },
        { title: "AGENT" },
        { title: "MESSAGES", align: "right" },
        { title: "LAST" },
        { title: "TITLE", flexible: true },
      ],
      row: (info) => [
        sanitize(info.id),
        sanitize(info.agent ?? ""),
        String(info.messageCount),
        formatAge(info.lastMessageAt, now),
        sanitize(
          [info.title ?? "", info.archived ? "(archived)" : "", ...info.tags.map((tag) => `#${tag}`)]
            .filter(Boolean)
            .join(" "),
        ),
      ],
      empty: "No conversations.",
    });
  },
});

function describeConversation(found: Conversation<unknown>, colors: Colors): string {
  const { id, title, agent, tags, archived, messageCount, entries, first } = found;
  const about = [
    agent === undefined ? "" : sanitize(agent),
    formatCount(messageCount, "message"),
    archived ? "archived" : "",
    ...tags.map((tag) => `#${sanitize(tag)}`),
  ];
  const heading = `${colors.bold(sanitize(title ?? id))}\n${colors.dim([sanitize(id), ...about.filter(Boolean)].join("  "))}`;
  const messages = entries.map(
    ({ role, timestamp, text }, index) =>
      `${colors.cyan(`${first + index}  ${role ?? "message"}`)}  ${colors.dim(formatTime(timestamp))}\n${sanitizeLines(text)}`,
  );
  return [heading, ...messages].join("\n\n");
}
