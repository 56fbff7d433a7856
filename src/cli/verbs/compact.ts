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
    const { sessions } = await sp.stats();
    const progress = { label: "Compacting", unit: "sessions", total: sessions } as const;
    const report = await cli.withProgress(progress, (onProgress) => sp.compact({ onProgress }));
    const after = await sp.bytes();
    await cli.output.result(
      { ...report, before, after },
      () =>
        `${formatBytes(before)} before, ${formatBytes(after)} after. Freed ${formatCount(report.items, "item")} and ${formatCount(report.blobs, "blob")}.`,
    );
  },
});
