/** Checks that a server meets the requirements of Savepoint. */
import { SavepointError } from "../../errors.js";
import { createFailureReporter } from "../contract/index.js";
import type { PostgresConnection } from "./connection.js";
import type { PostgresOptions } from "./options.js";

/** The oldest supported version. */
const MIN_VERSION = 140_000;

/** @returns whether the server waits for its disk before it acknowledges a commit, by default */
export async function checkServer(connection: PostgresConnection, options: PostgresOptions): Promise<boolean> {
  const [server] = await connection.rows<{ encoding: string; version: string; fsync: string; sync: string }>(
    `SELECT pg_catalog.current_setting('server_encoding') AS encoding, pg_catalog.current_setting('server_version_num') AS version,
       pg_catalog.current_setting('fsync', true) AS fsync, pg_catalog.current_setting('synchronous_commit') AS sync`,
    [],
    "Opening",
  );
  const { url } = connection;
  if (server?.encoding !== "UTF8") {
    throw new SavepointError(
      "STORE_FAILED",
      `The database of ${url} has the encoding ${server?.encoding}, which cannot store every string. Create a database with: CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0`,
    );
  }
  if (Number(server.version) < MIN_VERSION) {
    throw new SavepointError(
      "STORE_FAILED",
      `The server of ${url} has version ${server.version}, and Savepoint requires PostgreSQL 14 or later. Upgrade the server.`,
    );
  }
  if (server.fsync === "off" && options.durability !== "process" && options.readOnly !== true) {
    const message = `the server of ${url} runs with fsync = off, so saves may be lost when its machine fails`;
    createFailureReporter(options)(
      message,
      new SavepointError("STORE_FAILED", 'fsync is off: set it to on, or open with durability: "process".'),
    );
  }
  return server.sync !== "off";
}
