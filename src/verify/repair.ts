/**
 * `sp.repair()`: brings back what is damaged, from backups and bundles, and from what follows from the rest. What can be
 * read is never touched. What cannot be brought back is named, and stays damaged: nobody takes it for whole, or for empty.
 */
import { stat, readdir } from "node:fs/promises";
import { join } from "node:path";
import { validateFields, toFileError } from "../util/index.js";
import type { Context } from "../context.js";
import { type BundleSource, isBackup } from "../bundle/index.js";
import { withoutDamageEvents } from "./verify.js";
import { type Finding, findingKey, toProblem, type VerifyProblem } from "./findings.js";
import { Healer } from "./healer.js";
import type { SurveyCounts } from "./survey-types.js";
import { survey } from "./survey.js";

export interface RepairOptions {
  /**
   * Where to take what is lost from: bundles, backups, or folders of backups. The first that has it is taken, of a folder
   * the newest.
   */
  readonly from?: BundleSource | readonly string[];
  /**
   * Only say what could be brought back.
   * @default false
   */
  readonly dryRun?: boolean;
  /** Told as it goes on. */
  readonly onProgress?: (progress: Readonly<SurveyCounts>) => void;
}

export interface RepairReport {
  readonly dryRun: boolean;
  /** Is nothing wrong any more? */
  readonly ok: boolean;
  /** What was brought back, or could be. */
  readonly healed: readonly VerifyProblem[];
  /** What is lost. */
  readonly holes: readonly VerifyProblem[];
}

const FIELDS = new Set(["from", "dryRun", "onProgress"]);

export async function repair(context: Context, options: RepairOptions = {}): Promise<RepairReport> {
  validateFields(options, "How a store is repaired", FIELDS);
  const { dryRun = false, onProgress = () => {} } = options;
  const sources = await toSources(options.from);
  const own = withoutDamageEvents(context);
  const before = await findAll(own, onProgress);
  const healer = new Healer(own, before, dryRun, context.events);
  for (const source of sources) await healer.healFrom(source);
  await healer.rebuild();
  // What a store says of itself is about files and tables: packing them leaves out what is damaged and not needed any more.
  if (!dryRun && healer.healed.size > 0) await context.store.compact();
  const left = dryRun ? leftOf(before, healer.healed) : await findAll(own, onProgress);
  const still = new Set(left.map(findingKey));
  const healed = before.filter((finding) => !still.has(findingKey(finding)));
  const toHealed = (finding: Finding): VerifyProblem => {
    const asOf =
      finding.location && "record" in finding.location ? healer.asOf.get(finding.location.record) : undefined;
    return { ...toProblem(finding), ...(asOf !== undefined && { asOf }) };
  };
  return { dryRun, ok: left.length === 0, healed: healed.map(toHealed), holes: left.map(toProblem) };
}

/** Where all that was stored comes back, packing leaves out what the store itself says is damaged. */
function leftOf(findings: readonly Finding[], healed: ReadonlySet<string>): Finding[] {
  const left = findings.filter((finding) => !healed.has(findingKey(finding)));
  return left.every(({ kind }) => kind === "store") && healed.size > 0 ? [] : left;
}

async function findAll(context: Context, onProgress: (counts: Readonly<SurveyCounts>) => void): Promise<Finding[]> {
  const counts: SurveyCounts = { records: 0, sessions: 0, checkpoints: 0, conversations: 0, items: 0, blobs: 0 };
  const findings: Finding[] = [];
  const looks = { deep: true, sample: 1, counts, random: Math.random, onProgress: () => onProgress({ ...counts }) };
  for await (const finding of survey(context, looks)) findings.push(finding);
  return findings;
}

async function toSources(from: RepairOptions["from"]): Promise<BundleSource[]> {
  if (from === undefined) return [];
  if (typeof from === "string") return filesOf(from);
  if (Array.isArray(from) && from.every((each): each is string => typeof each === "string")) {
    return (await Promise.all(from.map(filesOf))).flat();
  }
  return [from as BundleSource];
}

/** A file, or the backups in a folder, newest first. */
async function filesOf(path: string): Promise<string[]> {
  try {
    if (!(await stat(path)).isDirectory()) return [path];
    const names = (await readdir(path)).filter(isBackup).sort().reverse();
    return names.map((name) => join(path, name));
  } catch (error) {
    throw toFileError(error, path, "Reading");
  }
}
