/** Bundles as bytes: taken apart, changed, put together again, and given in pieces. */
import { createHash, type Hash } from "node:crypto";
import type { Savepoint } from "../../src/index.js";

/** The lines of a bundle, without their ends. */
export function linesOf(bundle: Uint8Array): string[] {
  return Buffer.from(bundle).toString("utf8").split("\n").slice(0, -1);
}

export function fromLines(lines: readonly string[]): Uint8Array {
  return Buffer.from(lines.map((line) => `${line}\n`).join(""));
}

/** A bundle whose lines were changed by an attacker who can also compute hashes. */
export function forge(bundle: Uint8Array, change: (line: Record<string, unknown>) => unknown): Uint8Array {
  const hash = createHash("sha256");
  const lines: string[] = [];
  for (const line of linesOf(bundle)) {
    const value = JSON.parse(line) as Record<string, unknown>;
    const next = authentic(value, change, hash);
    const text = JSON.stringify(next);
    hash.update(`${text}\n`);
    lines.push(text);
  }
  return fromLines(lines);
}

function authentic(
  value: Record<string, unknown>,
  change: (line: Record<string, unknown>) => unknown,
  hash: Hash,
): unknown {
  const { sha256, ...rest } = value;
  if (sha256 === undefined) return change(value);
  if (!("savepoint" in value)) return { ...value, sha256: hash.copy().digest("hex") };
  const header = change(rest);
  return { ...(header as object), sha256: createHash("sha256").update(JSON.stringify(header)).digest("hex") };
}

/** Where the lines of a kind are. */
export function placesOf(bundle: Uint8Array, kind: string): number[] {
  return linesOf(bundle).flatMap((line, index) => (kind in (JSON.parse(line) as object) ? [index] : []));
}

export class Cut extends Error {}

/** The bytes up to a place, in chunks; then the stream fails. */
export async function* cutAt(bundle: Uint8Array, length: number, chunk = 4096): AsyncGenerator<Uint8Array> {
  for (let from = 0; from < length; from += chunk) yield bundle.subarray(from, Math.min(from + chunk, length));
  throw new Cut("The line is dead.");
}

/** The bytes line by line; `before` is called before each, by its number. */
export async function* lineByLine(
  bundle: Uint8Array,
  before: (index: number, line: string) => Promise<unknown> | undefined,
): AsyncGenerator<Uint8Array> {
  for (const [index, line] of linesOf(bundle).entries()) {
    await before(index, line);
    yield Buffer.from(`${line}\n`);
  }
}

/** Imports from a stream that does something right before the first line of a kind that comes. */
export async function importWithPause(
  sp: Savepoint,
  bundle: Uint8Array,
  at: (line: Record<string, unknown>) => boolean,
  work: () => Promise<unknown>,
): ReturnType<Savepoint["import"]> {
  let isDone = false;
  return sp.import(
    lineByLine(bundle, async (_, line) => {
      if (isDone || !at(JSON.parse(line) as Record<string, unknown>)) return;
      isDone = true;
      await work();
    }),
  );
}

/** Reads an export chunk by chunk, and does something after the first. */
export async function exportWithPause(
  bundle: AsyncIterable<Uint8Array>,
  work: () => Promise<unknown>,
): Promise<Uint8Array> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of bundle) {
    if (chunks.length === 0) await work();
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}
