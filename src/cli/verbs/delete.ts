import type { Savepoint } from "../../index.js";
import { describeCheckpoint, findCheckpoint, requireSession } from "../checkpoint-lookup.js";
import { notFoundError, usageError } from "../errors.js";
import { quote } from "../format.js";
import { defineVerb } from "../verb.js";

interface Options {
  readonly session?: string;
  readonly conversation?: string;
  readonly agent?: string;
}

export const deleteVerb = defineVerb<Options>({
  name: "delete",
  group: "Time travel",
  summary: "delete a checkpoint, a session, a conversation or an agent permanently",
  examples: [
    ["savepoint delete order-88#14", "delete one checkpoint"],
    ["savepoint delete --session order-88 --yes", "delete a session with all its branches, without confirmation"],
    ["savepoint delete --agent support", "delete an agent with its conversations, sessions and checkpoints"],
  ],
  declare(command) {
    command
      .argument("[checkpoint]", "the id or session#seq of a checkpoint")
      .option("--session <id>", "a session with all its branches")
      .option("--conversation <id>", "a conversation")
      .option("-a, --agent <id>", "an agent with its conversations, sessions and checkpoints");
  },
  async run(cli, [checkpoint], options) {
    const { session, conversation, agent } = options;
    const targets = [checkpoint, session, conversation, agent].filter((target) => target !== undefined);
    if (targets.length !== 1) throw usageError("Name one of: a checkpoint, --session, --conversation, --agent.");
    const sp = await cli.open();
    const { what, remove } = await planDeletion(sp, checkpoint, options);
    if (!(await cli.confirm(`Delete ${what}? This cannot be undone.`))) return;
    if (!(await remove())) throw notFoundError(`There is no ${what}. Nothing was deleted.`);
    await cli.output.result({ deleted: true, what }, () => `Deleted ${what}.`);
  },
});

interface Deletion {
  readonly what: string;
  readonly remove: () => Promise<boolean>;
}

async function planDeletion(sp: Savepoint, checkpoint: string | undefined, options: Options): Promise<Deletion> {
  const { session, conversation, agent = "" } = options;
  if (checkpoint !== undefined) {
    const { info, headOfBranch } = await findCheckpoint(sp, checkpoint);
    if (headOfBranch !== undefined) {
      throw usageError(
        `${quote(checkpoint)} names the head of a branch, which changes with every save. Name the checkpoint: ${describeCheckpoint(info)}.`,
      );
    }
    return { what: `checkpoint ${describeCheckpoint(info)}`, remove: () => sp.checkpoints.delete(info.id) };
  }
  if (session !== undefined) {
    await requireSession(sp, session);
    return { what: `session ${quote(session)} with all its checkpoints`, remove: () => sp.sessions.delete(session) };
  }
  if (conversation !== undefined) {
    return { what: `conversation ${quote(conversation)}`, remove: () => sp.conversations.delete(conversation) };
  }
  return {
    what: `agent ${quote(agent)} with its conversations, sessions and checkpoints`,
    remove: () => sp.agents.delete(agent),
  };
}
