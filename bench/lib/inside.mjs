// What the benchmarks use of Savepoint's inside. It comes from the build, as users run it, and its types from the sources.
const from = (/** @type {string} */ path) => import(new URL(`../../dist/${path}`, import.meta.url).href);

/** @type {typeof import("../../src/store/sqlite/driver.js")} */
const driver = await from("store/sqlite/driver.js");
/** @type {typeof import("../../src/store/postgres/store.js")} */
const postgres = await from("store/postgres/store.js");
/** @type {typeof import("../../src/state/tree/revision.js")} */
const revise = await from("state/tree/revision.js");
/** @type {typeof import("../../src/state/codec/encode.js")} */
const encode = await from("state/codec/encode.js");
/** @type {typeof import("../../src/state/tree/class-registry.js")} */
const registry = await from("state/tree/class-registry.js");
/** @type {typeof import("../../src/records/checkpoint-row.js")} */
const rows = await from("records/checkpoint-row.js");

export const { openDatabase, driverModule } = driver;
export const { openPostgresStore } = postgres;
export const { newShadow, reviseShadow } = revise;
export const { encodeShadow } = encode;
export const { ClassRegistry } = registry;
export const { rowsOf } = rows;
