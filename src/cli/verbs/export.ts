import type { ExportTarget } from "../../index.js";
import { EXIT } from "../exit-codes.js";
import { usageError } from "../errors.js";
import { findCheckpoint, requireAgent, requireSession } from "../checkpoint-lookup.js";
import { isStoreFile } from "../store-path.js";
import { formatBytes, sanitize, formatCount } from "../terminal-text.js";
import { defineVerb } from "../verb.js";

interface Options {
  readonly session?: string;
  readonly agent?: string;
  readonly out?: string;
}

export const exportVerb = defineVerb<Options>({
  name: "export",
  group: "Keep safe",
  summary: "write a checkpoint, a session, an agent or everything as one portable file",
  examples: [
    ["savepoint export --session order-88 -o order-88.savepoint", "a session with all its branches"],
    ["savepoint export order-88#14 -o step-14.savepoint", "one checkpoint"],
    ["savepoint export | ssh other savepoint import -", "everything, to another machine"],
  ],
  declare(command) {
    command
      .argument("[checkpoint]", "one checkpoint; everything, if nothing is said")
      .option("--session <id>", "a session with all its branches")
      .option("-a, --agent <id>", "an agent with its conversations and sessions")
      .option("-o, --out <file>", "where to; stdout, if it is not said");
  },
  async run(cli, [checkpoint], { session, agent, out }) {
    const named = [checkpoint, session, agent].filter((each) => each !== undefined);
    if (named.length > 1) throw usageError("Export one of: a checkpoint, --session, --agent; or everything.");
    if (out === undefined && cli.io.stdout.isTTY)
      throw usageError("A terminal cannot show it: use -o file, or pipe it.");
    const sp = await cli.open();
    if (out !== undefined && isStoreFile(sp.url, cli.resolvePath(out))) {
      throw usageError(`${sanitize(out)} is the store itself. Write to another file.`);
    }
    if (session !== undefined) await requireSession(sp, session);
    if (agent !== undefined) await requireAgent(sp, agent);
    const target: ExportTarget =
      checkpoint !== undefined
        ? { checkpoint: (await findCheckpoint(sp, checkpoint)).info.id }
        : session !== undefined
          ? { session }
          : agent !== undefined
            ? { agent }
            : {};
    const whole = checkpoint === undefined && session === undefined;
    const total = whole ? (await sp.stats(agent === undefined ? {} : { agent })).checkpoints : undefined;
    const bar = cli.progress({ label: "Exporting", unit: "checkpoints", total });
    try {
      const bundle = sp.export(target, { onProgress: (progress) => bar.update(progress.checkpoints) });
      const done =
        out === undefined
          ? await bundle.pipe((chunk) => cli.output.raw(chunk))
          : await bundle.save(cli.resolvePath(out));
      bar.stop();
      if (out !== undefined) {
        const words = `${sanitize(out)}  ${formatCount(done.checkpoints, "checkpoint")}, ${formatBytes(done.bytes)}`;
        await cli.output.result({ path: out, ...done }, () => words);
      }
      for (const hole of done.holes) cli.output.warn(`not in it: ${sanitize(hole.place)}: ${sanitize(hole.reason)}`);
      return done.holes.length > 0 ? EXIT.partly : EXIT.ok;
    } finally {
      bar.stop();
    }
  },
});
