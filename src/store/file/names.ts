/**
 * The names of files. They are chosen so that no two tapes share one, whatever their names are and whatever the file
 * system thinks of upper and lower case, of dots, or of names like `con`.
 */
import { createHash } from "node:crypto";

/** Where records are that were written without items. */
export const RECORDS_FILE = "records";

const PLAIN = /[a-z0-9-]/;
/** File systems allow 255 bytes; the rest is for the extension. */
const MAX_NAME = 200;

/** The file of a tape, without its extension. */
export function tapeFileName(tape: string): string {
  let name = "t-";
  for (const byte of Buffer.from(tape)) {
    const character = String.fromCharCode(byte);
    name += PLAIN.test(character) ? character : `%${byte.toString(16).padStart(2, "0")}`;
  }
  if (name.length <= MAX_NAME) return name;
  return `h-${createHash("sha256").update(tape).digest("hex")}`;
}
