/** `Bundle`: what `sp.export()` returns. */
import { toFileError, replaceFile } from "../util/index.js";
import type { BundleKind, ItemHole } from "./format.js";

/** How far an export, an import or a verification has come. */
export interface BundleProgress {
  readonly sections: number;
  readonly checkpoints: number;
  readonly items: number;
  readonly bytes: number;
}

/** Something that could not be read when a bundle was written, and is missing in it. */
export interface BundleHole {
  /** The session or agent that it belongs to, and which part of it. */
  readonly place: string;
  readonly reason: string;
}

/** What a bundle contains. */
export interface BundleSummary extends BundleProgress {
  readonly id: string;
  readonly kind: BundleKind;
  /** In milliseconds since 1970. */
  readonly createdAt: number;
  readonly holes: readonly BundleHole[];
}

/** One pass over an export. */
export interface BundleStream {
  chunks(): AsyncGenerator<Uint8Array>;
  /** What was written so far; complete once all chunks were read. */
  summary(): BundleSummary;
}

/**
 * An export: a stream of bytes that any store can import. Read it with `for await`, or use one of the methods. Every read
 * exports again, with the current data.
 */
export class Bundle implements AsyncIterable<Uint8Array> {
  readonly #start: () => BundleStream;

  /** Use `sp.export()`. */
  constructor(start: () => BundleStream) {
    this.#start = start;
  }

  [Symbol.asyncIterator](): AsyncIterator<Uint8Array> {
    return this.#start().chunks();
  }

  /** The complete bundle in memory. */
  async bytes(): Promise<Uint8Array> {
    const chunks: Uint8Array[] = [];
    for await (const chunk of this) chunks.push(chunk);
    return Buffer.concat(chunks);
  }

  /** Writes the bundle to a file. The file is replaced atomically: if this fails, it is unchanged. */
  async save(path: string): Promise<BundleSummary> {
    const stream = this.#start();
    try {
      await replaceFile(path, stream.chunks());
    } catch (error) {
      throw toFileError(error, path, "Writing");
    }
    return stream.summary();
  }

  /** Passes the bundle to `write`, one chunk after another, and returns what it contains. */
  async pipe(write: (chunk: Uint8Array) => Promise<void> | void): Promise<BundleSummary> {
    const stream = this.#start();
    for await (const chunk of stream.chunks()) await write(chunk);
    return stream.summary();
  }
}

/** The place of a hole in words. @param owner the session or agent, if there is one */
export function describeHole(owner: string | undefined, hole: ItemHole | string): string {
  const part = typeof hole === "string" ? hole : describeItems(...hole);
  return owner ? `${owner}: ${part}` : part;
}

function describeItems(tape: number, first: number, count = 1): string {
  const items = count === 1 ? `item ${first}` : `items ${first} to ${first + count - 1}`;
  return `${items} of tape ${tape}`;
}
