import { mkdir, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { isSavepointError } from "../../index.js";
import { usageError } from "../errors.js";
import { sanitize } from "../terminal-text.js";
import { defineVerb } from "../verb.js";

const FOLDER = ".savepoint";

export const init = defineVerb({
  name: "init",
  group: "Set up",
  summary: "make a store here, which programs and this command find by themselves",
  examples: [
    ["savepoint init", `in ${FOLDER}, in this folder`],
    ["savepoint init --store file:./agents", "of plain files, somewhere else"],
  ],
  declare() {},
  async run(cli) {
    // An empty variable names none.
    const named = cli.storeUrl ?? (cli.io.env["SAVEPOINT_URL"] || undefined);
    if (named !== undefined && /^memory:|:memory:$/.test(named)) {
      throw usageError("What is in memory is gone when this command ends: there is nothing to make.");
    }
    if (named === undefined) await makeFolder(cli.resolvePath(FOLDER));
    let created = false;
    const sp = await cli.open().catch(async (error: unknown) => {
      if (!isSavepointError(error, "STORE_NOT_FOUND")) throw error;
      created = true;
      return cli.open({});
    });
    await cli.output.result({ store: sp.url, created }, () =>
      created ? `Made a store: ${sanitize(sp.url)}` : `There is a store already: ${sanitize(sp.url)}`,
    );
    const how = named === undefined ? "Savepoint.open()" : `Savepoint.open(${JSON.stringify(named)})`;
    if (created) cli.output.note(`Programs open it with: await ${sanitize(how)}`);
  },
});

/** Where it is, it is found; also by those who look upwards from a folder further down. */
async function makeFolder(folder: string): Promise<void> {
  if (await stat(folder).catch(() => undefined)) return;
  await mkdir(folder);
  // What agents work on seldom belongs into a repository.
  await writeFile(join(folder, ".gitignore"), "*\n");
}
