import { formatBytes, formatCount } from "../format.js";
import { defineVerb } from "../verb.js";

export const compact = defineVerb({
  name: "compact",
  group: "Maintain",
  summary: "free unreferenced data, and return the space to the disk",
  examples: [["savepoint compact", "safe while other processes save"]],
  declare() {},
  async run(cli) {
    const sp = await cli.open();
    const before = await sp.bytes();
    const bar = cli.progress({ label: "Compacting", unit: "sessions", total: (await sp.stats()).sessions });
    try {
      const report = await sp.compact({ onProgress: (progress) => bar.update(progress.sessions) });
      bar.stop();
      const after = await sp.bytes();
      await cli.output.result(
        { ...report, before, after },
        () =>
          `${formatBytes(before)} before, ${formatBytes(after)} after. Freed ${formatCount(report.items, "item")} and ${formatCount(report.blobs, "blob")}.`,
      );
    } finally {
      bar.stop();
    }
  },
});
