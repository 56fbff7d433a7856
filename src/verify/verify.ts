/** `sp.verify()`: checks that everything that was saved exists and is intact. */
import { isSavepointError } from "../errors.js";
import { type BundleSource, describeHole, isLockedBundle, openBundle } from "../bundle/index.js";
import type { Context } from "../context.js";
import type { KeyUse } from "../encryption/index.js";
import { Events } from "../events/index.js";
import { agentOfHistoryId, checkId } from "../records/index.js";
import { checkpointNotInStore, findCheckpoint, loadShadow } from "../sessions/index.js";
import { hashBytes } from "../state/index.js";
import { validateFields, invalidArgument } from "../util/index.js";
import { toProblem, type VerifyProblem } from "./findings.js";
import { emptyCounts, type SurveyCounts } from "./survey-options.js";
import { survey } from "./survey.js";

/** Options of `sp.verify()`. Set at most one of `session`, `agent`, `checkpoint` and `bundle`. */
export interface VerifyOptions {
  /**
   * Also read every item and blob, not only records and the references in them. Takes as long as reading the whole
   * store.
   * @default false
   */
  readonly deep?: boolean;
  /**
   * The fraction of checkpoints to check, more than 0 and at most 1. They are chosen at random.
   * @default 1
   */
  readonly sample?: number;
  /** Only this session. */
  readonly session?: string;
  /** Only this agent with its conversations and sessions. */
  readonly agent?: string;
  /** Only this checkpoint, with all its items. */
  readonly checkpoint?: string;
  /** Verify this bundle or backup instead of the store. An encrypted one is decrypted with the keys of the store. */
  readonly bundle?: BundleSource;
  /** Called as the verification proceeds. */
  readonly onProgress?: (progress: VerifyCounts) => void;
}

/** What was checked. */
export type VerifyCounts = Readonly<SurveyCounts>;

/** The result of `sp.verify()`. */
export interface VerifyReport extends VerifyCounts {
  /** Whether no problems were found. */
  readonly ok: boolean;
  readonly deep: boolean;
  readonly problems: readonly VerifyProblem[];
  /** Of an encrypted store that was verified as a whole: its keys, and how many data keys each of them encrypts. */
  readonly keys?: readonly KeyUse[];
}

const FIELDS = new Set(["deep", "sample", "session", "agent", "checkpoint", "bundle", "onProgress"]);

/** Verifies a store, a part of it, or a bundle. Changes nothing. Problems are returned, not thrown and not emitted. */
export async function verify(context: Context, options: VerifyOptions = {}): Promise<VerifyReport> {
  const { deep = false, sample = 1, session, agent, checkpoint, bundle, onProgress } = checkOptions(options);
  const counts = emptyCounts();
  const report = (): void => onProgress?.({ ...counts });
  const problems: VerifyProblem[] = [];
  if (bundle !== undefined) problems.push(...(await verifyBundle(context, bundle, counts, report)));
  else if (checkpoint !== undefined) {
    problems.push(...(await verifyCheckpoint(withoutDamageEvents(context), checkpoint, counts)));
  } else {
    const scope = { ...(session !== undefined && { session }), ...(agent !== undefined && { agent }) };
    const surveyOptions = { ...scope, deep, sample, counts, random: Math.random, onProgress: report };
    for await (const finding of survey(withoutDamageEvents(context), surveyOptions)) problems.push(toProblem(finding));
  }
  report();
  return { ok: problems.length === 0, deep, problems, ...counts };
}

/** The same context, but without `damage` events: for operations that return damage instead of emitting it. */
export function withoutDamageEvents(context: Context): Context {
  return { ...context, events: new Events({ damage: () => {} }) };
}

function checkOptions(options: VerifyOptions): VerifyOptions {
  validateFields(options, "The options of a verification", FIELDS);
  const { sample, session, agent, checkpoint, bundle } = options;
  if (sample !== undefined && !(sample > 0 && sample <= 1))
    throw invalidArgument(`\`sample\` must be more than 0 and at most 1, got ${String(sample)}.`);
  if (session !== undefined) checkId(session, "session id");
  if (agent !== undefined) checkId(agent, "agent id");
  if (checkpoint !== undefined) checkId(checkpoint, "checkpoint id");
  if ([session, agent, checkpoint, bundle].filter((target) => target !== undefined).length > 1) {
    throw invalidArgument("Verify one of `session`, `agent`, `checkpoint` and `bundle`, or none for the whole store.");
  }
  return options;
}

async function verifyCheckpoint(context: Context, id: string, counts: SurveyCounts): Promise<VerifyProblem[]> {
  try {
    const found = await findCheckpoint(context, id);
    if (!found) throw checkpointNotInStore(id);
    counts.checkpoints++;
    await loadShadow(found.reader, found.number, found.row);
    return [];
  } catch (error) {
    if (!isSavepointError(error, "DAMAGED")) throw error;
    return [{ kind: "item", checkpoints: [id], place: `checkpoint ${id}`, reason: error.message }];
  }
}

async function verifyBundle(
  context: Context,
  source: BundleSource,
  counts: SurveyCounts,
  report: () => void,
): Promise<VerifyProblem[]> {
  const problems: VerifyProblem[] = [];
  try {
    for await (const { start, lines } of (await openBundle(context, source)).sections) {
      if (start.begin === "session" && agentOfHistoryId(start.id) === undefined) counts.sessions++;
      for await (const line of lines()) {
        counts.records++;
        if ("row" in line) counts.checkpoints++;
        else if ("conversation" in line) counts.conversations++;
        else if ("items" in line) counts.items += line.items[2].length;
        else if ("hole" in line) {
          const reason = `it could not be read when the bundle was written: ${line.reason}`;
          problems.push(bundleProblem(describeHole(undefined, line.hole), reason));
        } else if ("blob" in line) {
          counts.blobs++;
          const isIntact = hashBytes(Buffer.from(line.bytes, "base64")) === line.blob;
          if (!isIntact) problems.push(bundleProblem(`blob ${line.blob}`, "it is damaged"));
        }
        report();
      }
    }
  } catch (error) {
    if (!isSavepointError(error) || isLockedBundle(error)) throw error;
    problems.push(bundleProblem("the bundle", error.message));
  }
  return problems;
}

function bundleProblem(place: string, reason: string): VerifyProblem {
  return { kind: "bundle", checkpoints: [], place, reason };
}
