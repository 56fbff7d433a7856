export type { PostgresClient, PostgresPool, PostgresResult, PostgresValue, Statement } from "./driver.js";
export type { PostgresOptions, PostgresTarget } from "./options.js";
export { openPostgresStore } from "./store.js";
