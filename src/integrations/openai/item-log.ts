/** The inputs of consecutive model calls: copies of their items that share what has not changed, and a digest of each. */
import { createHash } from "node:crypto";
import type { AgentInputItem } from "@openai/agents-core";
import { copyDefined, isObject } from "./sdk.js";

interface LoggedItem {
  readonly copy: AgentInputItem;
  /** The digest of this item and all before it. */
  readonly digest: string;
}

/** The input of a model call. */
export interface LoggedInput {
  /** Copies of the items, without fields that are `undefined`. The caller must not modify them. */
  readonly items: readonly AgentInputItem[];
  /** The digest of the items that the loop derives from recorded effects: all but those of the user and the system. */
  readonly digest: string;
}

/**
 * Each input of a loop repeats the previous one. The SDK makes new items each time, but their strings are the same objects, so comparing
 * them costs much less than serializing them.
 *
 * The digest has the meaning of an item only. Ids, the status and the data of the provider are left out, and the order of keys does not
 * count: `run` and `stream` differ in them, and so do items that were stored.
 */
export class ItemLog {
  #previous: readonly LoggedItem[] = [];

  of(input: string | readonly AgentInputItem[]): LoggedInput {
    const items: readonly AgentInputItem[] = typeof input === "string" ? [{ role: "user", content: input }] : input;
    const previous = this.#previous;
    let same = 0;
    while (same < items.length && same < previous.length && isEqualItem(previous[same]?.copy, items[same])) same++;
    const logged = previous.slice(0, same);
    for (const item of items.slice(same)) {
      const before = logged.at(-1)?.digest ?? "";
      const copy = copyDefined(item);
      logged.push({ copy, digest: isFromUser(copy) ? before : digestOf(before, copy) });
    }
    this.#previous = logged;
    return { items: logged.map(({ copy }) => copy), digest: logged.at(-1)?.digest ?? "" };
  }
}

function isFromUser(item: AgentInputItem): boolean {
  const { role } = item as { readonly role?: unknown };
  return role === "user" || role === "system";
}

function digestOf(before: string, item: AgentInputItem): string {
  const { id: _id, status: _status, ...meaning } = item as { id?: unknown; status?: unknown };
  return createHash("sha256")
    .update(before)
    .update(JSON.stringify(toCanonical(meaning)))
    .digest("base64url");
}

/** Sorts keys, and replaces values for which JSON has no form, or a very long one. */
function toCanonical(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(toCanonical);
  if (value instanceof Uint8Array) return { bytes: createHash("sha256").update(value).digest("base64url") };
  if (typeof value === "bigint") return { bigint: String(value) };
  if (!isObject(value)) return value;
  const entries = Object.entries(value).filter(([key]) => key !== "providerData");
  return Object.fromEntries(
    entries.sort(([a], [b]) => (a < b ? -1 : 1)).map(([key, each]) => [key, toCanonical(each)]),
  );
}

/** Whether an item equals a copy: in all fields that are not `undefined`. Objects that are not plain must be identical. */
export function isEqualItem(copy: unknown, value: unknown): boolean {
  if (copy === value) return true;
  if (Array.isArray(copy)) {
    return (
      Array.isArray(value) &&
      copy.length === value.length &&
      copy.every((each: unknown, index) => isEqualItem(each, value[index]))
    );
  }
  if (!isPlain(copy) || !isPlain(value)) return false;
  const keys = Object.keys(value).filter((key) => value[key] !== undefined);
  return (
    keys.length === Object.keys(copy).length &&
    keys.every((key) => Object.hasOwn(copy, key) && isEqualItem(copy[key], value[key]))
  );
}

function isPlain(value: unknown): value is Readonly<Record<string, unknown>> {
  return isObject(value) && Object.getPrototypeOf(value) === Object.prototype;
}
