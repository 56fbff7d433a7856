/** Checks that a server meets the requirements of Savepoint. */
import { SavepointError } from "../../errors.js";
import { createFailureReporter } from "../contract/index.js";
import type { PostgresConnection } from "./connection.js";
import type { PostgresOptions } from "./options.js";

/** The oldest supported version. */
const MIN_VERSION = 140_000;

/** The settings of a server that Savepoint depends on. */
export interface ServerSettings {
  readonly encoding: string;
  readonly version: string;
  /** `null` if the server has no such setting. */
  readonly fsync: string | null;
  /** `null` if the server has no such setting. */
  readonly sync: string | null;
}

/** The columns that select {@link ServerSettings}. */
export const SERVER_SETTINGS = `pg_catalog.current_setting('server_encoding') AS encoding,
  pg_catalog.current_setting('server_version_num') AS version, pg_catalog.current_setting('fsync', true) AS fsync,
  pg_catalog.current_setting('synchronous_commit', true) AS sync`;

export async function readServerSettings(connection: PostgresConnection): Promise<ServerSettings> {
  const [settings] = await connection.rows<ServerSettings>(`SELECT ${SERVER_SETTINGS}`, [], "Opening");
  return settings as ServerSettings;
}

/** @returns whether the server waits for its disk before it acknowledges a commit, by default */
export function checkServer(url: string, server: ServerSettings, options: PostgresOptions): boolean {
  if (server.encoding !== "UTF8") {
    throw new SavepointError(
      "STORE_FAILED",
      `The database of ${url} has the encoding ${server.encoding}, which cannot store every string. Create a database with: CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0`,
    );
  }
  // Other databases report the version of PostgreSQL that they resemble.
  if (Number(server.version) < MIN_VERSION && options.portable !== true) {
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
