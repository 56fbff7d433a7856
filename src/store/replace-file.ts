/** Putting a file in the place of another, so that after a power cut one of them is there, and whole. */
import { open, rename, rm } from "node:fs/promises";
import { dirname } from "node:path";

/** A file that is being written, to take the place of another. */
export const TEMPORARY = ".tmp";

export async function replaceFile(
  path: string,
  parts: Iterable<Uint8Array> | AsyncIterable<Uint8Array>,
  probe: (point: string) => void = () => {},
): Promise<void> {
  const temporary = `${path}${TEMPORARY}`;
  try {
    const file = await open(temporary, "w");
    try {
      for await (const part of parts) await file.writeFile(part);
      await file.sync();
    } finally {
      await file.close();
    }
    probe("replace:written");
    await rename(temporary, path);
    await syncFolder(dirname(path));
    probe("replace:renamed");
  } catch (error) {
    await rm(temporary, { force: true });
    throw error;
  }
}

/** Makes names durable: that files are there, or are gone. */
export async function syncFolder(path: string): Promise<void> {
  // Windows has no such thing, and does not need it.
  if (process.platform === "win32") return;
  const folder = await open(path, "r");
  try {
    await folder.sync();
  } finally {
    await folder.close();
  }
}
