/** One PostgreSQL for all tests of a run, unless `DATABASE_URL` names one. Each test has a schema of its own in it. */
import type { TestProject } from "vitest/node";
import { startPostgres } from "./server.mjs";

declare module "vitest" {
  interface ProvidedContext {
    postgresUrl: string;
  }
}

export default async function setup(project: TestProject): Promise<(() => Promise<void>) | undefined> {
  const given = process.env["DATABASE_URL"];
  if (given) {
    project.provide("postgresUrl", given);
    return undefined;
  }
  const server = await startPostgres();
  project.provide("postgresUrl", server.url);
  return () => server.stop();
}
