/** What the benchmarks and the fuzzer use of the library's inside. The build makes `dist/internals.js` of it, which is not published. */
export { encryptStore, openDataKeys, parseKeyRing } from "../src/encryption/index.js";
export { rowsOf } from "../src/records/checkpoint-row.js";
export { decodeNumbers, encodeNumber } from "../src/records/keys.js";
export { encodeShadow } from "../src/state/codec/encode.js";
export { ClassRegistry } from "../src/state/tree/class-registry.js";
export { newShadow, reviseShadow } from "../src/state/tree/revision.js";
export { packChunk, unpackChunk } from "../src/store/chunks/chunk-codec.js";
export { encodeLine, encodeValueLine, parseLine } from "../src/store/file/lines.js";
export { openPostgresStore } from "../src/store/postgres/store.js";
export { checksum } from "../src/store/shared/index.js";
export { decodeCommit, encodeCommit } from "../src/store/sqlite/buffer-codec.js";
export { driverModule, openDatabase } from "../src/store/sqlite/driver.js";
