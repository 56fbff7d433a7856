/** PostgreSQL itself, through `pg`: loaded when it is first needed, and typed by what is used of it. */
import { SavepointError } from "../../errors.js";

/** A value that `pg` sends: bytes go as they are. */
export type PostgresValue = string | number | null | Uint8Array;

export interface PostgresResult {
  readonly rows: unknown[];
  readonly rowCount: number | null;
}

/** A statement, which the server may keep prepared if it has a name. */
export interface Statement {
  readonly name?: string;
  readonly text: string;
  readonly values: PostgresValue[];
}

/** What Savepoint needs of a pool. A `Pool` of `pg` has it. */
export interface PostgresPool {
  query(statement: Statement): Promise<PostgresResult>;
  connect(): Promise<PostgresClient>;
  end(): Promise<void>;
  on(event: "error", listener: (error: Error) => void): unknown;
  on(event: "acquire", listener: (client: PostgresClient) => void): unknown;
  off(event: "error", listener: (error: Error) => void): unknown;
  /** How many connections it has at most; `pg` has 10 where nothing is said. */
  readonly options?: { readonly max?: number | undefined };
}

/** A connection of a pool. */
export interface PostgresClient {
  query(statement: Statement): Promise<PostgresResult>;
  query(sql: string, values?: PostgresValue[]): Promise<PostgresResult>;
  /** @param broken do not use it again */
  release(broken?: boolean): void;
  on(event: "notification", listener: (message: { readonly payload?: string | undefined }) => void): unknown;
  on(event: "error" | "end", listener: (error?: Error) => void): unknown;
  off(event: "error" | "end", listener: (error?: Error) => void): unknown;
}

interface Driver {
  readonly Pool: new (config: Record<string, unknown>) => PostgresPool;
}

const PACKAGE = "pg";

/** Opens a pool. No connection is made before it is needed. */
export async function openPool(url: string, connections: number): Promise<PostgresPool> {
  const { Pool } = await loadDriver();
  return new Pool({
    connectionString: url,
    max: connections,
    application_name: "savepoint",
    // A network that swallows packets must not hold a caller for ever.
    connectionTimeoutMillis: 10_000,
    keepAlive: true,
  });
}

async function loadDriver(): Promise<Driver> {
  try {
    const module = (await import(PACKAGE)) as { default: Driver };
    return module.default;
  } catch (cause) {
    throw new SavepointError(
      "MISSING_DEPENDENCY",
      `PostgreSQL stores need the package ${PACKAGE}, and it could not be loaded. Run: npm install ${PACKAGE}@8`,
      { cause },
    );
  }
}
