/**
 * What all tests of a run share: a PostgreSQL server, unless `DATABASE_URL` names one, and a folder for temporary files.
 * At the end, whatever the tests have left behind fails the run.
 */
import { chmodSync, mkdirSync, mkdtempSync, realpathSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";
import type { TestProject } from "vitest/node";
import { findFiles, findProcesses, killProcesses, removeFolders, temporaryFolderOf } from "./run-folder.mjs";
import { createPool, dropPool, newSchemaName } from "./schema-pool.js";
import { startPostgres } from "./server.mjs";

declare module "vitest" {
  interface ProvidedContext {
    postgresUrl: string;
    /** See `schema-pool.ts`. */
    schemaPool: string;
    /** See `run-folder.mjs`. */
    runFolder: string;
  }
}

/** How long processes that are about to end may take for it, in milliseconds. */
const PATIENCE = 5000;
/** What vitest ends with when it is interrupted. Tests had no time to clean up then. */
const INTERRUPTED = 130;

export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const given = process.env["DATABASE_URL"];
  const server = given ? undefined : await startPostgres();
  const url = server?.url ?? (given as string);
  const pool = `${newSchemaName()}_pool`;
  await withClient(url, (client) => createPool(client, pool));
  const folder = server?.folder ?? realpathSync(mkdtempSync(join(tmpdir(), "savepoint-test-")));
  project.provide("postgresUrl", url);
  project.provide("schemaPool", pool);
  project.provide("runFolder", folder);
  // Servers that tests start may run as another user, who has to pass through.
  mkdirSync(temporaryFolderOf(folder));
  chmodSync(temporaryFolderOf(folder), 0o711);
  const before = process.env["TMPDIR"];
  process.env["TMPDIR"] = temporaryFolderOf(folder);

  return async () => {
    const left = await removeRun().catch((error: unknown) => [
      `what an error kept from being removed: ${String(error)}`,
    ]);
    if (left.length === 0 || process.exitCode === INTERRUPTED) return;
    // Vitest prints an error that is thrown here, and does not fail because of it.
    console.error(`\nThe tests left behind:\n${left.map((line) => `  ${line}\n`).join("")}`);
    process.exitCode = 1;
  };

  /** Removes everything that belongs to the run. @returns what the tests should have removed */
  async function removeRun(): Promise<string[]> {
    try {
      const processes = (await waitForProcesses(folder)).map(({ pid, command }) => `process ${pid}: ${command}`);
      const files = findFiles(folder).map((path) => `file ${path}`);
      const schemas = await withClient(url, async (client) => {
        await dropPool(client, pool);
        // On a server that was given there may be others.
        return server ? findSchemas(client) : [];
      });
      return [...processes, ...files, ...schemas];
    } finally {
      if (before === undefined) delete process.env["TMPDIR"];
      else process.env["TMPDIR"] = before;
      await killProcesses(folder, process.pid);
      await server?.stop();
      removeFolders(folder);
    }
  }
}

/** Waits for the processes that tests have started. @returns those that do not end */
async function waitForProcesses(folder: string): Promise<ReturnType<typeof findProcesses>> {
  const deadline = Date.now() + PATIENCE;
  for (;;) {
    // Vitest's own workers end later.
    const found = findProcesses(folder).filter(({ parent }) => parent !== process.pid);
    if (found.length === 0 || Date.now() > deadline) return found;
    await sleep(20);
  }
}

/** Schemas and databases that a new server does not have. */
async function findSchemas(client: pg.Client): Promise<string[]> {
  const { rows } = await client.query(
    `SELECT 'schema ' || nspname AS name FROM pg_namespace WHERE nspname !~ '^pg_' AND nspname NOT IN ('public', 'information_schema')
     UNION ALL SELECT 'table ' || relname FROM pg_class WHERE relnamespace = to_regnamespace('public') AND relkind = 'r'
     UNION ALL SELECT 'database ' || datname FROM pg_database WHERE datname NOT IN ('postgres', 'template0', 'template1')
     UNION ALL SELECT 'role ' || rolname FROM pg_roles WHERE rolname !~ '^pg_' AND rolname <> 'postgres'`,
  );
  return (rows as { name: string }[]).map(({ name }) => `${name} in PostgreSQL`);
}

async function withClient<T>(url: string, work: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = new pg.Client({ connectionString: url });
  await client.connect().catch((error: unknown) => {
    throw new Error(`The PostgreSQL server ${new URL(url).host} cannot be used: ${String(error)}`, { cause: error });
  });
  try {
    return await work(client);
  } finally {
    await client.end();
  }
}
