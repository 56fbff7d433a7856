/** `sp.verify()`: is everything that was saved there, and whole? */
import { createHash } from "node:crypto";
import { isSavepointError } from "../errors.js";
import { validateFields, invalidArgument } from "../util/index.js";
import { type BundleSource, describeHole, readBundle, toStream } from "../bundle/index.js";
import type { Context } from "../context.js";
import { Events } from "../events/index.js";
import { findCheckpoint, loadShadow, checkpointNotInStore } from "../sessions/index.js";
import { agentOfHistoryId, checkId } from "../records/index.js";
import { type Finding, toProblem, type VerifyProblem } from "./findings.js";
import type { SurveyCounts } from "./survey-types.js";
import { survey } from "./survey.js";

export interface VerifyOptions {
  /**
   * Read every item and blob as well, and not only records and what they point at. Takes as long as reading the store.
   * @default false
   */
  readonly deep?: boolean;
  /**
   * The share of checkpoints to look at, from 0 to 1, chosen at random.
   * @default 1
   */
  readonly sample?: number;
  /** Only this session. */
  readonly session?: string;
  /** Only this agent with its conversations and sessions. */
  readonly agent?: string;
  /** Only this checkpoint, wholly. */
  readonly checkpoint?: string;
  /** A bundle or a backup instead of the store. */
  readonly bundle?: BundleSource;
  /** Told as it goes on. */
  readonly onProgress?: (progress: VerifyCounts) => void;
}

/** What was looked at. */
export type VerifyCounts = Readonly<SurveyCounts>;

export interface VerifyReport extends VerifyCounts {
  /** Is nothing wrong? */
  readonly ok: boolean;
  readonly deep: boolean;
  readonly problems: readonly VerifyProblem[];
}

const FIELDS = new Set(["deep", "sample", "session", "agent", "checkpoint", "bundle", "onProgress"]);

export async function verify(context: Context, options: VerifyOptions = {}): Promise<VerifyReport> {
  const { sample = 1, session, agent, checkpoint, bundle, onProgress } = checkOptions(options);
  const deep = options.deep ?? false;
  const counts: SurveyCounts = { records: 0, sessions: 0, checkpoints: 0, conversations: 0, items: 0, blobs: 0 };
  const tell = (): void => onProgress?.({ ...counts });
  const problems: VerifyProblem[] = [];
  if (bundle !== undefined) problems.push(...(await verifyBundle(bundle, counts, tell)));
  else if (checkpoint !== undefined)
    problems.push(...(await verifyCheckpoint(withoutDamageEvents(context), checkpoint, counts)));
  else {
    const target = { ...(session !== undefined && { session }), ...(agent !== undefined && { agent }) };
    const looks = { ...target, deep, sample, counts, random: Math.random, onProgress: tell };
    for await (const finding of survey(withoutDamageEvents(context), looks)) problems.push(toProblem(finding));
  }
  tell();
  return { ok: problems.length === 0, deep, problems, ...counts };
}

/** What is found is in the report: nobody needs to be told of it as well. */
export function withoutDamageEvents(context: Context): Context {
  return { ...context, events: new Events({ damage: () => {} }) };
}

function checkOptions(options: VerifyOptions): VerifyOptions {
  validateFields(options, "What is verified", FIELDS);
  const { sample, session, agent, checkpoint, bundle } = options;
  if (sample !== undefined && !(sample > 0 && sample <= 1))
    throw invalidArgument("`sample` is a share: more than 0, up to 1.");
  if (session !== undefined) checkId(session, "session id");
  if (agent !== undefined) checkId(agent, "agent id");
  if (checkpoint !== undefined) checkId(checkpoint, "checkpoint id");
  if ([session, agent, checkpoint, bundle].filter((target) => target !== undefined).length > 1) {
    throw invalidArgument("Verify one of: a session, an agent, a checkpoint, a bundle; or the whole store.");
  }
  return options;
}

async function verifyCheckpoint(context: Context, id: string, counts: SurveyCounts): Promise<VerifyProblem[]> {
  const found = await findCheckpoint(context, id).catch(problemOf(id));
  if (found && "kind" in found) return [found];
  if (!found) throw checkpointNotInStore(id);
  const { reader, number, row } = found;
  counts.checkpoints++;
  const damage = await loadShadow(reader, number, row).then(() => undefined, problemOf(id));
  return damage ? [damage] : [];
}

function problemOf(id: string): (error: unknown) => Finding {
  return (error) => {
    if (!isSavepointError(error, "DAMAGED")) throw error;
    return { kind: "item", checkpoints: [id], place: `checkpoint ${id}`, reason: error.message };
  };
}

async function verifyBundle(source: BundleSource, counts: SurveyCounts, tell: () => void): Promise<VerifyProblem[]> {
  const problems: VerifyProblem[] = [];
  const problem = (place: string, reason: string): VerifyProblem => ({
    kind: "bundle",
    checkpoints: [],
    place,
    reason,
  });
  let before = { ...counts };
  let ofSection: VerifyProblem[] = [];
  try {
    for await (const event of readBundle(toStream(source))) {
      if ("start" in event) {
        if (event.start.begin === "session" && agentOfHistoryId(event.start.id) === undefined) counts.sessions++;
        before = { ...counts };
      } else if ("end" in event) {
        problems.push(...ofSection);
        ofSection = [];
      } else if ("line" in event) {
        const { line } = event;
        counts.records++;
        if ("again" in line) {
          // What came so far of the section does not count.
          Object.assign(counts, before);
          ofSection = [];
        } else if ("row" in line) counts.checkpoints++;
        else if ("conversation" in line) counts.conversations++;
        else if ("items" in line) counts.items += line.items[2].length;
        else if ("hole" in line) {
          const reason = `it could not be read when the bundle was made: ${line.reason}`;
          ofSection.push(problem(describeHole(undefined, line.hole), reason));
        } else if ("blob" in line) {
          counts.blobs++;
          const hash = createHash("sha256").update(Buffer.from(line.bytes, "base64")).digest("hex");
          if (hash !== line.blob) ofSection.push(problem(`blob ${line.blob}`, "it is damaged"));
        }
        tell();
      }
    }
  } catch (error) {
    if (!isSavepointError(error)) throw error;
    problems.push(...ofSection, problem("the bundle", error.message));
  }
  return problems;
}
