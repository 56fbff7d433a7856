/**
 * The names of blobs in bundles. A bundle names a blob by the SHA-256 of its bytes, as a plain store does. An encrypted store names it by
 * that of its encrypted bytes. So references are rewritten when a bundle is written and when it is read.
 */
import type { Context } from "../context.js";
import { renameBlobsInBranch } from "../records/index.js";
import { hashBytes, renameBlobs } from "../state/index.js";
import { type BundleFrame, type BundleLine, damagedBundle, type SectionStart } from "./format.js";

/** New names by old ones. Names without a new one stay as they are: those of missing blobs, and all if both sides use the same names. */
export type BlobNames = ReadonlyMap<string, string>;

/** A blob of a bundle, under the name that it has in this store. */
export interface NamedBlob {
  readonly hash: string;
  readonly bytes: Uint8Array;
}

/** Decodes a line with a blob, and remembers the name of the blob in this store. @throws DAMAGED if it was changed */
export function readBlob(
  { registry }: Context,
  { blob, bytes: base64 }: Extract<BundleLine, { blob: string }>,
  names: Map<string, string>,
): NamedBlob {
  const bytes = Buffer.from(base64, "base64");
  if (hashBytes(bytes) !== blob) throw damagedBundle(`blob ${blob} was changed`);
  const hash = registry.nameBlob(bytes);
  if (hash !== blob) names.set(blob, hash);
  return { hash, bytes };
}

/** The line with other names for the blobs that it references. */
export function renameInLine(line: BundleLine, names: BlobNames): BundleLine;
export function renameInLine(line: SectionStart | BundleLine, names: BlobNames): SectionStart | BundleLine;
export function renameInLine(line: SectionStart | BundleLine, names: BlobNames): SectionStart | BundleLine {
  if (names.size === 0) return line;
  const nameOf = (name: string): string => names.get(name) ?? name;
  const rename = (refs: string): string => renameBlobs(refs, nameOf);
  if ("items" in line) {
    const [tape, first, frames] = line.items;
    return {
      items: [tape, first, frames.map(([json, refs]): BundleFrame => (refs ? [json, rename(refs)] : [json]))],
    };
  }
  if ("row" in line) return line.refs === undefined ? line : { ...line, refs: rename(line.refs) };
  if ("attached" in line) {
    const [seq, name, value, refs] = line.attached;
    return { attached: [seq, name, value, rename(refs)] };
  }
  if ("branch" in line) return { ...line, value: renameBlobsInBranch(line.value, nameOf) };
  return line;
}
