import { isSavepointError } from "../../index.js";
import { EXIT } from "../exit-codes.js";
import { usage } from "../failure.js";
import { pathOfStore, resolveUrl } from "../store-path.js";
import { clean, count } from "../text.js";
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
        migrated ? `${clean(sp.url)} was brought up to date from format ${from}.` : `${clean(sp.url)} is up to date.`,
      );
    }
    const to = resolveUrl(target, cli.io.cwd);
    const path = pathOfStore(to);
    if (to === sp.url || (path !== undefined && path === pathOfStore(sp.url))) throw usage("That is the same store.");
    if (/^memory:|:memory:$/.test(to)) throw usage("What is in memory is gone when this command ends.");
    const { Savepoint } = await import("../../index.js");
    const other = await Savepoint.open(to);
    const bar = cli.progress({ doing: "Copying", unit: "checkpoints", total: (await sp.stats()).checkpoints });
    try {
      const bundle = sp.export({}, { onProgress: (progress) => bar.update(progress.checkpoints) });
      const done = await other.import(bundle, { existing: "skip" });
      bar.stop();
      await output.result(
        { store: sp.url, to: other.url, ...done },
        () =>
          `Copied ${count(done.sessions, "session")} and ${count(done.conversations, "conversation")} to ${clean(other.url)}; ${count(done.skipped.length, "was", "were")} there already.`,
      );
      for (const hole of done.holes) output.warn(`not copied: ${clean(hole.place)}: ${clean(hole.reason)}`);
      return done.holes.length > 0 ? EXIT.partly : EXIT.ok;
    } finally {
      bar.stop();
      await other.close();
    }
  },
});
