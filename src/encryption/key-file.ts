/** Key files: the keys of encrypted stores as text, for the command line and for programs. */
import { constants, type Stats } from "node:fs";
import { open } from "node:fs/promises";
import { SavepointError } from "../errors.js";
import type { EncryptionOptions } from "./key-ring.js";
import { KEY_BYTES } from "./master-key.js";

const MAX_BYTES = 1_048_576;
const LINE = /^(\S+)[ \t]+([A-Za-z0-9+/]+={0,2})$/;

/**
 * Reads a key file: one key per line, its name and 32 bytes in base64. The first key is the current one; the others decrypt what was
 * encrypted before. Empty lines and lines that begin with `#` are ignored. `savepoint keygen` writes such files.
 *
 * @example
 * const sp = await Savepoint.open(url, { encryption: await readKeyFile("/etc/shop/savepoint.keys") });
 *
 * @throws UNSAFE_KEY_FILE if other users can read or write the file, or it belongs to another user; Windows has no such check
 * @throws INVALID_ARGUMENT if it cannot be read, or a line is not a key
 */
export async function readKeyFile(path: string): Promise<Extract<EncryptionOptions, { readonly keys: object }>> {
  const keys: Record<string, Uint8Array> = Object.create(null) as Record<string, Uint8Array>;
  let current: string | undefined;
  const lines = (await readPrivateFile(path)).split("\n");
  for (const [index, line] of lines.entries()) {
    const text = line.trim();
    if (text === "" || text.startsWith("#")) continue;
    const [, name, encoded] = LINE.exec(text) ?? [];
    // The message does not contain the line, because it may be a key.
    const reject = (problem: string): never => {
      throw invalidFile(path, `line ${index + 1} ${problem}`);
    };
    if (name === undefined || encoded === undefined) return reject("is not a name, a space, and a key in base64");
    const key = new Uint8Array(Buffer.from(encoded, "base64"));
    if (key.length !== KEY_BYTES) return reject(`has a key of ${key.length} bytes instead of ${KEY_BYTES}`);
    if (name in keys) return reject(`repeats the name ${JSON.stringify(name)}`);
    keys[name] = key;
    current ??= name;
  }
  if (current === undefined) throw invalidFile(path, "it contains no key");
  return { current, keys };
}

async function readPrivateFile(path: string): Promise<string> {
  const flags = constants.O_RDONLY | ((constants.O_NONBLOCK as number | undefined) ?? 0);
  const file = await open(path, flags).catch((cause: unknown) => {
    throw invalidFile(path, (cause as Error).message, cause);
  });
  try {
    const stats = await file.stat();
    if (!stats.isFile()) throw invalidFile(path, "it is not a regular file");
    if (stats.size > MAX_BYTES)
      throw invalidFile(path, `it has ${stats.size} bytes, which is too large for a key file`);
    requirePrivate(path, stats);
    return await file.readFile("utf8");
  } finally {
    await file.close();
  }
}

function requirePrivate(path: string, { mode, uid }: Stats): void {
  const user = process.geteuid?.();
  // Windows has no user ids and no modes.
  if (user === undefined) return;
  if (mode & 0o077) {
    const octal = (mode & 0o777).toString(8);
    throw unsafeFile(path, `other users can access it (mode ${octal}). Run: chmod 600 ${JSON.stringify(path)}`);
  }
  // A file of root is trusted.
  if (uid !== user && uid !== 0) throw unsafeFile(path, `it belongs to user ${uid}, and you are user ${user}`);
}

function unsafeFile(path: string, reason: string): SavepointError<"UNSAFE_KEY_FILE"> {
  return new SavepointError("UNSAFE_KEY_FILE", `The key file ${path} is not used: ${reason}.`, { details: { path } });
}

function invalidFile(path: string, reason: string, cause?: unknown): SavepointError<"INVALID_ARGUMENT"> {
  return new SavepointError(
    "INVALID_ARGUMENT",
    `The key file ${path} cannot be used: ${reason}. To create one: savepoint keygen ${JSON.stringify(path)}`,
    { details: { path }, ...(cause !== undefined && { cause }) },
  );
}
