/** `sp.repair()`: restores damaged data from backups and bundles, and rebuilds records derivable from others. */
import { stat } from "node:fs/promises";
import { type BundleSource, isLockedBundle, listBackupFiles } from "../bundle/index.js";
import type { Context } from "../context.js";
import type { SavepointError } from "../errors.js";
import { ALL_SNAPSHOT_BASES, isSnapshotBaseKey } from "../records/index.js";
import { scan } from "../store/index.js";
import { validateFields, toFileError } from "../util/index.js";
import { type Finding, findingKey, toProblem, type VerifyProblem } from "./findings.js";
import { Healer } from "./healer.js";
import { emptyCounts } from "./survey-options.js";
import { survey } from "./survey.js";
import { type VerifyCounts, withoutDamageEvents } from "./verify.js";

/** Options of `sp.repair()`. */
export interface RepairOptions {
  /**
   * Where lost data is taken from: bundles, backups, or folders of backups. The first source that has the data is used;
   * in a folder the newest backup comes first. Encrypted ones are decrypted with the keys of the store.
   * @default none: only records that can be derived from others are rebuilt
   */
  readonly from?: BundleSource | readonly string[];
  /**
   * Only report what could be repaired.
   * @default false
   */
  readonly dryRun?: boolean;
  /** Called while the store is verified, before and after the repair. */
  readonly onProgress?: (progress: VerifyCounts) => void;
}

/** The result of `sp.repair()`. */
export interface RepairReport {
  readonly dryRun: boolean;
  /** Whether no problems remain. */
  readonly ok: boolean;
  /** Problems that were repaired, or with `dryRun` could be. */
  readonly healed: readonly VerifyProblem[];
  /** Problems that remain: data that is in no source. Such data stays marked as damaged, and never counts as intact. */
  readonly holes: readonly VerifyProblem[];
}

const FIELDS = new Set(["from", "dryRun", "onProgress"]);

/** Verifies the store deeply, repairs what it can, and verifies it again. Readable data is never changed. */
export async function repair(context: Context, options: RepairOptions = {}): Promise<RepairReport> {
  validateFields(options, "The options of a repair", FIELDS);
  const { dryRun = false, onProgress = () => {} } = options;
  const sources = await listSources(options.from);
  const silent = withoutDamageEvents(context);
  const before = await findAll(silent, onProgress);
  const healer = new Healer(silent, before, dryRun, context.events);
  await healFromAll(healer, sources, context);
  await healer.rebuild();
  if (!dryRun && healer.healed.size > 0) await dropSnapshotBases(silent);
  // Problems of the kind `store` are in files and tables. Compacting rewrites them without the damaged parts.
  if (!dryRun && healer.healed.size > 0) await context.store.compact();
  const after = dryRun ? predictFindings(before, healer.healed) : await findAll(silent, onProgress);
  const remaining = new Set(after.map(findingKey));
  const healed = before.filter((finding) => !remaining.has(findingKey(finding)));
  const toHealed = (finding: Finding): VerifyProblem => {
    const { location } = finding;
    const asOf = location && "record" in location ? healer.asOf.get(location.record) : undefined;
    return { ...toProblem(finding), ...(asOf !== undefined && { asOf }) };
  };
  return { dryRun, ok: after.length === 0, healed: healed.map(toHealed), holes: after.map(toProblem) };
}

/**
 * Repairs from all sources. A backup with a key that is missing is reported and skipped, if another one can be used: backups that are older
 * than a change of keys stay in their folder.
 */
async function healFromAll(healer: Healer, sources: readonly BundleSource[], { events }: Context): Promise<void> {
  const locked: SavepointError[] = [];
  for (const source of sources) {
    try {
      await healer.healFrom(source);
    } catch (error) {
      if (!isLockedBundle(error)) throw error;
      locked.push(error);
    }
  }
  if (locked.length > 0 && locked.length === sources.length) throw locked[0] as SavepointError;
  for (const error of locked) {
    events.emit("backgroundFailure", { message: "a backup was not used for the repair: its key is missing", error });
  }
}

/** Makes the next checkpoint of every agent read all conversations: a repair may have restored older versions of some. */
async function dropSnapshotBases({ store }: Context): Promise<void> {
  const deletes: string[] = [];
  for await (const { key } of scan(store, ALL_SNAPSHOT_BASES)) if (isSnapshotBaseKey(key)) deletes.push(key);
  if (deletes.length > 0) await store.commit({ deletes });
}

/** What remains after a repair. If all data is restored, compacting also fixes the problems of the kind `store`. */
function predictFindings(before: readonly Finding[], healed: ReadonlySet<string>): Finding[] {
  const remaining = before.filter((finding) => !healed.has(findingKey(finding)));
  return remaining.every(({ kind }) => kind === "store") && healed.size > 0 ? [] : remaining;
}

async function findAll(context: Context, onProgress: (counts: VerifyCounts) => void): Promise<Finding[]> {
  const counts = emptyCounts();
  const findings: Finding[] = [];
  const options = { deep: true, sample: 1, counts, random: Math.random, onProgress: () => onProgress({ ...counts }) };
  for await (const finding of survey(context, options)) findings.push(finding);
  return findings;
}

async function listSources(from: RepairOptions["from"]): Promise<BundleSource[]> {
  if (from === undefined) return [];
  if (typeof from === "string") return listFiles(from);
  if (Array.isArray(from) && from.every((each): each is string => typeof each === "string")) {
    return (await Promise.all(from.map(listFiles))).flat();
  }
  return [from as BundleSource];
}

/** A file, or the backups in a folder, newest first. */
async function listFiles(path: string): Promise<string[]> {
  try {
    return (await stat(path)).isDirectory() ? await listBackupFiles(path) : [path];
  } catch (error) {
    throw toFileError(error, path, "Reading");
  }
}
