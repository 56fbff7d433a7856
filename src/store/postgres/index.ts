/**
 * The `postgres:` store, which many machines share.
 *
 * Every read and every commit is one statement and a transaction of its own, so nothing stays locked between round trips. A
 * commit whose connection was cut is sent again, and is never applied twice.
 */
export type { PostgresClient, PostgresPool, PostgresResult, PostgresValue, Statement } from "./driver.js";
export type { PostgresOptions, PostgresTarget } from "./options.js";
export { openPostgresStore } from "./store.js";
