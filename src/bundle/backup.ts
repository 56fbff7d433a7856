/** Backups: bundles of the whole store in a folder, each verified after writing, of which the newest are kept. */
import { readdir, rm, stat } from "node:fs/promises";
import { join, resolve } from "node:path";
import { SavepointError } from "../errors.js";
import type { Context } from "../context.js";
import {
  createFolders,
  validateFields,
  type Duration,
  toFileError,
  invalidArgument,
  isMissingFileError,
  MAX_TIMER,
  targetOfTemporary,
  toMilliseconds,
} from "../util/index.js";
import type { BundleHole, BundleProgress } from "./bundle.js";
import { exportBundle } from "./export.js";
import { readBundle } from "./format.js";
import { type MeasuredBackup, readKnownBackups, rememberBackup } from "./known-backups.js";
import { unsealBundle } from "./sections.js";

/** Options of `sp.backup()`. */
export interface BackupOptions {
  /** The folder that the backup is written to. It is created if it does not exist. */
  readonly to: string;
  /**
   * How many backups the folder keeps. Older ones are removed after the new one was written and verified; a backup with holes
   * removes none.
   * @default 3
   */
  readonly keep?: number;
  /** Called after every section and chunk. */
  readonly onProgress?: (progress: BundleProgress) => void;
}

/** Options of `sp.backups.start()`. */
export interface BackupPolicy extends BackupOptions {
  /** The interval between two backups: from one second to 24 days. */
  readonly every: Duration;
}

/** The result of `sp.backup()`. */
export interface BackupResult extends BundleProgress {
  readonly path: string;
  /** In milliseconds since 1970. */
  readonly createdAt: number;
  /** What could not be read and is missing in the backup. `sp.verify()` has the details. */
  readonly holes: readonly BundleHole[];
  /** Paths of the older backups that were removed. */
  readonly removed: readonly string[];
}

/** A backup in a folder. */
export interface BackupInfo {
  readonly path: string;
  readonly bytes: number;
  /** When it was written, in milliseconds since 1970. */
  readonly createdAt: number;
}

const PREFIX = "backup-";
const EXTENSION = ".savepoint";
/** A temporary file older than this was left by a process that died, in milliseconds. */
const ABANDONED_AFTER = 3_600_000;
const FIELDS = new Set(["to", "keep", "onProgress"]);

/** Writes a backup, reads it back, and removes old ones; see `sp.backup()`. */
export async function backup(context: Context, options: BackupOptions): Promise<BackupResult> {
  const { to, keep, onProgress } = parseOptions(options);
  try {
    createFolders(to);
    // Absolute, because it is remembered, and other processes have other working folders.
    const path = join(resolve(to), backupName(context.now(), context.newId({ number: 0, seq: 0 }).slice(-8)));
    const bundle = exportBundle(context, {}, onProgress && { onProgress });
    const { holes, createdAt, sections, checkpoints, items, bytes } = await bundle.save(path);
    await verifyWritten(context, path);
    // An incomplete backup must not replace a complete one.
    const removed = holes.length > 0 ? [] : await removeOld(resolve(to), keep, path);
    await rememberBackup(context, path, createdAt, removed);
    await removeAbandoned(to);
    return { path, createdAt, holes, removed, sections, checkpoints, items, bytes };
  } catch (error) {
    throw toFileError(error, to, "Backing up to");
  }
}

/** The paths of the backups in a folder, newest first. Names of backups sort by the time at which they were written. */
export async function listBackupFiles(folder: string): Promise<string[]> {
  const names = (await readdir(folder)).filter(isBackup).sort().reverse();
  return names.map((name) => join(folder, name));
}

function isBackup(name: string): boolean {
  return name.startsWith(PREFIX) && name.endsWith(EXTENSION);
}

/** `sp.backups`: backups at intervals. The timer belongs to this process, and does not keep it alive. */
export class AutoBackups {
  readonly #backup: (options: BackupOptions) => Promise<unknown>;
  readonly #context: Context;
  #timer: NodeJS.Timeout | undefined;
  #running: Promise<void> | undefined;

  /** Use `sp.backups`. */
  constructor(context: Context, backup: (options: BackupOptions) => Promise<unknown>) {
    this.#context = context;
    this.#backup = backup;
  }

  /**
   * Writes a backup at every interval, the first one after one interval. Replaces an earlier policy. A failed backup is reported
   * by the event `backgroundFailure`.
   *
   * @example
   * sp.backups.start({ to: "./backups", every: "1h", keep: 24 });
   */
  start(policy: BackupPolicy): void {
    const { every, ...options } = policy;
    const interval = toMilliseconds(every, "every");
    if (interval < 1_000 || interval > MAX_TIMER) {
      throw invalidArgument(`\`every\` must be between one second and 24 days, got ${interval} ms.`);
    }
    parseOptions(options);
    clearInterval(this.#timer);
    this.#timer = setInterval(() => void (this.#running ??= this.#run(options)), interval).unref();
  }

  /** Stops writing backups, and waits for one in progress. */
  async stop(): Promise<void> {
    clearInterval(this.#timer);
    this.#timer = undefined;
    await this.#running;
  }

  /** The backups in a folder, newest first. A folder that does not exist has none. */
  list(folder: string): Promise<BackupInfo[]> {
    return listBackups(folder);
  }

  /**
   * The backups of this store that it remembers and that still exist, of all machines, oldest first. Whether those of other
   * machines still exist is not known.
   */
  async known(): Promise<MeasuredBackup[]> {
    return [...(await readKnownBackups(this.#context.store)).backups];
  }

  async #run(options: BackupOptions): Promise<void> {
    try {
      await this.#backup(options);
    } catch (error) {
      this.#context.events.emit("backgroundFailure", { message: "an automatic backup failed", error });
    } finally {
      this.#running = undefined;
    }
  }
}

function parseOptions(options: BackupOptions): Required<Pick<BackupOptions, "to" | "keep">> & BackupOptions {
  validateFields(options, "A backup", FIELDS);
  const { to, keep = 3 } = options;
  if (typeof to !== "string" || to === "") throw invalidArgument("A backup needs a folder: pass `to`.");
  if (!Number.isSafeInteger(keep) || keep < 1) {
    throw invalidArgument(`\`keep\` must be a positive integer, got ${String(keep)}.`);
  }
  return { ...options, to, keep };
}

async function listBackups(folder: string): Promise<BackupInfo[]> {
  try {
    const backups: BackupInfo[] = [];
    for (const path of await listBackupFiles(folder)) {
      const file = await stat(path).catch((error: unknown) => {
        if (!isMissingFileError(error)) throw error;
        return undefined;
      });
      // Another process may have removed it meanwhile.
      if (file) backups.push({ path, bytes: file.size, createdAt: Math.round(file.mtimeMs) });
    }
    return backups;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return [];
    throw toFileError(error, folder, "Reading");
  }
}

/** Reads a backup back from the disk. One that cannot be read is removed. */
async function verifyWritten(context: Context, path: string): Promise<void> {
  try {
    // Its hashes are enough: what was exported is backed up, whether or not it is valid.
    for await (const event of readBundle(unsealBundle(context, path))) void event;
  } catch (cause) {
    await rm(path, { force: true });
    const message = `The backup ${path} could not be read back, and was removed. Check the disk.`;
    throw new SavepointError("IO_FAILED", message, { cause });
  }
}

/** Removes temporary files of processes that died while they wrote a backup. */
async function removeAbandoned(folder: string): Promise<void> {
  for (const name of await readdir(folder)) {
    const target = targetOfTemporary(name);
    if (target === undefined || !isBackup(target)) continue;
    const path = join(folder, name);
    const { mtimeMs } = await stat(path).catch(() => ({ mtimeMs: Infinity }));
    if (Date.now() - mtimeMs > ABANDONED_AFTER) await rm(path, { force: true });
  }
}

/** Removes all but the newest `keep` backups. One that another process has written since does not count. */
async function removeOld(folder: string, keep: number, newest: string): Promise<string[]> {
  const old = (await listBackups(folder))
    .map(({ path }) => path)
    .filter((path) => path !== newest && timeInName(path) <= timeInName(newest))
    .slice(keep - 1);
  for (const path of old) await rm(path, { force: true });
  return old;
}

function backupName(createdAt: number, id: string): string {
  const time = new Date(createdAt).toISOString().replace(/[:.]/g, "-");
  return `${PREFIX}${time}-${id.slice(0, 8)}${EXTENSION}`;
}

/** The time part of a backup's name, in a form that sorts. */
function timeInName(path: string): string {
  return path.slice(path.lastIndexOf(PREFIX), path.lastIndexOf("-"));
}
