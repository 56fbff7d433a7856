/** Folders that tests have for themselves. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

export function makeFolder(): Promise<string> {
  return mkdtemp(join(tmpdir(), "savepoint-"));
}

export async function removeFolder(path: string): Promise<void> {
  await rm(path, { recursive: true, force: true });
}
