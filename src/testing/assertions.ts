/** Assertions about stores. */
import assert from "node:assert/strict";
import { isSavepointError, type SavepointError, type SavepointErrorCode } from "../errors.js";
import type { Commit, Frame, ItemSpan, Store, StoredRecord, Unreadable, UnreadableRecord } from "../store/store.js";

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
  throw new assert.AssertionError({
    message: error === undefined ? `It should have failed with ${code}.` : `It should have failed with ${code}, not: ${String(error)}`,
    actual: error,
    expected: code,
  });
}

/** The commit conflicts, and `details.keys` names this. */
export async function conflictsOver(key: string, store: Store, commit: Commit): Promise<void> {
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
export async function assertItems(store: Store, span: ItemSpan, expected: readonly (Frame | undefined)[]): Promise<void> {
  const found = await store.items([span]);
  assert.equal(found.length, expected.length);
  for (const [index, frame] of expected.entries()) {
    if (frame === undefined) assertUnreadable(found[index]);
    else assertSame(found[index], frame, `item ${span.start + index} of ${span.tape}`);
  }
}

/** Like `deepEqual`, with a message that stays short when megabytes differ. */
export function assertSame(actual: unknown, expected: unknown, what: string): void {
  try {
    assert.deepEqual(actual, expected);
  } catch {
    const message = `${what} should be ${preview(expected)}, and is ${preview(actual)}`;
    throw new assert.AssertionError({ message, actual: preview(actual), expected: preview(expected), stackStartFn: assertSame });
  }
}

/** A short text of something, for messages. */
export function preview(thing: unknown): string {
  const text = thing instanceof Uint8Array ? `${thing.length} bytes` : (JSON.stringify(thing) ?? String(thing));
  return text.length <= 300 ? text : `${text.slice(0, 300)}… (${text.length} characters)`;
}
