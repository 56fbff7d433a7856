/**
 * Reads a bundle section by section. A section is yielded only after its hash, which covers the bundle up to the end of the
 * section, and its content have been verified. Until then its lines are spooled, so an invalid section has no effect at all.
 */
import { createReadStream } from "node:fs";
import type { Context } from "../context.js";
import { type KeyRing, unsealStream } from "../encryption/index.js";
import { isSavepointError, type SavepointError } from "../errors.js";
import { invalidArgument } from "../util/index.js";
import {
  type BundleHeader,
  type BundleLine,
  damagedBundle,
  parseLine,
  readBundle,
  type SectionStart,
} from "./format.js";
import { Spool } from "./spool.js";
import { validateSection, validateStart } from "./validate-section.js";

/** A bundle: its bytes, a stream of them, or the path of a file. */
export type BundleSource = Uint8Array | AsyncIterable<Uint8Array> | Iterable<Uint8Array> | string;

/** How a bundle is read. */
export interface OpenBundleOptions {
  readonly onBytes?: (count: number) => void;
  /**
   * The keys of the bundle, which must be sealed then.
   * @default those of the store; the bundle need not be sealed
   */
  readonly ring?: KeyRing | undefined;
}

/** A section whose hash and content have been verified. */
export interface BundleSection {
  readonly start: SectionStart;
  /** The hash of the bundle up to the end of this section. */
  readonly hash: string;
  /** Whether the session or the agent was deleted during the export. Then the section has only lines of blobs. */
  readonly isWithdrawn: boolean;
  /** Its lines, without those of export attempts that were abandoned and repeated. They can be read any number of times. */
  readonly lines: () => AsyncGenerator<BundleLine>;
}

/** A bundle whose header was read. */
export interface OpenedBundle {
  readonly header: BundleHeader;
  /** The sections. Each can be used until the next one is requested. */
  readonly sections: AsyncGenerator<BundleSection>;
}

/**
 * Reads the header of a bundle, and then its sections. Decrypts a sealed one.
 *
 * @param options.onBytes called with the length of every line
 * @throws `DAMAGED` if the bundle was changed, is incomplete or invalid, at the place where that is noticed
 * @throws `KEY_REQUIRED`, `WRONG_KEY` or `NOT_ENCRYPTED` if the key does not fit the bundle
 */
export async function openBundle(
  context: Context,
  source: BundleSource,
  { onBytes, ...unseal }: OpenBundleOptions = {},
): Promise<OpenedBundle> {
  const events = readBundle(unsealBundle(context, source, unseal), onBytes);
  const first = await events.next();
  if (first.done || !("header" in first.value)) throw damagedBundle("it is empty");
  const { header } = first.value;
  return { header, sections: readSections(events, header) };
}

/** The bytes of a bundle, decrypted. */
export function unsealBundle(
  { encryption }: Context,
  source: BundleSource,
  { ring }: Pick<OpenBundleOptions, "ring"> = {},
): AsyncGenerator<Uint8Array> {
  return unsealStream(toStream(source), { ring: ring ?? encryption.ring, required: ring !== undefined });
}

/** Whether an error says that the key of a bundle is missing: then nothing is known about its content. */
export function isLockedBundle(error: unknown): error is SavepointError<"KEY_REQUIRED" | "WRONG_KEY"> {
  return isSavepointError(error, "KEY_REQUIRED") || isSavepointError(error, "WRONG_KEY");
}

/** The bytes of a bundle as a stream. */
function toStream(source: BundleSource): AsyncIterable<Uint8Array> | Iterable<Uint8Array> {
  if (typeof source === "string") return createReadStream(source) as AsyncIterable<Uint8Array>;
  if (source instanceof Uint8Array) return [source];
  const unchecked: unknown = source;
  const isObject = typeof unchecked === "object" && unchecked !== null;
  if (isObject && (Symbol.asyncIterator in unchecked || Symbol.iterator in unchecked)) return source;
  throw invalidArgument("A bundle must be a Uint8Array, a stream of them, or the path of a file.");
}

async function* readSections(
  events: ReturnType<typeof readBundle>,
  header: BundleHeader,
): AsyncGenerator<BundleSection> {
  // A blob is written only once, even if the section that it was written for is started again.
  const [blobs, others] = [new Spool(), new Spool()];
  let start: SectionStart | undefined;
  let isWithdrawn = false;
  const lines = async function* (): AsyncGenerator<BundleLine> {
    for await (const bytes of blobs.lines()) yield parseLine(bytes) as unknown as BundleLine;
    for await (const bytes of others.lines()) yield parseLine(bytes) as unknown as BundleLine;
  };
  try {
    for await (const event of events) {
      if ("start" in event) {
        start = await rejectMalformed(async () => validateStart(event.start, header));
        isWithdrawn = false;
        blobs.clear();
        others.clear();
      } else if ("line" in event) {
        isWithdrawn = "again" in event.line;
        if (isWithdrawn) others.clear();
        else await ("blob" in event.line ? blobs : others).add(event.bytes);
      } else if ("end" in event && start) {
        const current = start;
        await rejectMalformed(() => validateSection(current, lines(), header));
        yield { start, hash: event.hash, isWithdrawn, lines };
      }
    }
  } finally {
    await Promise.all([blobs.close(), others.close()]);
  }
}

/** Turns what is wrong with the content of a bundle into `DAMAGED`. Errors of the operating system are not changed. */
async function rejectMalformed<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (isSavepointError(error, "DAMAGED") || (error as NodeJS.ErrnoException).syscall !== undefined) throw error;
    throw damagedBundle("a line is invalid", error);
  }
}
