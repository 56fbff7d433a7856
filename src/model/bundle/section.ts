/** What a section of a bundle becomes. */
import { SavepointError } from "../../errors.js";
import type { Context } from "../context.js";
import type { Frame } from "../../store/store.js";
import type { BundleHole } from "./export.js";
import type { BundleFrame, BundleLine } from "./format.js";

/** By how much numbers move that go up to this one. */
export interface Shift {
  readonly by: number;
  readonly upTo: number;
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

/** What a section is imported with. */
export interface SectionOptions {
  readonly shift: Shift;
  readonly as: string | undefined;
  readonly existing: "fail" | "skip";
  readonly tally: ImportTally;
}

export interface Section {
  begin(): Promise<void>;
  /** Takes a line. What it says must not be seen yet. */
  take(line: BundleLine): Promise<void>;
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
  if (found.every((item) => !("unreadable" in item))) return;
  await store.commit({ items: [{ tape, first, items }] });
}

/** Stores bytes. The hash is looked at when they are read. */
export async function stageBlob({ store }: Context, hash: string, bytes: string): Promise<void> {
  await store.commit({ blobs: [{ hash, bytes: Buffer.from(bytes, "base64") }] });
}

/** The error of something that is there, and is not what the bundle has. */
export function taken(what: string, cause?: unknown): SavepointError<"CONFLICT"> {
  return new SavepointError(
    "CONFLICT",
    `${what} is in the store already, and is another one than the bundle's. Delete it, import with { existing: "skip" }, or give a session another id with { as }. What came before it was imported.`,
    { cause },
  );
}
