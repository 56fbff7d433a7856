import { randomBytes, randomUUID } from "node:crypto";
import { existsSync } from "node:fs";
import { open, readFile, rename, rm } from "node:fs/promises";
import { platform } from "node:os";
import { dirname } from "node:path";
import { usageError } from "../errors.js";
import { quote } from "../format.js";
import { quoteForShell } from "../shell.js";
import { defineVerb } from "../verb.js";

const KEY_BYTES = 32;
const PRIVATE_MODE = 0o600;

export const keygen = defineVerb<{ readonly name?: string }>({
  name: "keygen",
  group: "Set up",
  summary: "create an encryption key, or add a new one to a key file",
  examples: [
    ["savepoint keygen ~/agents.keys", "creates the file, or makes a new key the current one of an existing file"],
    ["savepoint keygen", "print a line of a key file"],
  ],
  declare(command) {
    command
      .argument("[file]", "the key file; without it, the key is printed")
      .option("--name <name>", "the name of the key, for people (default: today's date)");
  },
  async run(cli, [file], { name = new Date().toISOString().slice(0, 10) }) {
    if (!/^[^\s#]\S*$/.test(name)) throw usageError("--name must be a word that does not begin with #.");
    const key = randomBytes(KEY_BYTES).toString("base64");
    if (file === undefined) return cli.output.result({ name, key }, () => `${name} ${key}`);
    const path = cli.resolvePath(file);
    const isNew = !existsSync(path);
    const { readKeyFile } = await import("../../index.js");
    if (!isNew && name in (await readKeyFile(path)).keys) {
      throw usageError(`The file has a key with the name ${quote(name)}. Name the new key with --name.`);
    }
    await replaceFile(path, `${name} ${key}\n${isNew ? "" : await readFile(path, "utf8")}`);
    await cli.output.result({ file: path, name }, () =>
      isNew
        ? `Created the key ${quote(name)} in ${path}. If the file is lost, the stores that it encrypts cannot be read any more: keep a copy elsewhere.`
        : `Added the key ${quote(name)} to ${path}. It is the current one now.`,
    );
    cli.output.note(
      isNew
        ? `To use it: export SAVEPOINT_KEY_FILE=${quoteForShell(path)}`
        : 'To use it for existing sessions too: restart the programs that use the file, then run "savepoint rekey"',
    );
  },
});

/** Replaces a file, or creates it, so that a crash leaves the old file or the new one, and only the user can read it. */
async function replaceFile(path: string, text: string): Promise<void> {
  const temporary = `${path}.${randomUUID()}`;
  try {
    await writeAndSync(temporary, text);
    await rename(temporary, path);
  } finally {
    await rm(temporary, { force: true });
  }
  // Windows cannot open folders.
  if (platform() === "win32") return;
  const folder = await open(dirname(path), "r");
  try {
    await folder.sync();
  } finally {
    await folder.close();
  }
}

async function writeAndSync(path: string, text: string): Promise<void> {
  const file = await open(path, "wx", PRIVATE_MODE);
  try {
    await file.writeFile(text);
    await file.sync();
  } finally {
    await file.close();
  }
}
