/** Exit codes of the command line. They are documented in docs/cli.md, and scripts rely on them. */
import type { SavepointErrorCode } from "../index.js";

export const EXIT = {
  ok: 0,
  failed: 1,
  usage: 2,
  /** Some of the work was done and some was not. */
  partial: 3,
  /** A name matches nothing, or several things. */
  notFound: 4,
  noStore: 10,
  locked: 11,
  needsMigration: 12,
  damage: 20,
  interrupted: 130,
} as const;

export type ExitCode = (typeof EXIT)[keyof typeof EXIT];

const BY_ERROR_CODE: Partial<Record<SavepointErrorCode, ExitCode>> = {
  ACCESS_DENIED: EXIT.noStore,
  AGENT_NOT_FOUND: EXIT.notFound,
  ALREADY_RUNNING: EXIT.locked,
  BRANCH_NOT_FOUND: EXIT.notFound,
  BUSY: EXIT.locked,
  CHECKPOINT_NOT_FOUND: EXIT.notFound,
  CONVERSATION_NOT_FOUND: EXIT.notFound,
  DAMAGED: EXIT.damage,
  INVALID_ARGUMENT: EXIT.usage,
  INVALID_ID: EXIT.usage,
  INVALID_URL: EXIT.usage,
  KEY_REQUIRED: EXIT.noStore,
  NOT_A_STORE: EXIT.noStore,
  NOT_ENCRYPTED: EXIT.noStore,
  SESSION_DELETED: EXIT.notFound,
  SESSION_NOT_FOUND: EXIT.notFound,
  STORE_NOT_FOUND: EXIT.noStore,
  STORE_TOO_NEW: EXIT.needsMigration,
  STORE_TOO_OLD: EXIT.needsMigration,
  UNAVAILABLE: EXIT.noStore,
  UNSAFE_KEY_FILE: EXIT.noStore,
  UNSAFE_STORE: EXIT.noStore,
  WRONG_KEY: EXIT.noStore,
};

export function exitCodeForError(code: SavepointErrorCode): ExitCode {
  return BY_ERROR_CODE[code] ?? EXIT.failed;
}
