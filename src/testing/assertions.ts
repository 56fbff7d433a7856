/** Assertions about stores. */
import assert from "node:assert/strict";
import { isDeepStrictEqual } from "node:util";
import { isSavepointError, type SavepointError, type SavepointErrorCode } from "../errors.js";
import type { Commit, Frame, ItemSpan, Store, StoredRecord, Unreadable, UnreadableRecord } from "../store/index.js";

/** The promise rejects with a `SavepointError` of this code; returns it. */
export async function rejectsWith<Code extends SavepointErrorCode>(
  code: Code,
  promise: Promise<unknown>,
): Promise<SavepointError<Code>> {
  let error: unknown;
  try {
    await promise;
  } catch (caught) {
    error = caught;
  }
  if (isSavepointError(error, code)) return error;
  const found = error instanceof Error ? `, not with ${error.name}: ${error.message}` : "";
  throw new assert.AssertionError({
    message: `It should have failed with ${code}${found}`,
    actual: error,
    expected: code,
  });
}

/** The commit conflicts, and `details.keys` names this. */
export async function rejectsWithConflict(key: string, store: Store, commit: Commit): Promise<void> {
  const error = await rejectsWith("CONFLICT", store.commit(commit));
  const keys = error.details["keys"];
  assert.ok(
    Array.isArray(keys) && keys.includes(key),
    `details.keys should name ${JSON.stringify(key)}, and is ${JSON.stringify(keys)}.`,
  );
}

export function isUnreadable(thing: unknown): thing is Unreadable {
  return typeof thing === "object" && thing !== null && "unreadable" in thing;
}

/** It is reported as unreadable, with a reason. */
export function assertUnreadable(thing: unknown): void {
  assert.ok(isUnreadable(thing), `It should be unreadable, and is ${preview(thing)}.`);
  assert.equal(typeof thing.unreadable, "string");
  assert.notEqual(thing.unreadable, "");
}

/** The one record under a key. */
export async function getOne(store: Store, key: string): Promise<StoredRecord | UnreadableRecord | undefined> {
  const found = await store.get([key]);
  assert.equal(found.length, 1);
  return found[0];
}

/** The value under a key; `undefined` where there is no record. */
export async function valueOf(store: Store, key: string): Promise<string | undefined> {
  const record = await getOne(store, key);
  assert.ok(!isUnreadable(record), `The record ${key} should be readable: ${preview(record)}`);
  return record?.value;
}

/** The items of one span are exactly these; `undefined` stands for a missing one. */
export async function assertItems(
  store: Store,
  span: ItemSpan,
  expected: readonly (Frame | undefined)[],
): Promise<void> {
  const found = await store.items([span]);
  assert.equal(found.length, expected.length);
  for (const [index, frame] of expected.entries()) {
    if (frame === undefined) assertUnreadable(found[index]);
    else assertSame(found[index], frame, `item ${span.start + index} of ${span.tape}`);
  }
}

/** Like `deepEqual`, with a message that stays short when megabytes differ: it names the first difference. */
export function assertSame(actual: unknown, expected: unknown, what: string): void {
  if (isDeepStrictEqual(actual, expected)) return;
  const difference = firstDifference(actual, expected, "");
  const [found, wanted] = [preview(difference.actual), preview(difference.expected)];
  const message = `${what} should be ${wanted}, and is ${found}${difference.path && `, at ${difference.path}`}`;
  throw new assert.AssertionError({ message, actual: found, expected: wanted, stackStartFn: assertSame });
}

interface Difference {
  readonly path: string;
  readonly actual: unknown;
  readonly expected: unknown;
}

function firstDifference(actual: unknown, expected: unknown, path: string): Difference {
  if (isContainer(actual) && isContainer(expected)) {
    for (const key of new Set([...Object.keys(expected), ...Object.keys(actual)])) {
      if (!isDeepStrictEqual(actual[key], expected[key]))
        return firstDifference(actual[key], expected[key], `${path}/${key}`);
    }
  }
  return { path, actual, expected };
}

function isContainer(thing: unknown): thing is Readonly<Record<string, unknown>> {
  return typeof thing === "object" && thing !== null && !(thing instanceof Uint8Array);
}

/** A short text of something, for messages. */
export function preview(thing: unknown): string {
  const text = thing instanceof Uint8Array ? `${thing.length} bytes` : (JSON.stringify(thing) ?? String(thing));
  return text.length <= 300 ? text : `${text.slice(0, 300)}… (${text.length} characters)`;
}
