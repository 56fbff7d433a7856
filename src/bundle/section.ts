/** What the imports of all sections share. */
import { SavepointError } from "../errors.js";
import type { Context } from "../context.js";
import { moveMessage, type NumberMoves } from "../conversations/index.js";
import type { Check, Frame, Put } from "../store/index.js";
import type { BundleHole } from "./bundle.js";
import { type BundleFrame, type BundleHeader, type BundleLine, damagedBundle } from "./format.js";
import { stagedConflict, type Staging } from "./staging.js";

/**
 * The conversations of an agent whose own section is still to come. They become visible together with its checkpoints: otherwise
 * garbage collection would free messages that only the checkpoints reference.
 */
export interface PendingAgent {
  readonly agent: string;
  readonly moves: NumberMoves;
  /** Numbers of removed conversations that checkpoints of the agent still reference. */
  readonly removedConversations: readonly number[];
  readonly checks: readonly Check[];
  readonly puts: readonly Put[];
}

/** The state of an import, shared by its sections. */
export interface ImportState {
  readonly header: BundleHeader;
  readonly staging: Staging;
  readonly as: string | undefined;
  readonly existing: "fail" | "skip";
  readonly runs: "halted" | "live";
  readonly tally: ImportTally;
  readonly pendingAgents: Map<string, PendingAgent>;
  /** Agents that the store already has: everything of theirs is skipped. */
  readonly skippedAgents: Set<string>;
  /** Hashes of blobs that are missing in the bundle. */
  readonly missingBlobs: Set<string>;
  /** The names of blobs in this store, by those in the bundle, where they differ. */
  readonly blobNames: Map<string, string>;
}

/** What an import has done so far. */
export class ImportTally {
  sections = 0;
  checkpoints = 0;
  items = 0;
  bytes = 0;
  sessions = 0;
  conversations = 0;
  readonly skipped: string[] = [];
  /** The sessions whose unfinished runs were not queued. */
  readonly halted = new Set<string>();
  readonly holes: BundleHole[] = [];
}

/** The import of one section. Calls come in the order `begin`, `addLine` any number of times, `finish`. */
export interface SectionImport {
  /** The session or agent of the section, in words. */
  readonly owner: string;
  begin(): Promise<void>;
  /** Stages a line. Nothing of it is visible yet. */
  addLine(line: BundleLine): Promise<void>;
  /** Makes the section visible. */
  finish(): Promise<void>;
}

/** A line with items. */
export type ItemsLine = Extract<BundleLine, { items: unknown }>;

/** An item as the store has it. */
export function toFrame([json, refs = ""]: BundleFrame): Frame {
  return { json, refs };
}

/** The messages of a conversation, as the store has them under the number `target`. */
export function moveMessages([number, first, frames]: ItemsLine["items"], target: number): Frame[] {
  if (target === number) return frames.map(toFrame);
  // Ids of messages without an id of their own are derived from their first place, which must be kept.
  return frames.map((frame, index) => moveMessage(toFrame(frame), { number, seq: first + index }));
}

/** Stores items, except those that an earlier attempt has stored. */
export async function stageItems(
  { store }: Context,
  tape: string,
  first: number,
  items: readonly Frame[],
): Promise<void> {
  const found = await store.items([{ tape, start: first, count: items.length }]);
  const missing = new Map<number, Frame>();
  for (const [index, stored] of found.entries()) {
    const item = items[index] as Frame;
    if ("unreadable" in stored) missing.set(first + index, item);
    else if (stored.json !== item.json || stored.refs !== item.refs) throw stagedConflict();
  }
  if (missing.size === items.length) await store.commit({ items: [{ tape, first, items }] });
  else if (missing.size > 0) await store.heal(tape, missing);
}

/** The number in this store for a number of the bundle, which must be in its range: any other would overwrite data. */
export function renumber(number: number, { header, staging }: ImportState): number {
  const [lowest, highest] = header.numbers;
  if (Number.isSafeInteger(number) && number >= lowest && number <= highest) return number + staging.numberOffset;
  throw damagedBundle(`the number ${String(number)} is outside its range`);
}

/** The error of an id that the store uses for something else than the bundle. @param what begins the sentence */
export function importConflict(what: string, cause?: unknown): SavepointError<"CONFLICT"> {
  return new SavepointError(
    "CONFLICT",
    `${what} already exists in the store, with other content than in the bundle. Delete it, import with { existing: "skip" }, or import a session under another id with { as }. Sections before it were imported.`,
    { cause },
  );
}
