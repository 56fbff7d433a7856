import type { Conversation, ConversationInfo, ConversationListOptions } from "../../index.js";
import { parseCount, parseTime } from "../arguments.js";
import { notFoundError } from "../errors.js";
import { formatAge, formatCount, formatTime, quote } from "../format.js";
import { colored, type Colors, joinParts, type Text } from "../text.js";
import { defineVerb } from "../verb.js";

export const conversations = defineVerb<ConversationListOptions>({
  name: "conversations",
  group: "Inspect",
  summary: "list conversations, or print one",
  examples: [
    ["savepoint conversations --agent support", "the conversations of one agent"],
    ["savepoint conversations 0190f3c2-… --limit 20", "the last 20 messages of a conversation"],
    ["savepoint conversations 0190f3c2-… --json", "its messages exactly as they were appended"],
  ],
  declare(command) {
    command
      .argument("[conversation]", "the id of a conversation")
      .option("-a, --agent <id>", "only conversations of this agent")
      .option("-t, --tag <tag>", "only conversations with this tag")
      .option("--archived", "only archived conversations")
      .option("--no-archived", "only conversations that are not archived")
      .option("--since <time>", "only with a message since a date, or an age such as 3d", parseTime)
      .option("-n, --limit <count>", "list at most this many; of one conversation, the last messages", parseCount);
    // Commander sets `archived` to true because of --no-archived. Without either option both kinds are listed.
    command.setOptionValue("archived", undefined);
  },
  async run(cli, [id], options) {
    const sp = await cli.read();
    const { output } = cli;
    if (id !== undefined) {
      const { limit } = options;
      const conversation = await sp.conversations.load<unknown>(id, limit === undefined ? {} : { limit });
      if (!conversation) {
        throw notFoundError(`There is no conversation ${quote(id)}. "savepoint conversations" lists them.`);
      }
      const { entries: _, ...record } = conversation;
      return output.result(record, () => describeConversation(conversation, output.colors));
    }
    const now = Date.now();
    await output.list<ConversationInfo>(sp.conversations.list(options), {
      columns: [
        { title: "CONVERSATION", cell: (info) => info.id },
        { title: "AGENT", cell: ({ agent = "" }) => agent },
        { title: "MESSAGES", align: "right", cell: ({ messageCount }) => String(messageCount) },
        { title: "LAST", cell: ({ lastMessageAt }) => formatAge(lastMessageAt, now) },
        { title: "TITLE", flexible: true, cell: (info) => describeTitle(info) },
      ],
      empty: "No conversations.",
    });
  },
});

function describeTitle({ title = "", archived, tags }: ConversationInfo): string {
  return [title, archived ? "(archived)" : "", ...tags.map((tag) => `#${tag}`)].filter(Boolean).join(" ");
}

function describeConversation(conversation: Conversation<unknown>, colors: Colors): Text[] {
  const { id, title, agent = "", tags, archived, messageCount, entries, first } = conversation;
  const count = formatCount(messageCount, "message");
  const facts = [id, agent, count, archived ? "archived" : "", ...tags.map((tag) => `#${tag}`)];
  const messages = entries.flatMap(({ role, timestamp, text }, index) => [
    "",
    colored`${colors.cyan(`${first + index}  ${role ?? "message"}`)}  ${colors.dim(formatTime(timestamp))}`,
    // Indented, so that no line of a message looks like the heading of another message.
    ...text.split("\n").map((line) => `    ${line}`.trimEnd()),
  ]);
  return [colors.bold(title ?? id), colors.dim(joinParts(facts)), ...messages];
}
