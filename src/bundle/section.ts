/** What a section of a bundle becomes. */
import { SavepointError } from "../errors.js";
import { hashBytes } from "../state/index.js";
import type { Context } from "../context.js";
import type { Check, Frame, Put } from "../store/index.js";
import type { NumberMoves } from "../conversations/index.js";
import type { BundleHole } from "./export.js";
import { damagedBundle, type BundleFrame, type BundleHeader, type BundleLine } from "./format.js";

/** What comes with an agent, until the agent itself does: how its checkpoints are to be read, and what only they have. */
export interface PendingAgent {
  readonly moves: NumberMoves;
  readonly removedConversations: readonly number[];
  /** Its conversations: seen before its checkpoints are, they would be freed of what only those have. */
  readonly checks: readonly Check[];
  readonly puts: readonly Put[];
}

/** What all sections of an import share. */
export interface ImportState {
  /** By how much numbers move. */
  readonly numberOffset: number;
  readonly numbers: BundleHeader["numbers"];
  readonly as: string | undefined;
  readonly existing: "fail" | "skip";
  readonly tally: ImportTally;
  readonly pendingAgents: Map<string, PendingAgent>;
  /** Agents that were there already: nothing of them is taken. */
  readonly skippedAgents: Set<string>;
  /** Bytes that the bundle does not have. */
  readonly missingBlobs: Set<string>;
  /** Notes that something is stored under a number, so that it can be freed if the import is never finished. */
  reserveNumber(number: number): Promise<void>;
}

/** What an import has done so far. */
export interface ImportTally {
  sections: number;
  checkpoints: number;
  items: number;
  bytes: number;
  sessions: number;
  conversations: number;
  readonly skipped: string[];
  readonly holes: BundleHole[];
}

export interface SectionImport {
  begin(): Promise<void>;
  /** Takes a line. What it says must not be seen yet. */
  addLine(line: BundleLine): Promise<void>;
  /** What was taken so far does not count: it comes again. */
  discardLines(): void;
  /** All of it is there, and nothing was changed: now it counts. */
  finish(): Promise<void>;
}

export function toFrame([json, refs = ""]: BundleFrame): Frame {
  return { json, refs };
}

/** Stores items, unless they are there from an earlier try. */
export async function stageItems(
  { store }: Context,
  tape: string,
  first: number,
  items: readonly Frame[],
): Promise<void> {
  const found = await store.items([{ tape, start: first, count: items.length }]);
  const missing = new Map<number, Frame>();
  for (const [index, there] of found.entries()) {
    const item = items[index] as Frame;
    if ("unreadable" in there) missing.set(first + index, item);
    else if (there.json !== item.json || there.refs !== item.refs) throw otherStage();
  }
  if (missing.size === items.length) await store.commit({ items: [{ tape, first, items }] });
  else if (missing.size > 0) await store.heal(tape, missing);
}

/** An earlier try has stored something else under the same numbers: it had another bundle that said it was this one. */
function otherStage(): SavepointError<"CONFLICT"> {
  return new SavepointError(
    "CONFLICT",
    "An earlier import of this bundle was interrupted, and has left something else. That is freed now; import again.",
  );
}

/** Checks a number in a bundle: what is not in its range would be stored in the place of something else. */
export function checkNumber(number: number, { numbers: [lowest, highest] }: Pick<ImportState, "numbers">): number {
  if (Number.isSafeInteger(number) && number >= lowest && number <= highest) return number;
  throw damagedBundle(`the number ${String(number)} is not one of its own`);
}

/** Stores bytes. */
export async function stageBlob({ store }: Context, hash: string, text: string): Promise<void> {
  const bytes = Buffer.from(text, "base64");
  if (hashBytes(bytes) !== hash) throw damagedBundle(`blob ${hash} was changed`);
  await store.commit({ blobs: [{ hash, bytes }] });
}

/** The error of something that is there, and is not what the bundle has. */
export function importConflict(what: string, cause?: unknown): SavepointError<"CONFLICT"> {
  return new SavepointError(
    "CONFLICT",
    `${what} is in the store already, and is another one than the bundle's. Delete it, import with { existing: "skip" }, or give a session another id with { as }. What came before it was imported.`,
    { cause },
  );
}
