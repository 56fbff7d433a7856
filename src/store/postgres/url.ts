/** Parses the URL of a PostgreSQL store into the parts for the server, for Savepoint, and for messages. */
import { SavepointError } from "../../errors.js";

export interface PostgresUrl {
  /** The URL for `pg`. */
  readonly connectionString: string;
  /** The URL for messages: without the password. */
  readonly displayUrl: string;
  /** The parameter `schema`. */
  readonly schema: string | undefined;
  /** The parameter `portable`. */
  readonly portable: boolean | undefined;
}

export function parsePostgresUrl(url: string): PostgresUrl {
  const parsed = parse(url);
  const schema = parsed.searchParams.get("schema") ?? undefined;
  const portable = parsePortable(parsed.searchParams.get("portable"));
  for (const name of ["schema", "portable"]) parsed.searchParams.delete(name);
  const { protocol, username, host, pathname } = parsed;
  const user = username === "" ? "" : `${username}@`;
  const where = schema === undefined ? "" : `?schema=${encodeURIComponent(schema)}`;
  const displayUrl = `${protocol}//${user}${host}${pathname}${where}`;
  return { connectionString: parsed.href, displayUrl, schema, portable };
}

function parsePortable(value: string | null): boolean | undefined {
  if (value === null) return undefined;
  if (value === "true" || value === "false") return value === "true";
  throw new SavepointError(
    "INVALID_URL",
    `The parameter "portable" of the URL of a PostgreSQL store must be true or false, got ${JSON.stringify(value)}.`,
  );
}

function parse(url: string): URL {
  const example = `"postgres://user@host:5432/database"`;
  let parsed: URL;
  try {
    parsed = new URL(url);
  } catch {
    // The URL, and so the cause, may contain a password.
    throw new SavepointError(
      "INVALID_URL",
      `The URL of the PostgreSQL store is invalid. Expected ${example}; characters such as @, / and # in a password are written as %40, %2F, %23.`,
    );
  }
  if (parsed.pathname.length < 2) {
    throw new SavepointError("INVALID_URL", `The URL of the PostgreSQL store names no database. Expected ${example}.`);
  }
  // If a password contains a slash, the part after it would be taken for the database and shown in messages.
  if (parsed.pathname.includes("@")) {
    throw new SavepointError(
      "INVALID_URL",
      `The URL of the PostgreSQL store has an @ in the name of its database. Expected ${example}; @ and / must be written as %40 and %2F, even in a password.`,
    );
  }
  return parsed;
}
