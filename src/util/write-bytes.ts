import { writeSync } from "node:fs";

/** Writes all bytes at the end or the current position of the file. On a full disk, a part may be written before it fails. */
export function writeBytes(file: number, bytes: Buffer): void {
  for (let written = 0; written < bytes.length;) {
    written += writeSync(file, bytes, written, bytes.length - written);
  }
}
