/**
 * The format of a bundle: a part of a store, or all of it, as a stream of lines that any store can import.
 *
 * Every line is a JSON object. The first line is the header. Then come sections: a start line, the lines of one session or of
 * the conversations of one agent, and an end line with the hash of everything before it. The last line marks the bundle as
 * complete. So at the end of every section a reader knows that nothing before it was changed, removed or moved.
 */
import { createHash, type Hash } from "node:crypto";
import { SavepointError } from "../errors.js";
import { parseStoredJson } from "../state/index.js";
import { invalidArgument, isCounter, isNumber, isString, objectOf, oneOf, tupleOf } from "../util/index.js";
import type { NumberMoves } from "../conversations/index.js";

/** The format that this version writes. It reads no newer ones. */
export const BUNDLE_FORMAT = 1;

/** What was exported: one checkpoint, one session, one agent, or the whole store. */
export type BundleKind = "checkpoint" | "session" | "agent" | "all";

/** The first line of a bundle. */
export interface BundleHeader {
  readonly savepoint: "bundle";
  readonly format: number;
  readonly id: string;
  readonly kind: BundleKind;
  /** In milliseconds since 1970. */
  readonly createdAt: number;
  /** The lowest and the highest number that a session or conversation in it may have; see records/keys.ts. */
  readonly numbers: readonly [lowest: number, highest: number];
  /** The hash of the rest of this line: it is checked before anything is stored. */
  readonly sha256?: string;
}

/** Encoded JSON, and the references in it if there are any. */
export type BundleFrame = readonly [json: string, refs?: string];

/** Consecutive items that could not be read; one by default. */
export type ItemHole = readonly [tape: number, first: number, count?: number];

/** A line of a section. Items come before the records that reference them. */
export type BundleLine =
  /** Consecutive items of a tape. `tape` is the number of a tape of the session, or the number of a conversation. */
  | { readonly items: readonly [tape: number, first: number, frames: readonly BundleFrame[]] }
  | { readonly blob: string; readonly bytes: string }
  /** Something that could not be read. */
  | { readonly hole: ItemHole | string; readonly reason: string }
  /** A checkpoint, by seq. */
  | { readonly row: number; readonly value: string; readonly refs?: string }
  /** A label or pin that was set after the checkpoint was saved. */
  | { readonly note: readonly [seq: number, name: string, value: string] }
  /** An annotation of a checkpoint. */
  | { readonly attached: readonly [seq: number, name: string, value: string, refs: string] }
  /** The number of items on the tape of annotations. */
  | { readonly attachments: string }
  | { readonly branch: string; readonly value: string }
  /** A record of a run, by its key without the prefix that all runs of the session share. */
  | { readonly run: readonly [key: string, value: string] }
  /** A queue entry. */
  | { readonly due: readonly [branch: string, value: string] }
  /** The session record, always last. */
  | { readonly session: string }
  | {
      readonly conversation: string;
      readonly value: string;
      /** The number of items on its tape. */
      readonly count: number;
      readonly lastMessageAt: number;
      readonly firstTitle?: string;
    }
  /** The number of a removed conversation, whose messages checkpoints of the agent still reference. */
  | { readonly gone: number }
  /** The section changed while it was exported: readers discard its lines so far. It follows again, or was deleted. */
  | { readonly again: true };

/** The first line of a section. */
export type SectionStart = SessionStart | ConversationsStart | { readonly begin: "holes" };

/** The lines of a section as they are exported. */
export type SectionLines = AsyncGenerator<SectionStart | BundleLine>;

/** Starts the section of a session, or of the history of an agent. */
export interface SessionStart {
  readonly begin: "session";
  readonly id: string;
  readonly number: number;
  readonly createdAt: number;
}

/** Starts the section of the conversations of an agent. */
export interface ConversationsStart {
  readonly begin: "conversations";
  /** Missing for conversations that belong to no agent. */
  readonly agent?: string;
  /** When the agent was first saved; missing if it never was. */
  readonly agentCreatedAt?: number;
  readonly moves: NumberMoves;
  readonly conversations: readonly (readonly [id: string, createdAt: number, number: number])[];
}

/** Encodes the lines of a bundle, in order, and keeps the running hash. */
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

/** An event of reading a bundle. Lines of a section may be used only after its `end`, which proves that they are unchanged. */
export type BundleEvent =
  | { readonly header: BundleHeader }
  | { readonly start: SectionStart }
  | { readonly line: BundleLine; readonly bytes: Buffer }
  /** The end of a section, and the hash of the bundle up to there. */
  | { readonly end: true; readonly hash: string };

const NEWLINE = 10;
/** The highest number in a bundle. It limits how far an import raises the store's counter, so no bundle can exhaust it. */
const MAX_BUNDLE_NUMBER = 2 ** 32;
/** The longest line, in bytes. Node cannot hold a longer string. */
const MAX_LINE = 2 ** 29;

/**
 * Reads a bundle line by line.
 *
 * @param onBytes called with the length of every line
 * @throws `DAMAGED` if it was changed or is incomplete; nothing after the damage is yielded
 */
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
    if (isComplete) throw damagedBundle("it has data after its end");
    const value = parseLine(bytes);
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
      yield { end: true, hash: sum() };
    } else if ("begin" in value) {
      if (inSection) throw changed();
      inSection = true;
      yield { start: value as unknown as SectionStart };
    } else {
      if (!inSection) throw changed();
      yield { line: value as unknown as BundleLine, bytes };
    }
    hash.update(bytes).update("\n");
  }
  if (!isComplete) {
    throw damagedBundle("its end is missing. Complete sections were processed; use the complete bundle to continue");
  }
}

/** Splits a stream into lines, without their newlines. */
export async function* linesOf(source: AsyncIterable<Uint8Array> | Iterable<Uint8Array>): AsyncGenerator<Buffer> {
  let partial: Buffer[] = [];
  let length = 0;
  for await (const chunk of source) {
    if (!((chunk as unknown) instanceof Uint8Array))
      throw invalidArgument("A bundle must be a stream of Uint8Array chunks.");
    const bytes = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength);
    let from = 0;
    for (let end = bytes.indexOf(NEWLINE, from); end >= 0; end = bytes.indexOf(NEWLINE, from)) {
      const line = bytes.subarray(from, end);
      yield partial.length > 0 ? Buffer.concat([...partial, line]) : line;
      partial = [];
      from = end + 1;
    }
    if (from < bytes.length) partial.push(Buffer.from(bytes.subarray(from)));
    length = partial.length === 0 ? 0 : from === 0 ? length + bytes.length : bytes.length - from;
    if (length > MAX_LINE) throw damagedBundle("a line is too long");
  }
  if (partial.length > 0) throw damagedBundle("it ends in the middle of a line");
}

export function parseLine(bytes: Buffer): Record<string, unknown> {
  let value: unknown;
  try {
    value = parseStoredJson(bytes.toString("utf8"));
  } catch (error) {
    throw damagedBundle("a line is not valid JSON, or is nested too deeply", error);
  }
  if (typeof value !== "object" || value === null) throw damagedBundle("a line is not a JSON object");
  return value as Record<string, unknown>;
}

const isHeader = objectOf({
  id: isString,
  kind: oneOf("checkpoint", "session", "agent", "all"),
  createdAt: isNumber,
  numbers: tupleOf(isCounter, isCounter),
});

function checkHeader({ sha256, ...header }: Record<string, unknown>): BundleHeader {
  if (header["savepoint"] !== "bundle") {
    throw new SavepointError(
      "NOT_A_STORE",
      "This is not a bundle. Use a file that sp.export() or sp.backup() has written.",
    );
  }
  const format = Number(header["format"]);
  if (format > BUNDLE_FORMAT) {
    throw new SavepointError(
      "STORE_TOO_NEW",
      `The bundle was written by a newer version of Savepoint (format ${format}; this version reads formats up to ${BUNDLE_FORMAT}). Update the package.`,
      { details: { found: format, supported: BUNDLE_FORMAT } },
    );
  }
  const parsed = header as unknown as BundleHeader;
  if (sha256 !== hashOf(parsed) || !isHeader(parsed) || parsed.numbers[0] > parsed.numbers[1]) throw changed();
  if (parsed.numbers[1] > MAX_BUNDLE_NUMBER) throw damagedBundle("its numbers are too large");
  return parsed;
}

/** The hash of a header. */
export function hashOf(header: BundleHeader): string {
  return createHash("sha256").update(JSON.stringify(header)).digest("hex");
}

function changed(): SavepointError<"DAMAGED"> {
  return damagedBundle("it was changed after it was written");
}

/** The error of a bundle that cannot be read any further. @param why completes the sentence */
export function damagedBundle(why: string, cause?: unknown): SavepointError<"DAMAGED"> {
  return new SavepointError("DAMAGED", `The bundle is damaged: ${why}.`, { cause });
}
