import { bytes, count } from "../text.js";
import { defineVerb } from "../verb.js";

export const compact = defineVerb({
  name: "compact",
  group: "Keep safe",
  summary: "free what nothing needs any more, and give the space back",
  examples: [["savepoint compact", "safe while others save"]],
  declare() {},
  async run(cli) {
    const sp = await cli.open();
    const before = await sp.bytes();
    const bar = cli.progress({ doing: "Packing", unit: "sessions", total: (await sp.stats()).sessions });
    try {
      const report = await sp.compact({ onProgress: (progress) => bar.update(progress.sessions) });
      bar.stop();
      const after = await sp.bytes();
      await cli.output.result(
        { ...report, before, after },
        () =>
          `${bytes(before)} before, ${bytes(after)} after. Freed: ${count(report.items, "item")}, ${count(report.blobs, "blob")}.`,
      );
    } finally {
      bar.stop();
    }
  },
});
