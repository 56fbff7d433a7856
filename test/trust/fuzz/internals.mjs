/** What the fuzzer needs of the library's inside: the codecs of the stores, so that every checksum fits after a change. */

/** @param {string} path */
const load = (path) => import(new URL(`../../../dist/${path}`, import.meta.url).href);

/** @type {typeof import("../../../src/store/sqlite/driver.js")} */
export const { openDatabase } = await load("store/sqlite/driver.js");
/** @type {typeof import("../../../src/store/sqlite/buffer-codec.js")} */
export const { encodeCommit, decodeCommit } = await load("store/sqlite/buffer-codec.js");
/** @type {typeof import("../../../src/store/chunks/chunk-codec.js")} */
export const { packChunk, unpackChunk } = await load("store/chunks/chunk-codec.js");
/** @type {typeof import("../../../src/store/shared/index.js")} */
export const { checksum } = await load("store/shared/index.js");
/** @type {typeof import("../../../src/store/file/lines.js")} */
export const { encodeLine, encodeValueLine, parseLine } = await load("store/file/lines.js");
/** @type {typeof import("../../../src/records/keys.js")} */
export const { decodeNumbers, encodeNumber } = await load("records/keys.js");
