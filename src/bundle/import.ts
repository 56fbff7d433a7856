/**
 * Imports bundles. Ids, parents and branches are preserved. The internal numbers of sessions and conversations are shifted, so that
 * they do not collide with the numbers in the store.
 *
 * A section becomes visible as a whole, after all its lines are stored and its hash is verified. To resume an interrupted import,
 * the same bundle is imported again; everything that is already stored is skipped.
 */
import { createReadStream } from "node:fs";
import { isSavepointError } from "../errors.js";
import type { Context } from "../context.js";
import { checkId } from "../records/index.js";
import { validateFields, toFileError, invalidArgument } from "../util/index.js";
import { type BundleHole, type BundleProgress, describeHole } from "./bundle.js";
import { type BundleKind, damagedBundle, readBundle, type SectionStart } from "./format.js";
import { ConversationsImport } from "./import-conversations.js";
import { SessionImport } from "./import-session.js";
import { type ImportState, ImportTally, type SectionImport, stageBlob } from "./section.js";
import { Staging } from "./staging.js";

/** A bundle: its bytes, a stream of them, or the path of a file. */
export type BundleSource = Uint8Array | AsyncIterable<Uint8Array> | Iterable<Uint8Array> | string;

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
  /** The parts that the bundle lacks, because they could not be read when the bundle was exported. */
  readonly holes: readonly BundleHole[];
}

const FIELDS = new Set(["as", "existing", "onProgress"]);

/** Imports a bundle, one section after another; see `sp.import()`. */
export async function importBundle(
  context: Context,
  source: BundleSource,
  options: ImportOptions = {},
): Promise<ImportResult> {
  validateFields(options, "The options of an import", FIELDS);
  const { as, existing = "fail", onProgress } = options;
  if (as !== undefined) checkId(as, "session id");
  if (existing !== "fail" && existing !== "skip") {
    throw invalidArgument(`\`existing\` must be "fail" or "skip", got ${JSON.stringify(existing)}.`);
  }
  const tally = new ImportTally();
  let state: ImportState | undefined;
  let section: SectionImport | undefined;
  let sectionHoles: BundleHole[] = [];
  try {
    for await (const event of readBundle(toStream(source), (count) => (tally.bytes += count))) {
      if ("header" in event) {
        const { header } = event;
        if (as !== undefined && header.kind !== "session" && header.kind !== "checkpoint") {
          throw invalidArgument("`as` is the id of one session, but the bundle contains an agent or a whole store.");
        }
        state = {
          header,
          staging: await Staging.open(context, header),
          as,
          existing,
          tally,
          pendingAgents: new Map(),
          skippedAgents: new Set(),
          missingBlobs: new Set(),
        };
      } else if (!state) throw damagedBundle("it has no header");
      else if ("start" in event) {
        const current = state;
        sectionHoles = [];
        section = await rejectMalformed(async () => {
          const next = createSection(context, event.start, current);
          await next?.begin();
          return next;
        });
      } else if ("line" in event) {
        const { line } = event;
        const { missingBlobs } = state;
        await rejectMalformed(async () => {
          if ("again" in line) {
            sectionHoles = [];
            section?.discardLines();
          } else if ("hole" in line) {
            sectionHoles.push({ place: describeHole(section?.owner, line.hole), reason: line.reason });
            if (typeof line.hole === "string") missingBlobs.add(line.hole);
          } else if ("blob" in line) await stageBlob(context, line.blob, line.bytes);
          else await section?.addLine(line);
        });
      } else {
        tally.holes.push(...sectionHoles);
        await rejectMalformed(async () => section?.finish());
        section = undefined;
        tally.sections++;
        onProgress?.(progressOf(tally));
      }
    }
  } catch (error) {
    // An import of a damaged or conflicting bundle must not be resumed, so its staged data is released.
    const isFinal = isSavepointError(error, "DAMAGED") || isSavepointError(error, "CONFLICT");
    // If the release fails, garbage collection frees the staged data later. The caller gets the error of the import.
    if (isFinal) await state?.staging.release().catch(() => {});
    if (typeof source === "string") throw toFileError(error, source, "Importing");
    throw error;
  }
  if (!state) throw damagedBundle("it is empty");
  await state.staging.release();
  const { sessions, conversations, skipped, holes } = tally;
  return { ...progressOf(tally), kind: state.header.kind, sessions, conversations, skipped, holes };
}

/** `undefined` for the section that lists sessions which could not be exported at all: it has only holes. */
function createSection(context: Context, start: SectionStart, state: ImportState): SectionImport | undefined {
  switch (start.begin) {
    case "session":
      return new SessionImport(context, start, state);
    case "conversations":
      return new ConversationsImport(context, start, state);
    case "holes":
      return undefined;
    default:
      throw damagedBundle("it has a section of an unknown kind");
  }
}

/**
 * Runs `work`, and turns an unexpected error into `DAMAGED`. Lines are decoded before their hash is verified, so an unexpected
 * error while decoding means that the lines were changed. Errors of Savepoint and of the operating system are not changed.
 */
async function rejectMalformed<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (isSavepointError(error) || (error as NodeJS.ErrnoException).syscall !== undefined) throw error;
    throw damagedBundle("a line is invalid", error);
  }
}

function progressOf({ sections, checkpoints, items, bytes }: ImportTally): BundleProgress {
  return { sections, checkpoints, items, bytes };
}

/** The bytes of a bundle as a stream. */
export function toStream(source: BundleSource): AsyncIterable<Uint8Array> | Iterable<Uint8Array> {
  if (typeof source === "string") return createReadStream(source) as AsyncIterable<Uint8Array>;
  if (source instanceof Uint8Array) return [source];
  const unchecked: unknown = source;
  const isObject = typeof unchecked === "object" && unchecked !== null;
  if (isObject && (Symbol.asyncIterator in unchecked || Symbol.iterator in unchecked)) return source;
  throw invalidArgument("A bundle must be a Uint8Array, a stream of them, or the path of a file.");
}
