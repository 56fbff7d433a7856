/** Backups: bundles of the whole store in a folder, each verified, of which the newest are kept. */
import { mkdir, readdir, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { SavepointError } from "../errors.js";
import {
  validateFields,
  type Duration,
  toFileError,
  invalidArgument,
  isMissingFileError,
  MAX_TIMER,
  targetOfTemporary,
  toMilliseconds,
} from "../util/index.js";
import type { Context } from "../context.js";
import { backupName, isBackup, timeIn } from "./backup-name.js";
import { type BundleHole, type BundleProgress, exportBundle } from "./export.js";
import { readBundle } from "./format.js";
import { toStream } from "./import.js";

export interface BackupOptions {
  /** The folder that backups are written to. It is made if it is not there. */
  readonly to: string;
  /**
   * How many backups are kept: the oldest beyond that are removed, once the new one is there, verified and complete.
   * @default 3
   */
  readonly keep?: number;
  /** Told as it goes on. */
  readonly onProgress?: (progress: BundleProgress) => void;
}

export interface BackupPolicy extends BackupOptions {
  /** How often. */
  readonly every: Duration;
}

export interface BackupResult extends BundleProgress {
  readonly path: string;
  readonly createdAt: number;
  /** What could not be read, and is not in it; `sp.verify()` says more. */
  readonly holes: readonly BundleHole[];
  /** Older backups that were removed. */
  readonly removed: readonly string[];
}

/** A backup that is there. */
export interface BackupInfo {
  readonly path: string;
  readonly bytes: number;
  /** When it was written, in milliseconds since 1970. */
  readonly createdAt: number;
}

const UNFINISHED = 3_600_000;
const FIELDS = new Set(["to", "keep", "onProgress"]);

export async function backup(context: Context, options: BackupOptions): Promise<BackupResult> {
  const { to, keep, onProgress } = checkOptions(options);
  try {
    await mkdir(to, { recursive: true });
    const path = join(to, backupName(context.now(), context.newId({ number: 0, seq: 0 }).slice(-8)));
    const bundle = exportBundle(context, {}, onProgress && { onProgress });
    const { holes, createdAt, sections, checkpoints, items, bytes } = await bundle.save(path);
    await checkWritten(path);
    // One that lacks something takes no other one's place.
    const removed = holes.length > 0 ? [] : await removeOld(to, keep, path);
    await removeUnfinished(to);
    return { path, createdAt, holes, removed, sections, checkpoints, items, bytes };
  } catch (error) {
    throw toFileError(error, to, "Backing up to");
  }
}

/** The backups in a folder, newest first. */
export async function listBackups(folder: string): Promise<BackupInfo[]> {
  try {
    const names = (await readdir(folder)).filter(isBackup).sort().reverse();
    const found: BackupInfo[] = [];
    for (const name of names) {
      const path = join(folder, name);
      const there = await stat(path).catch((error: unknown) => {
        if (!isMissingFileError(error)) throw error;
        return undefined;
      });
      // Another process may have removed it meanwhile.
      if (there) found.push({ path, bytes: there.size, createdAt: Math.round(there.mtimeMs) });
    }
    return found;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return [];
    throw toFileError(error, folder, "Reading");
  }
}

/** Backups that are taken by themselves, one after another, until they are stopped. */
export class AutoBackups {
  readonly #backup: (options: BackupOptions) => Promise<unknown>;
  readonly #context: Context;
  #timer: NodeJS.Timeout | undefined;
  #running: Promise<void> | undefined;

  constructor(context: Context, take: (options: BackupOptions) => Promise<unknown>) {
    this.#context = context;
    this.#backup = take;
  }

  /** Takes a backup every so often, instead of as it was said before. The first one is taken after that time. */
  start(policy: BackupPolicy): void {
    const { every, ...options } = policy;
    const interval = toMilliseconds(every, "every");
    if (interval < 1_000 || interval > MAX_TIMER) throw invalidArgument("`every` is between a second and 24 days.");
    checkOptions(options);
    clearInterval(this.#timer);
    this.#timer = setInterval(() => void (this.#running ??= this.#take(options)), interval).unref();
  }

  /** Takes no more backups. One that is being taken is finished. */
  async stop(): Promise<void> {
    clearInterval(this.#timer);
    this.#timer = undefined;
    await this.#running;
  }

  /** The backups in a folder, newest first. */
  list(folder: string): Promise<BackupInfo[]> {
    return listBackups(folder);
  }

  async #take(options: BackupOptions): Promise<void> {
    try {
      await this.#backup(options);
    } catch (error) {
      this.#context.events.emit("backgroundFailure", { message: "a backup could not be taken", error });
    } finally {
      this.#running = undefined;
    }
  }
}

function checkOptions(options: BackupOptions): Required<Pick<BackupOptions, "to" | "keep">> & BackupOptions {
  validateFields(options, "A backup", FIELDS);
  const { to, keep = 3 } = options;
  if (typeof to !== "string" || to === "") throw invalidArgument("A backup needs a folder: give `to`.");
  if (!Number.isSafeInteger(keep) || keep < 1) throw invalidArgument("`keep` is a whole number from 1 on.");
  return { ...options, to, keep };
}

/** Reads it back from the disk: what cannot be read is no backup, and takes no other one's place. */
async function checkWritten(path: string): Promise<void> {
  try {
    for await (const event of readBundle(toStream(path))) void event;
  } catch (cause) {
    await rm(path, { force: true });
    throw new SavepointError(
      "IO_FAILED",
      `The backup ${path} could not be read back, and was removed. Check the disk.`,
      {
        cause,
      },
    );
  }
}

/** What killed processes have left. One that is being written is not as old. */
async function removeUnfinished(folder: string): Promise<void> {
  for (const name of await readdir(folder)) {
    const target = targetOfTemporary(name);
    if (target === undefined || !isBackup(target)) continue;
    const path = join(folder, name);
    const { mtimeMs } = await stat(path).catch(() => ({ mtimeMs: Infinity }));
    if (Date.now() - mtimeMs > UNFINISHED) await rm(path, { force: true });
  }
}

async function removeOld(folder: string, keep: number, newest: string): Promise<string[]> {
  // By their names: one that another process has taken since is newer.
  const old = (await listBackups(folder))
    .map(({ path }) => path)
    .filter((path) => path !== newest && timeIn(path) <= timeIn(newest))
    .slice(keep - 1);
  for (const path of old) await rm(path, { force: true });
  return old;
}
