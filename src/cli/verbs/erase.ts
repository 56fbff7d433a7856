import type { EraseReport, EraseTarget } from "../../index.js";
import { usageError } from "../errors.js";
import { EXIT } from "../exit-codes.js";
import { formatBytes, formatCount, quote } from "../format.js";
import { defineVerb } from "../verb.js";

interface Options {
  readonly session?: string;
  readonly conversation?: string;
  readonly agent?: string;
}

export const erase = defineVerb<Options>({
  name: "erase",
  group: "Maintain",
  summary: "erase a session, a conversation or an agent from the store's files",
  examples: [
    [
      "savepoint erase --session order-88",
      "a session, after confirmation; lists the backups that may still contain it",
    ],
    ["savepoint erase --agent support --yes", "an agent with its conversations and sessions, without confirmation"],
  ],
  declare(command) {
    command
      .option("--session <id>", "a session with all its branches")
      .option("--conversation <id>", "a conversation, also in the checkpoints of its agent")
      .option("-a, --agent <id>", "an agent with its conversations, sessions and checkpoints");
  },
  async run(cli, _, options) {
    const { target, name, parts } = parseTarget(options);
    const sp = await cli.open();
    const { sessions } = await sp.stats();
    if (!(await cli.confirm(`Erase ${name}${parts}? This cannot be undone, and rewrites the store.`))) return EXIT.ok;
    const progress = { label: "Erasing", unit: "sessions", total: sessions } as const;
    const report = await cli.withProgress(progress, (onProgress) => sp.erase(target, { onProgress }));
    await cli.output.result(report, () => describe(name, parts, report));
    for (const { path, host } of report.backups)
      cli.output.note(`the backup ${path} on ${host} may still contain it: delete the backup too`);
    for (const place of report.elsewhere) cli.output.note(place);
    for (const reason of report.pending) cli.output.note(reason);
    return report.pending.length > 0 ? EXIT.partial : EXIT.ok;
  },
});

/** The name of the target in messages, and in `parts` what is erased with it. */
interface NamedTarget {
  readonly target: EraseTarget;
  readonly name: string;
  readonly parts: string;
}

function parseTarget({ session, conversation, agent }: Options): NamedTarget {
  const targets = [
    ...(session === undefined ? [] : [{ target: { session }, name: `session ${quote(session)}`, parts: "" }]),
    ...(conversation === undefined
      ? []
      : [{ target: { conversation }, name: `conversation ${quote(conversation)}`, parts: "" }]),
    ...(agent === undefined
      ? []
      : [
          {
            target: { agent },
            name: `agent ${quote(agent)}`,
            parts: " with its conversations, sessions and checkpoints",
          },
        ]),
  ];
  const [first] = targets;
  if (first && targets.length === 1) return first;
  throw usageError("Name one thing to erase: --session <id>, --conversation <id> or --agent <id>.");
}

function describe(name: string, parts: string, report: EraseReport): string {
  const { sessions, conversations, agents, checkpoints, bytes } = report;
  const existed = sessions + conversations + agents > 0;
  const freed = bytes > 0 ? ` The store is ${formatBytes(bytes)} smaller.` : "";
  const lost = checkpoints > 0 ? ` It was removed from ${formatCount(checkpoints, "checkpoint")} of its agent.` : "";
  if (existed) return `Erased ${name}${parts}.${lost}${freed}`;
  return `There is no ${name}. Remaining data of earlier deletions was erased.${freed}`;
}
