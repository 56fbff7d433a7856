/** `sp.rekey()`: changes the key of an encrypted store, or encrypts a plain one. */
import { type EncryptionOptions, parseKeyRing, type RekeyProgress, type RekeyReport } from "../encryption/index.js";
import { SavepointError } from "../errors.js";
import { findOtherProcess } from "../events/index.js";
import { ALL_OPEN_PROCESSES } from "../records/index.js";
import { scanPages } from "../store/index.js";
import { validateFields } from "../util/index.js";
import type { Services } from "./services.js";

/** Options of `sp.rekey()`. */
export interface RekeyOptions {
  /**
   * Encrypts a plain store with these keys. No other process may have it open, and no run of this process may be in progress;
   * other calls of this process wait.
   * @default the store is encrypted already, and its data keys are encrypted again with the current key
   */
  readonly to?: EncryptionOptions;
  /** Called as the work proceeds: after some data keys, or after each tape of a plain store. */
  readonly onProgress?: (progress: RekeyProgress) => void;
}

const FIELDS: ReadonlySet<string> = new Set(["to", "onProgress"]);

/** Changes keys; see `sp.rekey()`. */
export async function rekey(services: Services, options: RekeyOptions): Promise<RekeyReport> {
  validateFields(options, "The options of sp.rekey", FIELDS);
  const { to, onProgress = () => {} } = options;
  const { store } = services.open();
  const { encryption } = services;
  if (to === undefined) return encryption.rekey(onProgress);
  const ring = parseKeyRing(to, "`to`");
  const requireAlone = async (): Promise<void> => {
    if (services.hasRuns) throw inUse(store.url, "a run of this process is in progress");
    const pages = scanPages(encryption.raw, ALL_OPEN_PROCESSES);
    const other = await findOtherProcess(pages, services.registrationKey);
    if (other !== undefined) throw inUse(store.url, `${other} has it open`);
  };
  await requireAlone();
  await services.cursors.idle();
  try {
    return await encryption.encrypt(ring, { requireAlone }, onProgress);
  } finally {
    services.forgetAll();
  }
}

function inUse(url: string, why: string): SavepointError<"BUSY"> {
  return new SavepointError(
    "BUSY",
    `The store ${url} cannot be encrypted while ${why}. Wait until it ends, or stop it. Nothing was changed.`,
  );
}
