/**
 * Reads a bundle section by section. A section is yielded only after its hash, which covers the bundle up to the end of the
 * section, and its content have been verified. Until then its lines are spooled, so an invalid section has no effect at all.
 */
import { isSavepointError } from "../errors.js";
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
 * Reads the header of a bundle, and then its sections.
 *
 * @param onBytes called with the length of every line
 * @throws `DAMAGED` if the bundle was changed, is incomplete or invalid, at the place where that is noticed
 */
export async function openBundle(
  source: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
  onBytes?: (count: number) => void,
): Promise<OpenedBundle> {
  const events = readBundle(source, onBytes);
  const first = await events.next();
  if (first.done || !("header" in first.value)) throw damagedBundle("it is empty");
  const { header } = first.value;
  return { header, sections: readSections(events, header) };
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
