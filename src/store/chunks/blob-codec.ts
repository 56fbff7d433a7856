/** How a blob's bytes are kept: compressed where that pays. */
import { hashBytes } from "../../state/index.js";
import type { Unreadable } from "../contract/index.js";
import { decompress } from "./compression.js";

/** A blob's hash is its checksum: that of its bytes as they were given. */
export function readBlob(hash: string, codec: number, body: Uint8Array): Uint8Array | Unreadable {
  if (!(body instanceof Uint8Array)) return { unreadable: `blob ${hash} is damaged` };
  const bytes = decompress(codec, body);
  if ("unreadable" in bytes) return { unreadable: `blob ${hash} is damaged: it ${bytes.unreadable}` };
  return hashBytes(bytes) === hash ? bytes : { unreadable: `blob ${hash} is damaged` };
}
