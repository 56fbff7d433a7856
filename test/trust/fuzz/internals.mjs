/** What the fuzzer needs of the library's inside: the codecs of the stores, so that every checksum fits after a change. */

/** @type {typeof import("../../../scripts/internals.js")} */
const internals = await import(new URL("../../../dist/internals.js", import.meta.url).href);

export const {
  checksum,
  decodeCommit,
  decodeNumbers,
  encodeCommit,
  encodeLine,
  encodeNumber,
  encodeValueLine,
  openDatabase,
  packChunk,
  parseLine,
  unpackChunk,
} = internals;
