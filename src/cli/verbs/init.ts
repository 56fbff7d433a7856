import { mkdir, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { isSavepointError } from "../../index.js";
import { usageError } from "../errors.js";
import { defineVerb } from "../verb.js";

const FOLDER = ".savepoint";

export const init = defineVerb({
  name: "init",
  group: "Set up",
  summary: "create a store, by default in this folder",
  examples: [
    ["savepoint init", `in the folder ${FOLDER}`],
    ["savepoint init --store file:./agents", "a store of plain files at another place"],
  ],
  declare() {},
  async run(cli) {
    // An empty SAVEPOINT_URL counts as unset.
    const url = cli.storeUrl ?? (cli.io.env["SAVEPOINT_URL"] || undefined);
    if (url !== undefined && /^memory:|:memory:$/.test(url)) {
      throw usageError("A store in memory ends with this command. Name a store on disk or a database.");
    }
    if (url === undefined) await createFolder(cli.resolvePath(FOLDER));
    let created = false;
    const sp = await cli.open().catch(async (error: unknown) => {
      if (!isSavepointError(error, "STORE_NOT_FOUND")) throw error;
      created = true;
      return cli.open({});
    });
    await cli.output.result({ store: sp.url, created }, () =>
      created ? `Created the store ${sp.url}` : `The store exists already: ${sp.url}`,
    );
    const call = url === undefined ? "Savepoint.open()" : `Savepoint.open(${JSON.stringify(url)})`;
    if (created) cli.output.note(`To open it in a program: await ${call}`);
  },
});

/** Creates the folder in which stores are found from this folder and its subfolders. */
async function createFolder(folder: string): Promise<void> {
  if (await stat(folder).catch(() => undefined)) return;
  await mkdir(folder, { mode: 0o700 });
  // Stores rarely belong into a repository.
  await writeFile(join(folder, ".gitignore"), "*\n", { mode: 0o600, flag: "wx" });
}
