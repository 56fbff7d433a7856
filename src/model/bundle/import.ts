/**
 * Taking a bundle into a store. Ids, parents and branches stay what they are; the numbers that things are stored under move
 * out of the way of those that the store has given already.
 *
 * Nothing of a section can be seen before all of it is there and its hash is right. An import that was interrupted goes on
 * when the same bundle is given again: what is there already is left out.
 */
import { createReadStream } from "node:fs";
import { isSavepointError, SavepointError } from "../../errors.js";
import { invalidArgument } from "../arguments.js";
import type { Context } from "../context.js";
import { checkId } from "../ids.js";
import { importKey, NEXT_NUMBER } from "../keys.js";
import type { BundleHole, BundleProgress } from "./export.js";
import { type BundleHeader, type BundleKind, brokenBundle, readBundle, type SectionStart } from "./format.js";
import { ConversationsImport } from "./import-conversations.js";
import { SessionImport } from "./import-session.js";
import type { ImportTally, Section, SectionOptions, Shift } from "./section.js";

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
  let shift: Shift | undefined;
  let section: Section | undefined;
  for await (const event of readBundle(toStream(source), (count) => (tally.bytes += count))) {
    if ("header" in event) {
      ({ header } = event);
      if (as !== undefined && header.kind !== "session" && header.kind !== "checkpoint") {
        throw invalidArgument("`as` names one session, and the bundle has more than one.");
      }
      shift = await reserveNumbers(context, header);
    } else if ("start" in event) {
      section = newSection(context, event.start, { shift: shift as Shift, as, existing, tally });
      await section.begin();
    } else if ("line" in event) await section?.take(event.line);
    else {
      await section?.finish();
      section = undefined;
      tally.sections++;
      onProgress?.(progressOf(tally));
    }
  }
  if (!header) throw brokenBundle("it is empty");
  await context.store.commit({ deletes: [importKey(header.id)] });
  const { sessions, conversations, skipped, holes } = tally;
  return { ...progressOf(tally), kind: header.kind, sessions, conversations, skipped, holes };
}

function newSection(context: Context, start: SectionStart, options: SectionOptions): Section {
  return start.begin === "session"
    ? new SessionImport(context, start, options)
    : new ConversationsImport(context, start, options);
}

/** By how much the numbers of a bundle move. Those that it gets are given to nobody else. */
async function reserveNumbers({ store }: Context, { id, numbers }: BundleHeader): Promise<Shift> {
  const [lowest, highest] = numbers;
  for (;;) {
    const [begun, counter] = await store.get([importKey(id), NEXT_NUMBER]);
    // It was interrupted: what is there already has these numbers.
    if (begun && "value" in begun) return { by: Number(begun.value), upTo: highest };
    if (counter && !("value" in counter)) {
      throw new SavepointError("DAMAGED", `Nothing can be imported: ${counter.unreadable}. Repair the store first.`);
    }
    const next = Number(counter?.value ?? 0);
    // All numbers that are given here are higher than those that came: checkpoints of agents may name either.
    const by = next <= lowest ? 0 : Math.max(next, highest + 1) - lowest;
    try {
      await store.commit({
        checks: [
          { key: importKey(id), value: undefined },
          { key: NEXT_NUMBER, value: counter?.value },
        ],
        puts: [
          { key: importKey(id), value: String(by) },
          { key: NEXT_NUMBER, value: String(Math.max(next, highest + by + 1)) },
        ],
      });
      return { by, upTo: highest };
    } catch (error) {
      // Somebody else took numbers: look again.
      if (!isSavepointError(error, "CONFLICT")) throw error;
    }
  }
}

function progressOf({ sections, checkpoints, items, bytes }: ImportTally): BundleProgress {
  return { sections, checkpoints, items, bytes };
}

export function toStream(source: BundleSource): AsyncIterable<Uint8Array> | Iterable<Uint8Array> {
  if (typeof source === "string") return createReadStream(source) as AsyncIterable<Uint8Array>;
  return source instanceof Uint8Array ? [source] : source;
}
