/**
 * How a commit stands in the tail: one row.
 *
 * The body is a line of JSON that says which records and items follow, and how long they are, and then their texts, one
 * after another. The names of the records are kept a second time beside it, with a checksum of their own: where the body
 * is damaged, it is still known which records it was about.
 */
import { checksum, isChecksum } from "../shared/index.js";
import type { Commit, Frame } from "../contract/index.js";

/** A row of `savepoint_tail`, without its id. */
export interface BufferRow {
  readonly names: string;
  readonly names_sum: number;
  readonly sum: number;
  readonly body: Uint8Array;
}

export interface BufferedPut {
  readonly key: string;
  readonly value: string;
  readonly refs: string;
}

export interface BufferedItems {
  readonly tape: string;
  readonly first: number;
  readonly items: readonly Frame[];
}

/** What a row says. */
export interface BufferedCommit {
  readonly puts: readonly BufferedPut[];
  readonly items: readonly BufferedItems[];
}

/** Keys and lengths of the records; tapes, first numbers and lengths of the items. */
type Plan = [records: [string, number, number][], runs: [string, number, number[]][]];

/** @param commit one whose items are numbered, and that only puts records and adds items */
export function encodeCommit({ puts = [], items = [] }: Commit): BufferRow {
  const texts: string[] = [];
  const records: Plan[0] = [];
  for (const { key, value, refs = "" } of puts) {
    records.push([key, value.length, refs.length]);
    texts.push(value, refs);
  }
  const runs: Plan[1] = [];
  for (const run of items) {
    const lengths: number[] = [];
    for (const { json, refs } of run.items) {
      lengths.push(json.length, refs.length);
      texts.push(json, refs);
    }
    runs.push([run.tape, "first" in run ? run.first : 0, lengths]);
  }
  const text = `${JSON.stringify([records, runs])}\n${texts.join("")}`;
  const names = JSON.stringify(puts.map(({ key }) => key));
  return { names, names_sum: checksum(names), sum: checksum(text), body: Buffer.from(text) };
}

/** The same as {@link decodeCommit} gives for what {@link encodeCommit} gave. */
export function toBufferedCommit({ puts = [], items = [] }: Commit): BufferedCommit {
  return {
    puts: puts.map(({ key, value, refs = "" }) => ({ key, value, refs })),
    items: items.map((run) => ({ tape: run.tape, first: "first" in run ? run.first : 0, items: run.items })),
  };
}

/** What a row says; of a damaged one the keys of its records, and `undefined` where not even those can be read. */
export function decodeCommit(row: BufferRow): BufferedCommit | { readonly lost: readonly string[] } | undefined {
  const text = row.body instanceof Uint8Array ? Buffer.from(row.body).toString("utf8") : undefined;
  if (text === undefined || !isChecksum(row.sum, text)) {
    return isChecksum(row.names_sum, row.names) ? { lost: JSON.parse(row.names) as string[] } : undefined;
  }
  let at = text.indexOf("\n") + 1;
  const [records, runs] = JSON.parse(text.slice(0, at)) as Plan;
  const next = (length: number): string => text.slice(at, (at += length));
  return {
    puts: records.map(([key, length, refs]) => ({ key, value: next(length), refs: next(refs) })),
    items: runs.map(([tape, first, lengths]) => {
      const items: Frame[] = [];
      for (let index = 0; index < lengths.length; index += 2) {
        items.push({ json: next(lengths[index] as number), refs: next(lengths[index + 1] as number) });
      }
      return { tape, first, items };
    }),
  };
}
