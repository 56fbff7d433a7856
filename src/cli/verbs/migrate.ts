import { isSavepointError } from "../../index.js";
import { usageError } from "../errors.js";
import { formatCount } from "../format.js";
import { warnHoles } from "../holes.js";
import { resolveStoreUrl, storePath } from "../store-path.js";
import { defineVerb } from "../verb.js";

export const migrate = defineVerb<{ readonly to?: string }>({
  name: "migrate",
  group: "Set up",
  summary: "upgrade the store to the current format, or copy it to another store",
  examples: [
    ["savepoint migrate", "after an update of the package"],
    ["savepoint migrate --to file:./agents", "copy to another store; after an interruption, repeat it to continue"],
  ],
  declare(command) {
    command.option("--to <url>", "the store to copy to; it is created if it does not exist");
  },
  async run(cli, _, { to: target }) {
    let from: number | undefined;
    const sp = await cli.open().catch(async (error: unknown) => {
      if (!isSavepointError(error, "STORE_TOO_OLD")) throw error;
      from = Number(error.details["found"]);
      return cli.open({});
    });
    const { output } = cli;
    if (target === undefined) {
      const migrated = from !== undefined;
      return output.result({ store: sp.url, migrated, from }, () =>
        migrated ? `Upgraded ${sp.url} from format ${from}.` : `${sp.url} is up to date.`,
      );
    }
    const to = resolveStoreUrl(target, cli.io.cwd);
    const path = storePath(to);
    if (to === sp.url || (path !== undefined && path === storePath(sp.url))) {
      throw usageError("--to names the store itself. Name another store.");
    }
    if (/^memory:|:memory:$/.test(to)) {
      throw usageError("A store in memory ends with this command. Name a store on disk or a database.");
    }
    const { Savepoint } = await import("../../index.js");
    const other = await Savepoint.open(to, await cli.readKeys());
    try {
      const { checkpoints } = await sp.stats();
      const progress = { label: "Copying", unit: "checkpoints", total: checkpoints } as const;
      const result = await cli.withProgress(progress, (onProgress) =>
        other.import(sp.export({}, { onProgress }), { existing: "skip" }),
      );
      await output.result(
        { store: sp.url, to: other.url, ...result },
        () =>
          `Copied ${formatCount(result.sessions, "session")} and ${formatCount(result.conversations, "conversation")} to ${other.url}; ${result.skipped.length.toLocaleString("en-US")} existed already.`,
      );
      return warnHoles(output, "not copied", result.holes);
    } finally {
      await other.close();
    }
  },
});
