/** Folders that tests have for themselves. */
import { mkdirSync, mkdtempSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { inject } from "vitest";
import { memoryFolderOf } from "../postgres/run-folder.mjs";

export function makeFolder(): Promise<string> {
  return mkdtemp(join(tmpdir(), "savepoint-"));
}

/** A folder in memory, where the system has such folders: for tests that create thousands of stores. */
export function makeMemoryFolder(): string {
  const parent = memoryFolderOf(inject("runFolder")) ?? tmpdir();
  mkdirSync(parent, { recursive: true });
  return mkdtempSync(join(parent, "savepoint-"));
}

export async function removeFolder(path: string): Promise<void> {
  await rm(path, { recursive: true, force: true });
}
