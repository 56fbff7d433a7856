/** A digest of the messages of a prompt, for which only those are serialized that were not in the previous prompt. */
import { createHash } from "node:crypto";
import { isObject, type PromptMessage } from "./sdk.js";

interface DigestedMessage {
  readonly copy: unknown;
  /** The digest of this message and all before it. */
  readonly digest: string;
}

/**
 * Each prompt of a loop repeats the previous one. The SDK makes new messages each time, but their strings are the same
 * objects, so comparing them costs much less than serializing them. They are compared with copies, because a caller may
 * modify messages in place between two steps, for example to shorten the results of tools.
 */
export class PromptDigest {
  #previous: readonly DigestedMessage[] = [];

  /** The digest of these messages: the same in every process. */
  of(messages: readonly PromptMessage[]): string {
    const previous = this.#previous;
    let same = 0;
    while (same < messages.length && same < previous.length && isEqual(previous[same]?.copy, messages[same])) same++;
    const digested = previous.slice(0, same);
    for (const message of messages.slice(same)) {
      const before = digested.at(-1)?.digest ?? "";
      const text = JSON.stringify(message, toDigestible) ?? "";
      const digest = createHash("sha256").update(before).update(text).digest("base64url");
      digested.push({ copy: copyPlain(message), digest });
    }
    this.#previous = digested;
    return digested.at(-1)?.digest ?? "";
  }
}

/** Values for which JSON has no form, or a very long one. */
function toDigestible(_: string, value: unknown): unknown {
  if (value instanceof Uint8Array) return { bytes: createHash("sha256").update(value).digest("base64url") };
  return typeof value === "bigint" ? { bigint: String(value) } : value;
}

/** Copies arrays and plain objects. Other objects, such as bytes, are shared. */
function copyPlain(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(copyPlain);
  if (!isPlain(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, copyPlain(each)]));
}

/** Whether `value` certainly has the same JSON as a copy. Objects that are not copied must be identical. */
function isEqual(copy: unknown, value: unknown): boolean {
  if (copy === value) return true;
  if (Array.isArray(copy)) {
    return (
      Array.isArray(value) &&
      copy.length === value.length &&
      copy.every((each: unknown, index) => isEqual(each, value[index]))
    );
  }
  if (!isPlain(copy) || !isPlain(value)) return false;
  const keys = Object.keys(copy);
  const theirs = Object.keys(value);
  return (
    keys.length === theirs.length && keys.every((key, index) => key === theirs[index] && isEqual(copy[key], value[key]))
  );
}

function isPlain(value: unknown): value is Record<string, unknown> {
  return isObject(value) && Object.getPrototypeOf(value) === Object.prototype;
}
