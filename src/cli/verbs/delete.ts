import { notFoundError, usageError } from "../errors.js";
import { describeCheckpoint, findCheckpoint, quote, requireSession } from "../checkpoint-lookup.js";
import { defineVerb } from "../verb.js";

interface Options {
  readonly session?: string;
  readonly conversation?: string;
  readonly agent?: string;
}

export const deleteVerb = defineVerb<Options>({
  name: "delete",
  group: "Travel in time",
  summary: "delete a checkpoint, a session, a conversation or an agent, for good",
  examples: [
    ["savepoint delete order-88#14", "one checkpoint"],
    ["savepoint delete --session order-88 --yes", "a session with all its branches, without being asked"],
    ["savepoint delete --agent support", "an agent with its conversations, sessions and checkpoints"],
  ],
  declare(command) {
    command
      .argument("[checkpoint]", "by its id or session#seq: nothing that moves")
      .option("--session <id>", "a session with all its branches")
      .option("--conversation <id>", "a conversation")
      .option("-a, --agent <id>", "an agent with all that is its own");
  },
  async run(cli, [checkpoint], { session, conversation, agent }) {
    const targets = [checkpoint, session, conversation, agent].filter((target) => target !== undefined);
    if (targets.length !== 1) throw usageError("Name one thing: a checkpoint, --session, --conversation or --agent.");
    const sp = await cli.open();
    let what: string;
    let remove: () => Promise<boolean>;
    if (checkpoint !== undefined) {
      const { info, headOfBranch } = await findCheckpoint(sp, checkpoint);
      if (headOfBranch !== undefined) {
        throw usageError(
          `Which checkpoint ${quote(checkpoint)} is changes with every save. Name it: ${describeCheckpoint(info)}.`,
        );
      }
      [what, remove] = [`checkpoint ${describeCheckpoint(info)}`, () => sp.checkpoints.delete(info.id)];
    } else if (session !== undefined) {
      await requireSession(sp, session);
      [what, remove] = [`session ${quote(session)} with all its checkpoints`, () => sp.sessions.delete(session)];
    } else if (conversation !== undefined) {
      [what, remove] = [`conversation ${quote(conversation)}`, () => sp.conversations.delete(conversation)];
    } else {
      const id = agent as string;
      [what, remove] = [
        `agent ${quote(id)} with its conversations, sessions and checkpoints`,
        () => sp.agents.delete(id),
      ];
    }
    if (!(await cli.confirm(`Delete ${what}? That cannot be undone.`))) return;
    const deleted = await remove();
    if (!deleted) throw notFoundError(`There is no ${what}; nothing was deleted.`);
    await cli.output.result({ deleted: true, what }, () => `Deleted ${what}.`);
  },
});
