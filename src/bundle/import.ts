/**
 * Taking a bundle into a store. Ids, parents and branches stay what they are; the numbers that things are stored under move
 * out of the way of those that the store has given already.
 *
 * Nothing of a section can be seen before all of it is there and its hash is right. An import that was interrupted goes on
 * when the same bundle is given again: what is there already is left out.
 */
import { createReadStream } from "node:fs";
import { isSavepointError } from "../errors.js";
import { validateFields, toFileError, invalidArgument } from "../util/index.js";
import type { Context } from "../context.js";
import { checkId } from "../records/index.js";
import { type BundleHole, type BundleProgress, describeHole } from "./export.js";
import {
  damagedBundle,
  type BundleHeader,
  type BundleKind,
  type BundleLine,
  readBundle,
  type SectionStart,
} from "./format.js";
import { ConversationsImport } from "./import-conversations.js";
import { SessionImport } from "./import-session.js";
import type { ImportState, ImportTally, SectionImport } from "./section.js";
import { Staging } from "./staging.js";

/** A bundle: its bytes, a stream of them, or the path of a file. */
export type BundleSource = Uint8Array | AsyncIterable<Uint8Array> | Iterable<Uint8Array> | string;

export interface ImportOptions {
  /**
   * The id that a session gets, where the bundle has only one.
   * @default the one that it had
   */
  readonly as?: string;
  /**
   * What becomes of sessions and conversations whose ids are taken by others: `"fail"` refuses with `CONFLICT`, `"skip"`
   * leaves those out. What was imported before is left out in any case.
   * @default "fail"
   */
  readonly existing?: "fail" | "skip";
  /** Told as it goes on. */
  readonly onProgress?: (progress: BundleProgress) => void;
}

export interface ImportResult extends BundleProgress {
  readonly kind: BundleKind;
  readonly sessions: number;
  readonly conversations: number;
  /** The ids of sessions, agents and conversations that were there already. */
  readonly skipped: readonly string[];
  /** What the bundle does not have, because it could not be read when it was made. */
  readonly holes: readonly BundleHole[];
}

export async function importBundle(
  context: Context,
  source: BundleSource,
  options: ImportOptions = {},
): Promise<ImportResult> {
  validateFields(options, "An import", FIELDS);
  const { as, existing = "fail", onProgress } = options;
  if (as !== undefined) checkId(as, "session id");
  if (existing !== "fail" && existing !== "skip") throw invalidArgument('`existing` is "fail" or "skip".');
  const tally: ImportTally = {
    sections: 0,
    checkpoints: 0,
    items: 0,
    bytes: 0,
    sessions: 0,
    conversations: 0,
    skipped: [],
    holes: [],
  };
  let header: BundleHeader | undefined;
  let staging: Staging | undefined;
  let state: ImportState | undefined;
  let section: SectionImport | undefined;
  try {
    for await (const event of readBundle(toStream(source), (count) => (tally.bytes += count))) {
      if ("header" in event) {
        ({ header } = event);
        if (as !== undefined && header.kind !== "session" && header.kind !== "checkpoint") {
          throw invalidArgument("`as` names one session, and the bundle has more than one.");
        }
        staging = await Staging.open(context, header);
        state = newState(header, staging, as, existing, tally);
      } else if (!state) throw damagedBundle("it has no header");
      else if ("start" in event) {
        const begun = state;
        section = await meaningful(async () => {
          const next = newSection(context, event.start, begun);
          await next.begin();
          return next;
        });
      } else if ("line" in event) {
        if ("again" in event.line) section?.discardLines();
        else await meaningful(async () => section?.addLine(event.line));
      } else {
        await meaningful(async () => section?.finish());
        section = undefined;
        tally.sections++;
        onProgress?.(progressOf(tally));
      }
    }
  } catch (error) {
    // What was changed, or left by something else, must not be gone on with.
    const isHopeless = isSavepointError(error, "DAMAGED") || isSavepointError(error, "CONFLICT");
    // If that fails, garbage collection frees it later; the error to report is the one that made the import fail.
    if (isHopeless) await staging?.release().catch(() => {});
    if (typeof source === "string") throw toFileError(error, source, "Importing");
    throw error;
  }
  if (!header || !staging) throw damagedBundle("it is empty");
  await staging.release();
  const { sessions, conversations, skipped, holes } = tally;
  return { ...progressOf(tally), kind: header.kind, sessions, conversations, skipped, holes };
}

const FIELDS = new Set(["as", "existing", "onProgress"]);

function newState(
  { numbers }: BundleHeader,
  staging: Staging,
  as: string | undefined,
  existing: "fail" | "skip",
  tally: ImportTally,
): ImportState {
  return {
    numberOffset: staging.numberOffset,
    numbers,
    as,
    existing,
    tally,
    pendingAgents: new Map(),
    skippedAgents: new Set(),
    missingBlobs: new Set(),
    reserveNumber: (number) => staging.reserveNumber(number),
  };
}

function newSection(context: Context, start: SectionStart, state: ImportState): SectionImport {
  switch (start.begin) {
    case "session":
      return new SessionImport(context, start, state);
    case "conversations":
      return new ConversationsImport(context, start, state);
    case "holes":
      return new HolesImport(state.tally);
    default:
      throw damagedBundle("it has a section that makes no sense");
  }
}

/** Lines are looked at before it is known that nothing was changed: what makes no sense was. */
async function meaningful<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (isSavepointError(error) || (error as NodeJS.ErrnoException).syscall !== undefined) throw error;
    throw damagedBundle("a line makes no sense", error);
  }
}

/** What could not be exported at all. */
class HolesImport implements SectionImport {
  readonly #tally: ImportTally;

  constructor(tally: ImportTally) {
    this.#tally = tally;
  }

  async begin(): Promise<void> {}

  discardLines(): void {}

  async addLine(line: BundleLine): Promise<void> {
    if ("hole" in line) this.#tally.holes.push({ place: describeHole(undefined, line.hole), reason: line.reason });
  }

  async finish(): Promise<void> {}
}

function progressOf({ sections, checkpoints, items, bytes }: ImportTally): BundleProgress {
  return { sections, checkpoints, items, bytes };
}

export function toStream(source: BundleSource): AsyncIterable<Uint8Array> | Iterable<Uint8Array> {
  if (typeof source === "string") return createReadStream(source) as AsyncIterable<Uint8Array>;
  if (source instanceof Uint8Array) return [source];
  const given: unknown = source;
  if (typeof given === "object" && given !== null && (Symbol.asyncIterator in given || Symbol.iterator in given)) {
    return source;
  }
  throw invalidArgument("A bundle is given as bytes, as a stream of bytes, or as the path of a file.");
}
