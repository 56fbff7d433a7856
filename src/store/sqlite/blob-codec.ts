/** How a blob's bytes are kept: as they are, so far. */
import { hashBytes } from "../../state/clone.js";
import type { Unreadable } from "../store.js";
import { RAW } from "./compression.js";

/** A blob's hash is its checksum. */
export function readBlob(hash: string, codec: number, body: Uint8Array): Uint8Array | Unreadable {
  if (codec !== RAW)
    return { unreadable: `blob ${hash} is packed in a way (${codec}) that this version does not know` };
  return body instanceof Uint8Array && hashBytes(body) === hash ? body : { unreadable: `blob ${hash} is damaged` };
}
