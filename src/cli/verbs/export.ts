import type { ExportTarget } from "../../index.js";
import { findCheckpoint, requireScope } from "../checkpoint-lookup.js";
import { usageError } from "../errors.js";
import { formatBytes, formatCount } from "../format.js";
import { warnHoles } from "../holes.js";
import { isStoreFile } from "../store-path.js";
import { defineVerb } from "../verb.js";

interface Options {
  readonly session?: string;
  readonly agent?: string;
  readonly out?: string;
}

export const exportVerb = defineVerb<Options>({
  name: "export",
  group: "Maintain",
  summary: "write a checkpoint, a session, an agent or everything to one portable file",
  examples: [
    ["savepoint export --session order-88 -o order-88.savepoint", "a session with all its branches"],
    ["savepoint export order-88#14 -o step-14.savepoint", "one checkpoint"],
    ["savepoint export | ssh other savepoint import -", "everything, to another machine"],
  ],
  declare(command) {
    command
      .argument("[checkpoint]", "a checkpoint (default: everything)")
      .option("--session <id>", "a session with all its branches")
      .option("-a, --agent <id>", "an agent with its conversations and sessions")
      .option("-o, --out <file>", "the file to write (default: stdout)");
  },
  async run(cli, [checkpoint], { out, ...scope }) {
    const { session, agent } = scope;
    const targets = [checkpoint, session, agent].filter((each) => each !== undefined);
    if (targets.length > 1) throw usageError("Name only one of: a checkpoint, --session, --agent.");
    if (out === undefined && cli.io.stdout.isTTY) {
      throw usageError("A bundle is binary and cannot be printed on a terminal. Use -o <file>, or a pipe.");
    }
    const sp = await cli.read();
    if (out !== undefined && isStoreFile(sp.url, cli.resolvePath(out))) {
      throw usageError(`${out} belongs to the store. Write to another file.`);
    }
    await requireScope(sp, scope);
    const target: ExportTarget =
      checkpoint === undefined
        ? (scope as ExportTarget)
        : { checkpoint: (await findCheckpoint(sp, checkpoint)).info.id };
    const hasTotal = checkpoint === undefined && session === undefined;
    const total = hasTotal ? (await sp.stats(agent === undefined ? {} : { agent })).checkpoints : undefined;
    const summary = await cli.withProgress({ label: "Exporting", unit: "checkpoints", total }, (onProgress) => {
      const bundle = sp.export(target, { onProgress });
      return out === undefined ? bundle.pipe((chunk) => cli.output.raw(chunk)) : bundle.save(cli.resolvePath(out));
    });
    if (out !== undefined) {
      const text = `${out}  ${formatCount(summary.checkpoints, "checkpoint")}, ${formatBytes(summary.bytes)}`;
      await cli.output.result({ path: out, ...summary }, () => text);
    }
    if (checkpoint !== undefined && (await sp.sessions.load(checkpoint))) {
      const whole = cli.suggest("export", [], "--session", checkpoint, ...(out === undefined ? [] : ["-o", out]));
      cli.output.note(`This is its newest checkpoint alone. To export the whole session: ${whole}`);
    }
    return warnHoles(cli.output, "not in the bundle", summary.holes);
  },
});
