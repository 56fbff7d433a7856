/**
 * Opening files in a folder of unknown origin: links are not followed, and pipes and devices are not read,
 * so that nothing outside of the folder is touched and no reader waits forever.
 */
import { closeSync, constants, fstatSync, openSync } from "node:fs";
import { open } from "node:fs/promises";
import { SavepointError } from "../errors.js";

/** Windows has neither flag. Opening a pipe without `O_NONBLOCK` would wait for its other end. */
const SAFE = ((constants.O_NOFOLLOW as number | undefined) ?? 0) | ((constants.O_NONBLOCK as number | undefined) ?? 0);
/** The errors of opening a link, a folder, a pipe, a socket or a device. */
const WRONG_KIND = new Set(["ELOOP", "EMLINK", "EISDIR", "ENXIO", "ENODEV", "EOPNOTSUPP"]);

/** Opens a regular file. Throws `DAMAGED` for anything else: a link, a folder, a pipe or a device. */
export function openRegularFile(path: string, flags: number = constants.O_RDONLY): number {
  let handle: number;
  try {
    handle = openSync(path, flags | SAFE);
  } catch (error) {
    throw toKindError(path, error);
  }
  if (fstatSync(handle).isFile()) return handle;
  closeSync(handle);
  throw wrongKind(path, "file");
}

/** Reads a regular file. Throws `DAMAGED` for anything else: a link, a folder, a pipe or a device. */
export async function readRegularFile(path: string): Promise<Buffer> {
  const file = await open(path, constants.O_RDONLY | SAFE).catch((error: unknown) => {
    throw toKindError(path, error);
  });
  try {
    if (!(await file.stat()).isFile()) throw wrongKind(path, "file");
    return await file.readFile();
  } finally {
    await file.close();
  }
}

function toKindError(path: string, error: unknown): unknown {
  return WRONG_KIND.has((error as NodeJS.ErrnoException).code ?? "") ? wrongKind(path, "file", error) : error;
}

/** The error for a path that should be a regular file or a folder and is something else. */
export function wrongKind(path: string, expected: "file" | "folder", cause?: unknown): SavepointError<"DAMAGED"> {
  return new SavepointError(
    "DAMAGED",
    `${path} is not a regular ${expected}: a store has no links, pipes or devices inside its folder. Nothing was read from it. Replace it with a ${expected} from a backup. If you moved a part of the store to another place and linked it, move the entire store instead.`,
    { cause },
  );
}
