/** What a server must be like to keep what Savepoint promises. */
import { SavepointError } from "../../errors.js";
import { createFailureReporter } from "../contract/index.js";
import type { Connection } from "./connection.js";
import type { PostgresOptions } from "./options.js";

/** The oldest version that is tried. */
const OLDEST = 140_000;

/** @returns whether it waits for its disk before it answers a commit, unless it is told otherwise */
export async function checkServer(connection: Connection, options: PostgresOptions): Promise<boolean> {
  const [server] = await connection.rows<{ encoding: string; version: string; fsync: string; sync: string }>(
    `SELECT current_setting('server_encoding') AS encoding, current_setting('server_version_num') AS version,
       current_setting('fsync', true) AS fsync, current_setting('synchronous_commit') AS sync`,
    [],
    "Opening",
  );
  const { url } = connection;
  if (server?.encoding !== "UTF8") {
    throw new SavepointError(
      "STORE_FAILED",
      `The database of ${url} has the encoding ${server?.encoding}, in which not every text can be saved. Create one with: CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0`,
    );
  }
  if (Number(server.version) < OLDEST) {
    throw new SavepointError(
      "STORE_FAILED",
      `The server of ${url} has version ${server.version}, and Savepoint needs PostgreSQL 14 or later.`,
    );
  }
  if (server.fsync === "off" && options.durability !== "process") {
    const message = `the server of ${url} runs with fsync = off, so what is saved may be lost when its machine fails`;
    createFailureReporter(options)(
      message,
      new SavepointError("STORE_FAILED", 'fsync is off: set it to on, or open with durability: "process".'),
    );
  }
  return server.sync !== "off";
}
