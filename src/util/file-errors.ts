/** What an error of the file system means, as an error of Savepoint. */
import { SavepointError } from "../errors.js";

const ADVICE: Readonly<Record<string, string>> = {
  ENOSPC: "Free some space; nothing that was saved is lost.",
  EDQUOT: "Free some space; nothing that was saved is lost.",
  EACCES: "Make the folder and its files writable.",
  EPERM: "Make the folder and its files writable.",
  EROFS: "Make the folder and its files writable.",
  EMFILE: "Allow the process more open files.",
  EIO: "Check the disk, then open the store again.",
};

/** The error to show for what was thrown while doing `what`; one of our own stays as it is. */
export function toFileError(error: unknown, url: string, what: string): SavepointError {
  if (error instanceof SavepointError) return error;
  const reason = error instanceof Error ? error.message : String(error);
  const code = (error as NodeJS.ErrnoException | undefined)?.code;
  const isSystem = error instanceof Error && "syscall" in error;
  const advice =
    (code !== undefined && ADVICE[code]) || (isSystem ? "Check the path and its permissions." : "The cause says more.");
  return new SavepointError(isSystem ? "IO_FAILED" : "STORE_FAILED", `${what} ${url} failed: ${reason}. ${advice}`, {
    cause: error,
  });
}

export function isMissingFileError(error: unknown): boolean {
  const { code } = (error ?? {}) as NodeJS.ErrnoException;
  return code === "ENOENT" || code === "ENOTDIR";
}
