/** Assertions about stores. */
import assert from "node:assert/strict";
import { isDeepStrictEqual } from "node:util";
import { isSavepointError, type SavepointError, type SavepointErrorCode } from "../errors.js";
import type { Commit, Frame, Store, StoredRecord, Unreadable, UnreadableRecord } from "../store/index.js";

/** Asserts that a promise rejects with a `SavepointError` of this code, and returns the error. */
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
  const actual =
    error === undefined
      ? ", but it succeeded"
      : `, got ${error instanceof Error ? `${error.name}: ${error.message}` : preview(error)}`;
  throw new assert.AssertionError({
    message: `Expected a rejection with ${code}${actual}`,
    actual: error,
    expected: code,
  });
}

/** Asserts that a commit rejects with `CONFLICT` and that `details.keys` contains this key. */
export async function rejectsWithConflict(key: string, store: Store, commit: Commit): Promise<void> {
  const error = await rejectsWith("CONFLICT", store.commit(commit));
  const keys = error.details["keys"];
  assert.ok(
    Array.isArray(keys) && keys.includes(key),
    `Expected details.keys to contain ${JSON.stringify(key)}, got ${JSON.stringify(keys)}.`,
  );
}

export function isUnreadable(thing: unknown): thing is Unreadable {
  return typeof thing === "object" && thing !== null && "unreadable" in thing;
}

/** Asserts that a result is unreadable, with a reason. */
export function assertUnreadable(thing: unknown): void {
  assert.ok(isUnreadable(thing), `Expected an unreadable result, got ${preview(thing)}.`);
  assert.equal(typeof thing.unreadable, "string");
  assert.notEqual(thing.unreadable, "");
}

/** The record of a key. */
export async function getOne(store: Store, key: string): Promise<StoredRecord | UnreadableRecord | undefined> {
  const found = await store.get([key]);
  assert.equal(found.length, 1);
  return found[0];
}

/** The value of a key; `undefined` if there is no record. */
export async function valueOf(store: Store, key: string): Promise<string | undefined> {
  const record = await getOne(store, key);
  assert.ok(!isUnreadable(record), `Expected the record ${key} to be readable, got ${preview(record)}.`);
  return record?.value;
}

/** Asserts the items of a tape from number `start`. `undefined` means that the item is missing. */
export async function assertItems(
  store: Store,
  tape: string,
  start: number,
  expected: readonly (Frame | undefined)[],
): Promise<void> {
  const found = await store.items([{ tape, start, count: expected.length }]);
  assert.equal(found.length, expected.length);
  for (const [index, frame] of expected.entries()) {
    if (frame === undefined) assertUnreadable(found[index]);
    else assertSame(found[index], frame, `item ${start + index} of ${tape}`);
  }
}

/** Calls these commits in one turn, and asserts which of them are applied. */
export async function assertApplied(
  store: Store,
  commits: readonly Commit[],
  expected: readonly boolean[],
): Promise<void> {
  const outcomes = await Promise.allSettled(commits.map((commit) => store.commit(commit)));
  const applied = outcomes.map(({ status }) => status === "fulfilled");
  assert.deepEqual(applied, expected);
}

/** Like `deepEqual`, with a short message that names the first difference, even if megabytes differ. */
export function assertSame(actual: unknown, expected: unknown, what: string): void {
  if (isDeepStrictEqual(actual, expected)) return;
  const difference = firstDifference(actual, expected, "");
  const [actualText, expectedText] = [preview(difference.actual), preview(difference.expected)];
  const message = `${what}: expected ${expectedText}, got ${actualText}${difference.path && `, at ${difference.path}`}`;
  throw new assert.AssertionError({ message, actual: actualText, expected: expectedText, stackStartFn: assertSame });
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

/** A short string for a value, for messages. */
export function preview(thing: unknown): string {
  const text = thing instanceof Uint8Array ? `${thing.length} bytes` : (JSON.stringify(thing) ?? String(thing));
  return text.length <= 300 ? text : `${text.slice(0, 300)}… (${text.length} characters)`;
}
