/** Helpers for the tests of text indexes. */
import assert from "node:assert/strict";
import {
  DOCUMENTS_PER_SOURCE,
  type Mark,
  type SourceUpdate,
  type Store,
  type TextIndex,
  type TextSource,
} from "../store/index.js";
import { EVERYTHING } from "./samples.js";
import type { TestStore, Suite } from "./suite.js";

/** Greater than the number of any document. */
export const MAX_DOCUMENT = Number.MAX_SAFE_INTEGER;

/** Returns the text index of a store; `undefined` if it has none. */
export type OpenTexts = (store: Store) => TextIndex | undefined;

/** Defines a test for stores with a text index. */
export type TextTest = (name: string, body: (texts: TextIndex, fresh: TestStore) => Promise<void>) => void;

export function textTest(suite: Suite, open: OpenTexts): TextTest {
  return (name, body) =>
    suite.test(name, async (fresh) => {
      const texts = open(fresh.store);
      if (texts) await body(texts, fresh);
    });
}

/** Asserts that exactly one record is reported as changed, and returns it. */
export async function onlyChange(texts: TextIndex): Promise<Mark> {
  const found = await texts.changes([EVERYTHING], 10);
  assert.equal(found.length, 1, `Expected one changed record, got ${JSON.stringify(found)}.`);
  return found[0] as Mark;
}

/** Marks records as indexed. */
export async function recordMarks(texts: TextIndex, marks: readonly Mark[]): Promise<void> {
  assert.equal(await texts.update({ sources: [], marks }), true);
}

async function updateSource(texts: TextIndex, source: SourceUpdate): Promise<void> {
  assert.equal(await texts.update({ sources: [source], marks: [] }), true);
}

/** The numbers of all documents that may contain a string, highest first. */
export function findDocuments(texts: TextIndex, text: string): Promise<readonly number[]> {
  return texts.find(text, { below: MAX_DOCUMENT, limit: 1_000 });
}

export function idOf(source: TextSource | undefined): number {
  assert.ok(source);
  return source.id;
}

export async function sourceOf(texts: TextIndex, name: string): Promise<TextSource> {
  const [source] = await texts.sources([name]);
  assert.ok(source, `Expected a source ${JSON.stringify(name)}.`);
  return source;
}

/** Adds a new source. */
export async function addSource(
  texts: TextIndex,
  name: string,
  documents: readonly string[],
  note = "",
): Promise<TextSource> {
  await updateSource(texts, { name, before: undefined, from: 0, texts: documents, note });
  return sourceOf(texts, name);
}

/** Replaces the documents of a source from index `from`. */
export async function replaceDocuments(
  texts: TextIndex,
  name: string,
  from: number,
  documents: readonly string[],
): Promise<void> {
  const before = await sourceOf(texts, name);
  await updateSource(texts, { name, before, from, texts: documents, note: before.note });
  assert.equal((await sourceOf(texts, name)).count, from + documents.length);
}

/** Removes a source. */
export async function removeSource(texts: TextIndex, name: string): Promise<void> {
  const before = await sourceOf(texts, name);
  await updateSource(texts, { name, before, from: 0, texts: [], note: undefined });
}

/** Asserts in which documents (`source/index`) each word is found. */
export async function assertFound(
  texts: TextIndex,
  expected: Readonly<Record<string, readonly string[]>>,
): Promise<void> {
  for (const [word, places] of Object.entries(expected)) {
    const numbers: number[] = [];
    for (const place of places) {
      const [name = "", index] = place.split("/");
      numbers.push((await sourceOf(texts, name)).id * DOCUMENTS_PER_SOURCE + Number(index));
    }
    numbers.sort((a, b) => b - a);
    assert.deepEqual(await findDocuments(texts, word), numbers, `The documents that contain ${word}.`);
  }
}
