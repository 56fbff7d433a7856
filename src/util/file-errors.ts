/** Errors of the file system. */
import { SavepointError } from "../errors.js";

const ADVICE: Readonly<Record<string, string>> = {
  ENOSPC: "Free some disk space. No saved data is lost.",
  EDQUOT: "Free some disk space. No saved data is lost.",
  EACCES: "Make the folder and its files writable.",
  EPERM: "Make the folder and its files writable.",
  EROFS: "Make the folder and its files writable.",
  EMFILE: "Raise the limit of open files of the process.",
  EIO: "Check the disk, then open the store again.",
};

/**
 * Wraps an error in a `SavepointError`: `IO_FAILED` for an error of the operating system, else `STORE_FAILED`. A
 * `SavepointError` is returned unchanged.
 *
 * @param action what failed, in front of the URL in the message: `"Opening"`
 */
export function toFileError(error: unknown, url: string, action: string): SavepointError {
  if (error instanceof SavepointError) return error;
  const reason = error instanceof Error ? error.message : String(error);
  const code = (error as NodeJS.ErrnoException | undefined)?.code;
  const isSystem = error instanceof Error && "syscall" in error;
  const advice =
    (code !== undefined && ADVICE[code]) || (isSystem ? "Check the path and its permissions." : "See the cause.");
  return new SavepointError(isSystem ? "IO_FAILED" : "STORE_FAILED", `${action} ${url} failed: ${reason}. ${advice}`, {
    cause: error,
  });
}

/** Whether the error means that a file or one of its folders does not exist. */
export function isMissingFileError(error: unknown): boolean {
  const { code } = (error ?? {}) as NodeJS.ErrnoException;
  return code === "ENOENT" || code === "ENOTDIR";
}
