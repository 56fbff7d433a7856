/** The driver: the package `pg`, loaded when a store is first opened, with structural types of the parts that are used. */
import { SavepointError } from "../../errors.js";
import { loadPackage } from "../../util/index.js";

/** A parameter of a statement. */
export type PostgresValue = string | number | null | Uint8Array;

export interface PostgresResult {
  readonly rows: unknown[];
  readonly rowCount: number | null;
}

/** A statement. With a name, it is prepared once for each connection. */
export interface Statement {
  readonly name?: string;
  readonly text: string;
  readonly values: readonly PostgresValue[];
}

/** The part of a pool that Savepoint uses. A `Pool` of `pg` implements it. */
export interface PostgresPool {
  query(statement: Statement): Promise<PostgresResult>;
  connect(): Promise<PostgresClient>;
  end(): Promise<void>;
  on(event: "error", listener: (error: Error) => void): unknown;
  on(event: "acquire", listener: (client: PostgresClient) => void): unknown;
  off(event: "error", listener: (error: Error) => void): unknown;
  off(event: "acquire", listener: (client: PostgresClient) => void): unknown;
  /** The maximum number of connections; 10 by default, as in `pg`. */
  readonly options?: { readonly max?: number | undefined };
}

/** A connection of a pool. */
export interface PostgresClient {
  query(statement: Statement): Promise<PostgresResult>;
  query(sql: string, values?: readonly PostgresValue[]): Promise<PostgresResult>;
  /** @param broken whether the pool must not use the connection again */
  release(broken?: boolean): void;
  on(event: "notification", listener: (message: { readonly payload?: string | undefined }) => void): unknown;
  on(event: "error" | "end", listener: (error?: Error) => void): unknown;
  off(event: "error" | "end", listener: (error?: Error) => void): unknown;
}

interface Driver {
  readonly Pool: new (config: Record<string, unknown>) => PostgresPool;
}

const PACKAGE = "pg";

/** Creates a pool. Connections are opened when they are needed. */
export async function openPool(url: string, connections: number): Promise<PostgresPool> {
  const { Pool } = await loadDriver();
  return new Pool({
    connectionString: url,
    max: connections,
    application_name: "savepoint",
    // So that a caller does not wait forever for a network that drops packets.
    connectionTimeoutMillis: 10_000,
    keepAlive: true,
  });
}

async function loadDriver(): Promise<Driver> {
  try {
    const module = (await loadPackage(PACKAGE)) as Driver | { readonly default: Driver };
    return "default" in module ? module.default : module;
  } catch (cause) {
    throw new SavepointError(
      "MISSING_DEPENDENCY",
      `PostgreSQL stores require the package ${PACKAGE}, which could not be loaded. Run: npm install ${PACKAGE}@8`,
      { cause },
    );
  }
}
