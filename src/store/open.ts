/** Opens the store of a URL, a handle or a pool. A driver is loaded only when its store is opened. */
import { SavepointError } from "../errors.js";
import { openMemoryStore } from "./memory/index.js";
import type { PostgresOptions, PostgresPool } from "./postgres/index.js";
import type { SqliteDatabase, SqliteOptions } from "./sqlite/index.js";
import type { Store } from "./contract/index.js";
import { readOnlyView } from "./shared/index.js";

/** The options of all stores. Each store ignores those of the others. */
export type StoreOptions = SqliteOptions & Pick<PostgresOptions, "schema" | "connections" | "patience" | "portable">;

/** The packages that stores load, if they are opened and the runtime has no driver of its own. */
export const DRIVER_PACKAGES: readonly string[] = ["@photostructure/sqlite", "pg"];

const SCHEMES = `"sqlite:./agents.db" (one file), "file:./agents" (a folder of plain files), "postgres://user@host/database", "sqlite::memory:" or "memory:"`;

/** What can be opened: a URL, a store, or a SQLite handle or `pg` pool of the caller, which the caller closes. */
export type OpenTarget = string | Store | SqliteDatabase | PostgresPool;

/**
 * Opens the store of a URL. Throws `INVALID_URL` for an unknown scheme or a missing path.
 *
 * @example
 * const store = await openStore("sqlite:./agents.db", { durability: "process" });
 */
export async function openStore(url: string, options: StoreOptions = {}): Promise<Store> {
  return options.readOnly ? readOnlyView(await openUrl(url, { ...options, create: false })) : openUrl(url, options);
}

async function openUrl(url: string, options: StoreOptions): Promise<Store> {
  const [scheme, rest] = splitUrl(url);
  switch (scheme) {
    case "memory":
      if (rest !== "") throw invalidUrl(url, `"memory:" has no path`);
      return openMemoryStore(options);
    case "sqlite":
      return (await import("./sqlite/index.js")).openSqliteStore(pathOf(url, rest, "file"), options);
    case "file":
      return (await import("./file/index.js")).openFileStore(pathOf(url, rest, "folder"), options);
    case "postgres":
    case "postgresql":
      return (await import("./postgres/index.js")).openPostgresStore(url, options);
    default:
      throw invalidUrl(
        url,
        scheme === undefined
          ? `it has no scheme; for a file, use "sqlite:${withoutPassword(url)}"`
          : `there is no store for "${scheme}:"`,
      );
  }
}

/** Opens a URL, a handle or a pool. A store is returned unchanged, or as a view that rejects writes. */
export async function openTarget(target: OpenTarget, options: StoreOptions): Promise<Store> {
  if (typeof target === "string") return openStore(target, options);
  if (options.readOnly) return readOnlyView(await openHandle(target, { ...options, create: false }));
  return openHandle(target, options);
}

async function openHandle(target: Exclude<OpenTarget, string>, options: StoreOptions): Promise<Store> {
  const value: unknown = target;
  if (typeof value !== "object" || value === null) throw notAStore();
  if ("commit" in target) return target;
  if ("prepare" in target) return (await import("./sqlite/index.js")).openSqliteStore(target, options);
  if (isPostgresPool(target)) return (await import("./postgres/index.js")).openPostgresStore(target, options);
  throw notAStore();
}

function notAStore(): SavepointError {
  return new SavepointError(
    "INVALID_ARGUMENT",
    "Savepoint.open() needs a URL, a store, a SQLite database handle, or a pg pool.",
  );
}

function pathOf(url: string, rest: string, what: string): string {
  const path = rest.startsWith("//") ? rest.slice(2) : rest;
  if (path === "") throw invalidUrl(url, `the path of the ${what} is missing`);
  if (path.includes("\0")) throw invalidUrl(url, "a path cannot contain a NUL character");
  return path;
}

function splitUrl(url: string): [string | undefined, string] {
  const match = /^([a-z][a-z0-9+.-]+):(.*)$/is.exec(url);
  return match ? [match[1]?.toLowerCase(), match[2] ?? ""] : [undefined, url];
}

/** Removes what could be a password: everything between the scheme and the last @, and the value of `password=`. */
function withoutPassword(url: string): string {
  return url.replace(/^([^:/@]*:?(?:\/\/)?).*@/s, "$1…@").replace(/(password\s*=\s*)('[^']*'|[^&\s]+)/gi, "$1…");
}

function invalidUrl(url: string, why: string): SavepointError {
  const safeUrl = JSON.stringify(withoutPassword(url));
  return new SavepointError("INVALID_URL", `Cannot open ${safeUrl}: ${why}. Use ${SCHEMES}.`);
}

/** Whether this is a `pg` pool. */
function isPostgresPool(target: object): target is PostgresPool {
  const { query, connect, end, on } = target as Partial<Record<keyof PostgresPool, unknown>>;
  return [query, connect, end, on].every((member) => typeof member === "function");
}
