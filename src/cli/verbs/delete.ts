import type { Savepoint } from "../../index.js";
import { checkpointName, describeCheckpoint, findCheckpoint, requireSession } from "../checkpoint-lookup.js";
import type { Cli } from "../cli.js";
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
    if (targets.length !== 1) throw usageError(HOW_TO_DELETE);
    const sp = await cli.open();
    const { what, remove } = await planDeletion(cli, sp, checkpoint, options);
    if (!(await cli.confirm(`Delete ${what}? This cannot be undone.`))) return;
    if (!(await remove())) throw notFoundError(`There is no ${what}. Nothing was deleted.`);
    await cli.output.result({ deleted: true, what }, () => `Deleted ${what}.`);
  },
});

const HOW_TO_DELETE =
  "Name one thing to delete: a checkpoint (savepoint delete order-88#14), --session <id>, --conversation <id> or --agent <id>.";

/** The error for a name that is no checkpoint but something else that can be deleted. */
async function isOtherKind(cli: Cli, sp: Savepoint, name: string): Promise<Error | undefined> {
  const kinds = [
    ["session", () => sp.sessions.load(name)],
    ["conversation", () => sp.conversations.load(name, { limit: 1 })],
    ["agent", () => sp.agents.load(name)],
  ] as const;
  for (const [kind, load] of kinds) {
    if (!(await load().catch(() => undefined))) continue;
    return usageError(
      `${quote(name)} is ${kind === "agent" ? "an" : "a"} ${kind}. To delete it: ${cli.suggest("delete", [], `--${kind}`, name)}`,
    );
  }
  return undefined;
}

interface Deletion {
  readonly what: string;
  readonly remove: () => Promise<boolean>;
}

async function planDeletion(
  cli: Cli,
  sp: Savepoint,
  checkpoint: string | undefined,
  options: Options,
): Promise<Deletion> {
  const { session, conversation, agent = "" } = options;
  if (checkpoint !== undefined) {
    const { info, headOfBranch } = await findCheckpoint(sp, checkpoint).catch(async (error: unknown) => {
      throw (await isOtherKind(cli, sp, checkpoint)) ?? error;
    });
    if (headOfBranch !== undefined) {
      const isSession = info.sessionId === checkpoint;
      const branch = isSession ? "" : ", which changes with every save";
      throw usageError(
        `${quote(checkpoint)} names a ${isSession ? "session" : "branch"}${branch}. ${isSession ? `To delete the session: ${cli.suggest("delete", [], "--session", checkpoint)}. ` : ""}To delete only its newest checkpoint: ${cli.suggest("delete", [checkpointName(info)])}`,
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
