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
 * modify messages in place between two steps, for example to shorten the results of tools. A comparison allocates nothing,
 * because each step compares all messages.
 */
export class PromptDigest {
  readonly #previous: DigestedMessage[] = [];

  /** The digest of these messages: the same in every process. */
  of(messages: readonly PromptMessage[]): string {
    const previous = this.#previous;
    let same = 0;
    while (same < messages.length && same < previous.length && isEqual(previous[same]?.copy, messages[same])) same++;
    previous.length = same;
    for (let at = same; at < messages.length; at++) {
      const message = messages[at];
      const before = previous[at - 1]?.digest ?? "";
      const text = JSON.stringify(message, toDigestible) ?? "";
      const digest = createHash("sha256").update(before).update(text).digest("base64url");
      previous.push({ copy: copyPlain(message), digest });
    }
    return previous.at(-1)?.digest ?? "";
  }
}

/** Values for which JSON has no form, or a very long one. */
function toDigestible(_: string, value: unknown): unknown {
  if (value instanceof Uint8Array) return { bytes: createHash("sha256").update(value).digest("base64url") };
  return typeof value === "bigint" ? { bigint: String(value) } : value;
}

/** A copy of a plain object: its keys in order, and copies of its values. */
class ObjectCopy {
  readonly keys: readonly string[];
  readonly values: readonly unknown[];

  constructor(object: Readonly<Record<string, unknown>>) {
    this.keys = Object.keys(object);
    this.values = this.keys.map((key) => copyPlain(object[key]));
  }

  equals(value: unknown): boolean {
    if (!isPlain(value)) return false;
    const { keys, values } = this;
    let index = 0;
    for (const key in value) {
      if (keys[index] !== key || !isEqual(values[index], value[key])) return false;
      index++;
    }
    return index === keys.length;
  }
}

/** Copies arrays and plain objects. Other objects, such as bytes, are shared. */
function copyPlain(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(copyPlain);
  return isPlain(value) ? new ObjectCopy(value) : value;
}

/** Whether `value` certainly has the same JSON as a copy. Objects that are not copied must be identical. */
function isEqual(copy: unknown, value: unknown): boolean {
  if (copy === value) return true;
  if (copy instanceof ObjectCopy) return copy.equals(value);
  if (!Array.isArray(copy) || !Array.isArray(value) || copy.length !== value.length) return false;
  for (let index = 0; index < copy.length; index++) if (!isEqual(copy[index], value[index])) return false;
  return true;
}

function isPlain(value: unknown): value is Record<string, unknown> {
  return isObject(value) && Object.getPrototypeOf(value) === Object.prototype;
}
