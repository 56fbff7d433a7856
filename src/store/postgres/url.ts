/** The URL of a PostgreSQL store: what is for the server, what is for Savepoint, and what may be shown. */
import { SavepointError } from "../../errors.js";

export interface PostgresUrl {
  /** What `pg` is given. */
  readonly connectionString: string;
  /** What messages show: never a password. */
  readonly displayUrl: string;
  /** What the URL says of the schema. */
  readonly schema: string | undefined;
}

export function parsePostgresUrl(url: string): PostgresUrl {
  const parsed = parse(url);
  const schema = parsed.searchParams.get("schema") ?? undefined;
  parsed.searchParams.delete("schema");
  const { protocol, username, host, pathname } = parsed;
  const user = username === "" ? "" : `${username}@`;
  const where = schema === undefined ? "" : `?schema=${encodeURIComponent(schema)}`;
  return { connectionString: parsed.href, displayUrl: `${protocol}//${user}${host}${pathname}${where}`, schema };
}

function parse(url: string): URL {
  const example = `"postgres://user:password@host:5432/database"`;
  let parsed: URL;
  try {
    parsed = new URL(url);
  } catch {
    // What was given may contain a password, and so may the error.
    throw new SavepointError(
      "INVALID_URL",
      `The URL of the PostgreSQL store cannot be read. Write ${example}; characters such as @, / and # in a password are written as %40, %2F, %23.`,
    );
  }
  if (parsed.pathname.length < 2) {
    throw new SavepointError("INVALID_URL", `The URL of the PostgreSQL store names no database. Write ${example}.`);
  }
  // Of a password with a slash in it, the part behind that would be taken for the database, and shown.
  if (parsed.pathname.includes("@")) {
    throw new SavepointError(
      "INVALID_URL",
      `The URL of the PostgreSQL store has an @ in the name of its database. Write ${example}; @ and / are written as %40 and %2F, also in a password.`,
    );
  }
  return parsed;
}
