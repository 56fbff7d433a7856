/** The hash of bytes. */
import { createHash } from "node:crypto";

/** The hash under which bytes are stored: SHA-256, in hexadecimal. */
export function hashBytes(bytes: Uint8Array): string {
  return createHash("sha256").update(bytes).digest("hex");
}
