import type { ExportTarget } from "../../index.js";
import { EXIT } from "../exit-codes.js";
import { usage } from "../failure.js";
import { findWhole, requireAgent, requireSession } from "../names.js";
import { isPartOf } from "../store-path.js";
import { bytes, clean, count } from "../text.js";
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
    if (named.length > 1) throw usage("Export one of: a checkpoint, --session, --agent; or everything.");
    if (out === undefined && cli.io.stdout.isTTY) throw usage("A terminal cannot show it: use -o file, or pipe it.");
    const sp = await cli.open();
    if (out !== undefined && isPartOf(sp.url, cli.path(out))) {
      throw usage(`${clean(out)} is the store itself. Write to another file.`);
    }
    if (session !== undefined) await requireSession(sp, session);
    if (agent !== undefined) await requireAgent(sp, agent);
    const target: ExportTarget =
      checkpoint !== undefined
        ? { checkpoint: (await findWhole(sp, checkpoint)).info.id }
        : session !== undefined
          ? { session }
          : agent !== undefined
            ? { agent }
            : {};
    const whole = checkpoint === undefined && session === undefined;
    const total = whole ? (await sp.stats(agent === undefined ? {} : { agent })).checkpoints : undefined;
    const bar = cli.progress({ doing: "Exporting", unit: "checkpoints", total });
    try {
      const bundle = sp.export(target, { onProgress: (progress) => bar.update(progress.checkpoints) });
      const done =
        out === undefined ? await bundle.pipe((chunk) => cli.output.raw(chunk)) : await bundle.save(cli.path(out));
      bar.stop();
      if (out !== undefined) {
        const words = `${clean(out)}  ${count(done.checkpoints, "checkpoint")}, ${bytes(done.bytes)}`;
        await cli.output.result({ path: out, ...done }, () => words);
      }
      for (const hole of done.holes) cli.output.warn(`not in it: ${clean(hole.place)}: ${clean(hole.reason)}`);
      return done.holes.length > 0 ? EXIT.partly : EXIT.ok;
    } finally {
      bar.stop();
    }
  },
});
