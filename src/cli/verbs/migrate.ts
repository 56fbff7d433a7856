import { isSavepointError } from "../../index.js";
import { EXIT } from "../exit-codes.js";
import { usageError } from "../errors.js";
import { storePath, resolveStoreUrl } from "../store-path.js";
import { sanitize, formatCount } from "../terminal-text.js";
import { defineVerb } from "../verb.js";

export const migrate = defineVerb<{ readonly to?: string }>({
  name: "migrate",
  group: "Set up",
  summary: "bring the store to the format of this version, or everything to another store",
  examples: [
    ["savepoint migrate", "after an update of the package"],
    ["savepoint migrate --to file:./agents", "copy everything to another store; once more goes on"],
  ],
  declare(command) {
    command.option("--to <url>", "another store, which is made if it is not there");
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
        migrated
          ? `${sanitize(sp.url)} was brought up to date from format ${from}.`
          : `${sanitize(sp.url)} is up to date.`,
      );
    }
    const to = resolveStoreUrl(target, cli.io.cwd);
    const path = storePath(to);
    if (to === sp.url || (path !== undefined && path === storePath(sp.url)))
      throw usageError("That is the same store.");
    if (/^memory:|:memory:$/.test(to)) throw usageError("What is in memory is gone when this command ends.");
    const { Savepoint } = await import("../../index.js");
    const other = await Savepoint.open(to);
    const bar = cli.progress({ label: "Copying", unit: "checkpoints", total: (await sp.stats()).checkpoints });
    try {
      const bundle = sp.export({}, { onProgress: (progress) => bar.update(progress.checkpoints) });
      const done = await other.import(bundle, { existing: "skip" });
      bar.stop();
      await output.result(
        { store: sp.url, to: other.url, ...done },
        () =>
          `Copied ${formatCount(done.sessions, "session")} and ${formatCount(done.conversations, "conversation")} to ${sanitize(other.url)}; ${formatCount(done.skipped.length, "was", "were")} there already.`,
      );
      for (const hole of done.holes) output.warn(`not copied: ${sanitize(hole.place)}: ${sanitize(hole.reason)}`);
      return done.holes.length > 0 ? EXIT.partly : EXIT.ok;
    } finally {
      bar.stop();
      await other.close();
    }
  },
});
