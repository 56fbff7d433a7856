/**
 * A bundle: part of a store, or all of it, as one stream of lines that any store can take in.
 *
 * Every line is a JSON object. The first says what it is; then come sections, each of which begins, holds what belongs
 * together, and ends with the hash of everything before; the last line says that it is complete. So whoever reads it knows
 * at the end of every section that nothing before was changed, left out or put elsewhere.
 */
import { createHash, type Hash } from "node:crypto";
import { SavepointError } from "../errors.js";
import { invalidArgument } from "../util/index.js";
import type { NumberMoves } from "../conversations/index.js";

export const BUNDLE_FORMAT = 1;

/** What was exported. */
export type BundleKind = "checkpoint" | "session" | "agent" | "all";

export interface BundleHeader {
  readonly savepoint: "bundle";
  readonly format: number;
  readonly id: string;
  readonly kind: BundleKind;
  /** When it was made, in milliseconds since 1970. */
  readonly createdAt: number;
  /** The lowest and the highest number that anything in it may have; see keys.ts. */
  readonly numbers: readonly [lowest: number, highest: number];
  /** The hash of the rest of this line: nothing is stored before it is known to be right. */
  readonly sha256?: string;
}

/** A text with what it points at, where that is anything. */
export type BundleFrame = readonly [json: string, refs?: string];

/** What a section holds, line by line. Items come before the records that point at them. */
export type BundleLine =
  /** Of a session: the tape's number within it. Of conversations: the number of the conversation. */
  | { readonly items: readonly [tape: number, first: number, frames: readonly BundleFrame[]] }
  | { readonly blob: string; readonly bytes: string }
  /** What could not be read. */
  | { readonly hole: readonly [tape: number, item: number] | string; readonly reason: string }
  | { readonly row: number; readonly value: string; readonly refs?: string }
  | { readonly note: readonly [seq: number, name: string, value: string] }
  | { readonly attached: readonly [seq: number, name: string, value: string, refs: string] }
  /** How many items the tape of such values has. */
  | { readonly attachments: string }
  | { readonly branch: string; readonly value: string }
  | { readonly run: readonly [key: string, value: string] }
  | { readonly due: readonly [branch: string, value: string] }
  | { readonly session: string }
  | {
      readonly conversation: string;
      readonly value: string;
      /** How many items its tape has. */
      readonly count: number;
      readonly lastMessageAt: number;
      readonly firstTitle?: string;
    }
  | { readonly gone: number }
  /** What was changed while it was read: all lines of the section so far do not count, and it comes again or not at all. */
  | { readonly again: true };

/** How a section begins. */
export type SectionStart = SessionStart | ConversationsStart | { readonly begin: "holes" };

export interface SessionStart {
  readonly begin: "session";
  readonly id: string;
  readonly number: number;
  readonly createdAt: number;
}

export interface ConversationsStart {
  readonly begin: "conversations";
  /** Missing for conversations that belong to no agent. */
  readonly agent?: string;
  /** When the agent was first saved; missing where it never was. */
  readonly agentCreatedAt?: number;
  readonly moves: NumberMoves;
  readonly conversations: readonly (readonly [id: string, createdAt: number, number: number])[];
}

/** Makes the lines of a bundle, and keeps the hash. */
export class BundleWriter {
  readonly #hash: Hash = createHash("sha256");
  #sections = 0;

  header(header: BundleHeader): Buffer {
    return this.#write({ ...header, sha256: hashOf(header) });
  }

  line(value: SectionStart | BundleLine): Buffer {
    return this.#write(value);
  }

  endSection(): Buffer {
    this.#sections++;
    return this.#write({ end: this.#sections, sha256: this.#hash.copy().digest("hex") });
  }

  complete(): Buffer {
    return this.#write({ complete: this.#sections, sha256: this.#hash.copy().digest("hex") });
  }

  #write(value: object): Buffer {
    const bytes = Buffer.from(`${JSON.stringify(value)}\n`);
    this.#hash.update(bytes);
    return bytes;
  }
}

/** What a reader gets, in this order. What comes before an `end` is only good once that has come. */
export type BundleEvent =
  | { readonly header: BundleHeader }
  | { readonly start: SectionStart }
  | { readonly line: BundleLine }
  | { readonly end: true };

const NEWLINE = 10;

/** Reads a bundle. `DAMAGED` for one that was changed or is not whole; nothing behind the damage is given. */
export async function* readBundle(
  source: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
  onBytes: (count: number) => void = () => {},
): AsyncGenerator<BundleEvent> {
  const hash = createHash("sha256");
  let sections = 0;
  let isComplete = false;
  let header: BundleHeader | undefined;
  let inSection = false;
  for await (const bytes of linesOf(source)) {
    if (isComplete) throw damagedBundle("there is something behind its end");
    const value = parse(bytes);
    const sum = (): string => hash.copy().digest("hex");
    onBytes(bytes.length + 1);
    if (!header) {
      header = checkHeader(value);
      yield { header };
    } else if ("complete" in value) {
      if (value["sha256"] !== sum() || value["complete"] !== sections || inSection) throw changed();
      isComplete = true;
    } else if ("end" in value) {
      sections++;
      if (value["sha256"] !== sum() || value["end"] !== sections || !inSection) throw changed();
      inSection = false;
      yield { end: true };
    } else if ("begin" in value) {
      if (inSection) throw changed();
      inSection = true;
      yield { start: value as unknown as SectionStart };
    } else {
      if (!inSection) throw changed();
      yield { line: value as unknown as BundleLine };
    }
    hash.update(bytes).update("\n");
  }
  if (!isComplete)
    throw damagedBundle("its end is missing. What it holds up to there was taken; give the whole one to go on");
}

/** The lines of a stream, without their ends. */
async function* linesOf(source: AsyncIterable<Uint8Array> | Iterable<Uint8Array>): AsyncGenerator<Buffer> {
  let begun: Buffer[] = [];
  for await (const chunk of source) {
    if (!((chunk as unknown) instanceof Uint8Array)) throw invalidArgument("A bundle is a stream of bytes.");
    const bytes = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength);
    let from = 0;
    for (let end = bytes.indexOf(NEWLINE, from); end >= 0; end = bytes.indexOf(NEWLINE, from)) {
      const line = bytes.subarray(from, end);
      yield begun.length > 0 ? Buffer.concat([...begun, line]) : line;
      begun = [];
      from = end + 1;
    }
    if (from < bytes.length) begun.push(Buffer.from(bytes.subarray(from)));
  }
  if (begun.length > 0) throw damagedBundle("it ends in the middle of a line");
}

function parse(bytes: Buffer): Record<string, unknown> {
  let value: unknown;
  try {
    value = JSON.parse(bytes.toString("utf8"));
  } catch (error) {
    throw damagedBundle("a line is unreadable", error);
  }
  if (typeof value !== "object" || value === null) throw damagedBundle("a line is unreadable");
  return value as Record<string, unknown>;
}

function checkHeader({ sha256, ...header }: Record<string, unknown>): BundleHeader {
  if (header["savepoint"] !== "bundle") {
    throw new SavepointError("NOT_A_STORE", "This is no bundle. Give what sp.export() or sp.backup() has written.");
  }
  const format = Number(header["format"]);
  if (format > BUNDLE_FORMAT) {
    throw new SavepointError(
      "STORE_TOO_NEW",
      `The bundle was written by a newer version of Savepoint (its format is ${format}, this version knows ${BUNDLE_FORMAT}). Update the package.`,
      { details: { found: format, supported: BUNDLE_FORMAT } },
    );
  }
  const known = header as unknown as BundleHeader;
  const numbers: unknown = known.numbers;
  const isRange =
    Array.isArray(numbers) && numbers.length === 2 && numbers.every((n) => Number.isSafeInteger(n) && n >= 0);
  if (sha256 !== hashOf(known) || !isRange || known.numbers[0] > known.numbers[1]) throw changed();
  return known;
}

function hashOf(header: BundleHeader): string {
  return createHash("sha256").update(JSON.stringify(header)).digest("hex");
}

function changed(): SavepointError<"DAMAGED"> {
  return damagedBundle("it was changed since it was written");
}

export function damagedBundle(why: string, cause?: unknown): SavepointError<"DAMAGED"> {
  return new SavepointError("DAMAGED", `The bundle cannot be used: ${why}.`, { cause });
}
