import { isSavepointError } from "../../errors.js";

const CODES = ["ACCESS_DENIED", "BUSY", "CLOSED", "IO_FAILED", "STORE_FAILED", "UNAVAILABLE"] as const;

/** Is it the store that has failed? The next session would meet that as well. */
export function isStoreFailure(error: unknown): boolean {
  return CODES.some((code) => isSavepointError(error, code));
}
