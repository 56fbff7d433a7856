// What the benchmarks use of Savepoint's inside. It comes from the build, as users run it, and its types from the sources.
/** @type {typeof import("../../scripts/internals.js")} */
const internals = await import(new URL("../../dist/internals.js", import.meta.url).href);

export const {
  ClassRegistry,
  driverModule,
  encodeShadow,
  newShadow,
  openDatabase,
  openPostgresStore,
  reviseShadow,
  rowsOf,
} = internals;
