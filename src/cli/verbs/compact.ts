import { formatBytes, formatCount } from "../terminal-text.js";
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
    const bar = cli.progress({ label: "Packing", unit: "sessions", total: (await sp.stats()).sessions });
    try {
      const report = await sp.compact({ onProgress: (progress) => bar.update(progress.sessions) });
      bar.stop();
      const after = await sp.bytes();
      await cli.output.result(
        { ...report, before, after },
        () =>
          `${formatBytes(before)} before, ${formatBytes(after)} after. Freed: ${formatCount(report.items, "item")}, ${formatCount(report.blobs, "blob")}.`,
      );
    } finally {
      bar.stop();
    }
  },
});
