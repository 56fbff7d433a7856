/** JSON pointers (RFC 6901), and linked paths, from which a pointer is built only when it is needed. */
import { invalidArgument } from "../../util/index.js";

/** The path of a part of a state: its key, and the path of its parent. `undefined` is the root. */
export interface Path {
  readonly parent: Path | undefined;
  readonly key: string | number;
}

export function pathToPointer(path: Path | undefined): string {
  const keys: (string | number)[] = [];
  for (let at = path; at; at = at.parent) keys.push(at.key);
  return keys.reverse().map(escapeToken).join("");
}

/** The number of keys in a path. */
export function depthOfPath(path: Path | undefined): number {
  let depth = 0;
  for (let at = path; at; at = at.parent) depth++;
  return depth;
}

export function joinPointer(pointer: string, key: string | number): string {
  return pointer + escapeToken(key);
}

/** The keys of a pointer. Throws `INVALID_ARGUMENT` if the string is not a pointer. */
export function parsePointer(pointer: string): string[] {
  if (pointer === "") return [];
  if (!pointer.startsWith("/") || /~(?![01])/.test(pointer)) {
    throw invalidArgument(
      `${JSON.stringify(pointer)} is not a JSON pointer. Write it like "/messages" or "/files/a~1b".`,
    );
  }
  const tokens = pointer.slice(1).split("/");
  return tokens.map((token) => token.replaceAll("~1", "/").replaceAll("~0", "~"));
}

function escapeToken(key: string | number): string {
  return `/${String(key).replaceAll("~", "~0").replaceAll("/", "~1")}`;
}
