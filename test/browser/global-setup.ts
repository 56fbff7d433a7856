/** Makes a store by real runs, once: each test file gets a copy of it. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestProject } from "vitest/node";
import { buildWorld } from "./world/world.mjs";

declare module "vitest" {
  interface ProvidedContext {
    /** The folder with the store `agents.db`, which no test changes. */
    world: string;
  }
}

export default async function setup({ provide }: TestProject): Promise<() => void> {
  const folder = mkdtempSync(join(tmpdir(), "savepoint-browser-"));
  await buildWorld(`sqlite:${join(folder, "agents.db")}`, { backups: join(folder, "backups") });
  provide("world", folder);
  return () => rmSync(folder, { recursive: true, force: true });
}
