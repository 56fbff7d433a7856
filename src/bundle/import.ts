/**
 * Imports bundles. Ids, parents and branches are preserved. The internal numbers of sessions and conversations are shifted, so that
 * they do not collide with the numbers in the store.
 *
 * A section has no effect before its hash and its content are verified; see `sections.ts`. It becomes visible as a whole, after all
 * its lines are stored. To resume an interrupted import, the same bundle is imported again; everything that is already stored is
 * skipped.
 */
import { isSavepointError } from "../errors.js";
import type { Context } from "../context.js";
import { type EncryptionOptions, parseKeyRing } from "../encryption/index.js";
import { checkId } from "../records/index.js";
import { validateFields, toFileError, invalidArgument } from "../util/index.js";
import { readBlob, renameInLine } from "./blob-names.js";
import { type BundleHole, type BundleProgress, describeHole } from "./bundle.js";
import type { BundleHeader, BundleKind } from "./format.js";
import { ConversationsImport } from "./import-conversations.js";
import { SessionImport } from "./import-session.js";
import { type ImportState, ImportTally, type SectionImport } from "./section.js";
import { type BundleSection, type BundleSource, openBundle } from "./sections.js";
import { Staging } from "./staging.js";

/** Options of `sp.import()`. */
export interface ImportOptions {
  /**
   * The id under which the session of the bundle is imported. Only for bundles of one session or checkpoint.
   * @default its id in the bundle
   */
  readonly as?: string;
  /**
   * What to do if the store already has another session, agent or conversation with an id of the bundle: `"fail"` throws
   * `CONFLICT`, `"skip"` does not import it. Everything that was imported from the same bundle before is always skipped.
   * @default "fail"
   */
  readonly existing?: "fail" | "skip";
  /**
   * What becomes of runs that were unfinished when the bundle was written. `"halted"`: nothing resumes them until you run their
   * sessions. `"live"`: the runs are queued again, and workers of this store resume them, using the answers that are recorded in
   * the bundle. Use `"live"` only for your own bundles, such as a backup that you restore.
   * @default "halted"
   */
  readonly runs?: "halted" | "live";
  /**
   * The keys of a bundle that was exported from an encrypted store. With this option a bundle that is not encrypted is rejected with
   * `NOT_ENCRYPTED`.
   * @default the keys of this store; the bundle need not be encrypted
   */
  readonly encryption?: EncryptionOptions;
  /** Called after every section. */
  readonly onProgress?: (progress: BundleProgress) => void;
}

/** The result of `sp.import()`. The counts do not include skipped sessions, agents and conversations. */
export interface ImportResult extends BundleProgress {
  readonly kind: BundleKind;
  readonly sessions: number;
  readonly conversations: number;
  /** The ids of sessions, agents and conversations that the store already had. */
  readonly skipped: readonly string[];
  /** The ids of sessions with unfinished runs that were not queued; see `runs`. */
  readonly halted: readonly string[];
  /** The parts that the bundle lacks, because they could not be read when the bundle was exported. */
  readonly holes: readonly BundleHole[];
}

const FIELDS = new Set(["as", "existing", "runs", "encryption", "onProgress"]);

/** Imports a bundle, one section after another; see `sp.import()`. */
export async function importBundle(
  context: Context,
  source: BundleSource,
  options: ImportOptions = {},
): Promise<ImportResult> {
  validateFields(options, "The options of an import", FIELDS);
  const { as, existing = "fail", runs = "halted", onProgress } = options;
  if (as !== undefined) checkId(as, "session id");
  if (existing !== "fail" && existing !== "skip") {
    throw invalidArgument(`\`existing\` must be "fail" or "skip", got ${JSON.stringify(existing)}.`);
  }
  if (runs !== "halted" && runs !== "live") {
    throw invalidArgument(`\`runs\` must be "halted" or "live", got ${JSON.stringify(runs)}.`);
  }
  const ring = options.encryption && parseKeyRing(options.encryption);
  const tally = new ImportTally();
  let state: ImportState | undefined;
  try {
    const onBytes = (count: number): void => void (tally.bytes += count);
    const { header, sections } = await openBundle(context, source, { onBytes, ring });
    if (as !== undefined && header.kind !== "session" && header.kind !== "checkpoint") {
      throw invalidArgument("`as` is the id of one session, but the bundle contains an agent or a whole store.");
    }
    for await (const section of sections) {
      // Nothing is stored before the first section is proven to be valid.
      state ??= await createState(context, header, tally, { as, existing, runs });
      await importSection(context, section, state);
      tally.sections++;
      onProgress?.(progressOf(tally));
    }
    await state?.staging.release();
    const { sessions, conversations, skipped, halted, holes } = tally;
    return {
      ...progressOf(tally),
      kind: header.kind,
      sessions,
      conversations,
      skipped,
      halted: [...halted],
      holes,
    };
  } catch (error) {
    // An import of a damaged or conflicting bundle must not be resumed, so its staged data is released.
    const isFinal = isSavepointError(error, "DAMAGED") || isSavepointError(error, "CONFLICT");
    // If the release fails, garbage collection frees the staged data later. The caller gets the error of the import.
    if (isFinal) await state?.staging.release().catch(() => {});
    if (typeof source === "string") throw toFileError(error, source, "Importing");
    throw error;
  }
}

async function createState(
  context: Context,
  header: BundleHeader,
  tally: ImportTally,
  options: Pick<ImportState, "as" | "existing" | "runs">,
): Promise<ImportState> {
  const staging = await Staging.open(context, header);
  const pending = { pendingAgents: new Map(), skippedAgents: new Set<string>(), missingBlobs: new Set<string>() };
  const blobNames = new Map<string, string>();
  return { header, staging, tally, blobNames, ...options, ...pending };
}

/** Imports a section. Its lines are stored first, and become visible together. */
async function importSection(context: Context, section: BundleSection, state: ImportState): Promise<void> {
  const target = createSection(context, section, state);
  await target?.begin();
  for await (const line of section.lines()) {
    if ("hole" in line) {
      state.tally.holes.push({ place: describeHole(target?.owner, line.hole), reason: line.reason });
      if (typeof line.hole === "string") state.missingBlobs.add(line.hole);
    } else if ("blob" in line) await context.store.commit({ blobs: [readBlob(context, line, state.blobNames)] });
    else await target?.addLine(renameInLine(line, state.blobNames));
  }
  if (!section.isWithdrawn) await target?.finish();
}

/** `undefined` for the section that lists sessions which could not be exported at all: it has only holes. */
function createSection(
  context: Context,
  { start, hash }: BundleSection,
  state: ImportState,
): SectionImport | undefined {
  switch (start.begin) {
    case "session":
      return new SessionImport(context, start, hash, state);
    case "conversations":
      return new ConversationsImport(context, start, hash, state);
    case "holes":
      return undefined;
  }
}

function progressOf({ sections, checkpoints, items, bytes }: ImportTally): BundleProgress {
  return { sections, checkpoints, items, bytes };
}
