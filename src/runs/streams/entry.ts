/** The recorded deltas of a run, as they are kept in memory and stored. */
import { isSavepointError, SavepointError } from "../../errors.js";
import { type ClassRegistry, type Frame, parseValue, stringifyValue } from "../../state/index.js";
import { either, isCounter, isString, listOf, oneOf, tupleOf } from "../../util/index.js";

/** A delta, split into a string that later deltas can continue and everything else. */
export interface StreamEntry {
  /** Everything but the text, encoded. Consecutive entries with the same key and a text are one entry. */
  readonly key: string;
  /** The string at the end of the delta; `undefined` if the delta has none that can be continued. */
  readonly text: string | undefined;
  /** The effect that emitted it; `undefined` if it was emitted outside of effects. */
  readonly effect: EffectPlace | undefined;
}

/** An effect of a run: the number of its step, and its number in that step. */
export type EffectPlace = readonly [step: number, index: number];

/** A delta as it is emitted. */
export interface Delta {
  readonly name: string;
  readonly delta: unknown;
  /** The name of the property whose strings add up; `undefined` if the delta itself is such a string, or has none. */
  readonly append?: string | undefined;
  readonly effect?: EffectPlace | undefined;
}

/** The form of a key: the property with the text is `true` if the delta is the text itself. */
type StoredKey = [name: string, effect: EffectPlace | null, delta: unknown, append: string | true | null];

/** The most characters of one stored item, unless one delta has more. */
const ITEM_CHARS = 32_768;

/** Encodes a delta. Throws `INVALID_STATE` if it contains unsupported values. */
export function toEntry({ name, delta, append, effect }: Delta, registry: ClassRegistry): StreamEntry {
  const toKey = (rest: unknown, property: string | true | null): string =>
    stringifyValue([name, effect ?? null, rest, property] satisfies StoredKey, registry);
  if (typeof delta === "string") return { key: toKey(null, true), text: delta, effect };
  if (append !== undefined && typeof delta === "object" && delta !== null) {
    const { [append]: text, ...rest } = delta as Record<string, unknown>;
    if (typeof text === "string") return { key: toKey(rest, append), text, effect };
  }
  return { key: toKey(delta, null), text: undefined, effect };
}

/** The delta of an entry, and its name. */
export function fromEntry({ key, text }: StreamEntry, registry: ClassRegistry): { name: string; delta: unknown } {
  const [name, , delta, append] = parseValue(key, registry) as StoredKey;
  if (append === null) return { name, delta };
  return { name, delta: append === true ? text : { ...(delta as object), [append]: text } };
}

/** Whether an entry continues another one, so that both can be one entry. */
export function continues(entry: StreamEntry, before: StreamEntry | undefined): before is StreamEntry {
  return before !== undefined && entry.text !== undefined && before.text !== undefined && before.key === entry.key;
}

export function sizeOf({ key, text }: StreamEntry): number {
  return key.length + (text?.length ?? 0);
}

/** Encodes entries as items of a tape. */
export function toItems(entries: readonly StreamEntry[]): Frame[] {
  const items: string[][] = [];
  let size = Number.POSITIVE_INFINITY;
  for (const { key, text } of entries) {
    const json = `[${key},${text === undefined ? "null" : JSON.stringify(text)}]`;
    if (size + json.length > ITEM_CHARS) {
      items.push([]);
      size = 0;
    }
    items.at(-1)?.push(json);
    size += json.length;
  }
  return items.map((list) => ({ json: `[${list.join(",")}]`, refs: "" }));
}

/** Decodes an item. Throws `DAMAGED` if it is not one that {@link toItems} has encoded. */
export function fromItem({ json }: Frame, registry: ClassRegistry): StreamEntry[] {
  try {
    const list = parseValue(json, registry) as readonly [StoredKey, string | null][];
    if (!isItem(list)) throw new TypeError("it has another form");
    return list.map(([key, text]) => ({
      key: stringifyValue(key, registry),
      text: text ?? undefined,
      effect: key[1] ?? undefined,
    }));
  } catch (cause) {
    if (isSavepointError(cause, "DAMAGED")) throw cause;
    throw new SavepointError("DAMAGED", `Recorded deltas cannot be read: ${(cause as Error).message}.`, { cause });
  }
}

const isEffect = either(tupleOf(isCounter, isCounter), oneOf(null));
const isKey = tupleOf(isString, isEffect, () => true, either(either(isString, oneOf(null)), oneOf(true)));
const isItem = listOf(tupleOf(isKey, either(isString, oneOf(null))));
