/**
 * URIs of what is stored. Ids are arbitrary texts and are percent-encoded, so that one is always one part of the path.
 * `.` and `..` would be taken for folders even then, and get a `~` before them.
 */
import { SavepointError } from "../index.js";

export const SCHEME = "savepoint://";

/** @param parts fixed names and ids, in turn: `toUri("sessions", "a/b")` is `savepoint://sessions/a%2Fb` */
export function toUri(...parts: readonly string[]): string {
  return SCHEME + parts.map(encodePart).join("/");
}

export function decodeUriPart(part: string | readonly string[] | undefined): string {
  const text = String(part);
  if (text === "~." || text === "~..") return text.slice(1);
  try {
    return decodeURIComponent(text);
  } catch {
    throw new SavepointError("INVALID_ID", `${JSON.stringify(text)} is not percent-encoded UTF-8. Encode the id anew.`);
  }
}

function encodePart(part: string): string {
  return part === "." || part === ".." ? `~${part}` : encodeURIComponent(part).replace(/^~/, "%7E");
}
