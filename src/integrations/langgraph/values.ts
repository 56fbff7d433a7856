/**
 * Encoding and decoding of channel values and pending writes. They are stored as plain values instead of one serialized
 * string, so that a save writes only the changes.
 *
 * Values that Savepoint supports (dates, bytes, maps, sets, `undefined`) are kept. Other objects are stored as an object with
 * a key `lc`, and plain objects that have such a key are wrapped. So no input of a user or a model is ever decoded as a class
 * instance. Only what the saver has saved is decoded: see `asIntegration` in `stored.ts`.
 */
import { load } from "@langchain/core/load";
import { DeltaSnapshot } from "@langchain/langgraph-checkpoint";
import { SavepointError } from "../../index.js";
import {
  type EncodedMessage,
  encodingOf,
  isUnchanged,
  messageClassId,
  messageToStored,
  recallMessage,
  type StoredMessage,
  storedToMessage,
} from "./messages.js";

/** Deeper than any value that can be stored. A deeper one contains a cycle. */
const MAX_DEPTH = 500;

const TYPED_ARRAYS = {
  BigInt64Array,
  BigUint64Array,
  Float32Array,
  Float64Array,
  Int8Array,
  Int16Array,
  Int32Array,
  Uint8ClampedArray,
  Uint16Array,
  Uint32Array,
};

/** The stored form of an object that Savepoint does not support itself. */
type Tagged =
  | StoredMessage
  /** Another LangChain object, as its own JSON. */
  | { readonly lc: 1; readonly type: "json"; readonly json: string }
  | { readonly lc: 0; readonly value: Readonly<Record<string, unknown>> }
  | { readonly lc: 2; readonly type: "regexp"; readonly source: string; readonly flags: string }
  | { readonly lc: 2; readonly type: "error"; readonly name: string; readonly message: string }
  | { readonly lc: 2; readonly type: "delta_snapshot"; readonly value: unknown }
  | { readonly lc: 2; readonly type: "typed_array"; readonly name: string; readonly bytes: Uint8Array };

/**
 * Encodes values. The result is a copy that shares nothing with the caller's objects. It may share the stored forms of
 * messages with earlier results, so no result may be modified.
 */
export class Encoder {
  /** LangChain objects whose class has not been decoded yet, as JSON by class name. */
  readonly #unverified = new Map<string, string>();

  /** @param before the encoded form of the previous value: where the messages of an array are the same, encoding is faster */
  encode(value: unknown, before?: unknown): unknown {
    if (Array.isArray(value)) return this.#encodeList(value, 0, before);
    return this.#encode(value, 0);
  }

  /**
   * Checks that the encoded objects can be decoded. Returns `undefined`, not a promise, if there are none to check.
   *
   * @throws INVALID_STATE if one cannot be decoded
   */
  verifyDecodable(): Promise<void> | undefined {
    return this.#unverified.size === 0 ? undefined : this.#verify();
  }

  async #verify(): Promise<void> {
    for (const [name, json] of this.#unverified) {
      try {
        await load(json);
      } catch (error) {
        throw new SavepointError(
          "INVALID_STATE",
          `The state contains a ${name}, which LangChain cannot load again: ${messageOf(error)}. Remove it from the state, or store its fields.`,
          { cause: error },
        );
      }
      DECODABLE.add(name);
    }
  }

  #encode(value: unknown, depth: number): unknown {
    if (typeof value !== "object" || value === null) {
      // As in JSON, functions and symbols are dropped.
      return typeof value === "function" || typeof value === "symbol" ? undefined : value;
    }
    if (depth > MAX_DEPTH) {
      throw new SavepointError(
        "INVALID_STATE",
        "The state is nested too deeply or contains a cycle. Remove that part.",
      );
    }
    if (Array.isArray(value)) return value.map((part) => (isDropped(part) ? null : this.#encode(part, depth + 1)));
    const known = recallMessage(value);
    if (known) return known.stored;
    const next = (part: unknown): unknown => this.#encode(part, depth + 1);
    const prototype = Object.getPrototypeOf(value) as object | null;
    if (prototype === Object.prototype || prototype === null) return this.#encodeFields(value, next);
    const id = messageClassId(value);
    if (id) return messageToStored(value, id, next);
    if (value instanceof Date) return new Date(value);
    if (value instanceof URL) return new URL(value);
    if (value instanceof Map) return new Map([...value].map(([key, part]) => [next(key), next(part)]));
    if (value instanceof Set) return new Set([...value].map(next));
    if (Buffer.isBuffer(value)) return Buffer.from(value);
    if (value instanceof Uint8Array && !(value instanceof Uint8ClampedArray)) return new Uint8Array(value);
    return this.#encodeTagged(value, next);
  }

  #encodeList(list: readonly unknown[], depth: number, before: unknown): unknown[] {
    const expected = MESSAGES.get(before as object) ?? [];
    const last = Math.min(list.length, expected.length === 0 ? 0 : (before as unknown[]).length);
    let same = 0;
    while (same < last && isUnchanged(list[same], expected[same])) same++;
    const added: unknown[] = [];
    const messages: (EncodedMessage | undefined)[] = [];
    for (let index = same; index < list.length; index++) {
      const part = list[index];
      const stored = isDropped(part) ? null : this.#encode(part, depth + 1);
      added.push(stored);
      messages.push(encodingOf(part, stored));
    }
    // Both lists grow with the thread, so copies are avoided or kept short.
    const encoded = same === 0 ? added : (before as unknown[]).slice(0, same).concat(added);
    const shared = same > 0 && same === expected.length ? expected : expected.slice(0, same);
    for (const message of messages) shared.push(message);
    MESSAGES.set(encoded, shared);
    return encoded;
  }

  #encodeTagged(value: object, next: (part: unknown) => unknown): unknown {
    if (value instanceof RegExp) return { lc: 2, type: "regexp", source: value.source, flags: value.flags };
    if (value instanceof Error) return { lc: 2, type: "error", name: value.name, message: value.message };
    if (isNamed(value, "DeltaSnapshot") && "value" in value) {
      return { lc: 2, type: "delta_snapshot", value: next(value.value) };
    }
    const typed = typedArrayName(value);
    if (typed !== undefined)
      return { lc: 2, type: "typed_array", name: typed, bytes: bytesOf(value as ArrayBufferView) };
    if (!hasToJson(value)) return this.#encodeFields(value, next);
    const json: unknown = value.toJSON();
    if (isSerialized(json)) return this.#encodeSerialized(json);
    if (typeof json !== "object" || json === null) return next(json);
    // LangGraph's own serializer does not keep the marker of a Send either.
    if (isNamed(json, "Send")) {
      const { lg_name: _, timeout, ...send } = json as { lg_name: string; timeout?: unknown };
      return next({ ...send, ...(timeout !== undefined && { timeout }) });
    }
    return json === value ? this.#encodeFields(json, next) : next(json);
  }

  #encodeSerialized(serialized: { readonly id: readonly string[] }): Tagged {
    const name = serialized.id.join(".");
    if (serialized.id[0] !== "langchain_core") {
      throw new SavepointError(
        "INVALID_STATE",
        `The state contains a ${name}, but only objects of @langchain/core can be stored. Remove it from the state, or store its fields.`,
      );
    }
    const json = JSON.stringify(serialized);
    if (!DECODABLE.has(name)) this.#unverified.set(name, json);
    return { lc: 1, type: "json", json };
  }

  #encodeFields(value: object, next: (part: unknown) => unknown): unknown {
    const copy: Record<string, unknown> = {};
    for (const key of Object.keys(value)) {
      const part = (value as Record<string, unknown>)[key];
      if (!isDropped(part)) setField(copy, key, next(part));
    }
    return "lc" in copy ? { lc: 0, value: copy } : copy;
  }
}

/**
 * The messages of encoded channel values that are arrays, at the same indexes. A list can be longer than its value: a later value
 * that begins with the same messages shares the list and extends it.
 */
const MESSAGES = new WeakMap<object, (EncodedMessage | undefined)[]>();

/** Decodes a stored value. @throws `DAMAGED` if the value is invalid, which the saver itself never stores */
export async function decodeValue(stored: unknown): Promise<unknown> {
  try {
    return await decodeTagged(stored);
  } catch (error) {
    if (error instanceof SavepointError) throw error;
    throw new SavepointError(
      "DAMAGED",
      `The state contains a LangGraph value that cannot be decoded: ${messageOf(error)}. Continue from an earlier checkpoint of the thread.`,
      { cause: error },
    );
  }
}

async function decodeTagged(stored: unknown): Promise<unknown> {
  const serialized: string[] = [];
  const value = decode(stored, (json) => {
    serialized.push(json);
    return undefined;
  });
  if (serialized.length === 0) return value;
  // Loading LangChain objects is asynchronous, so the value is decoded a second time with the results.
  const loaded: unknown[] = [];
  for (const json of serialized) loaded.push(await load(json));
  let at = 0;
  return decode(stored, () => loaded[at++]);
}

/** LangChain classes of which an object has been loaded successfully. */
const DECODABLE = new Set<string>();

function decode(stored: unknown, fromJson: (json: string) => unknown): unknown {
  if (typeof stored !== "object" || stored === null) return stored;
  const next = (part: unknown): unknown => decode(part, fromJson);
  if (Array.isArray(stored)) return stored.map(next);
  if (stored instanceof Map) return new Map([...stored].map(([key, part]) => [next(key), next(part)]));
  if (stored instanceof Set) return new Set([...stored].map(next));
  const prototype = Object.getPrototypeOf(stored) as object | null;
  if (prototype !== Object.prototype && prototype !== null) return copyBuiltIn(stored);
  return "lc" in stored ? untag(stored as Tagged, fromJson) : decodeFields(stored, next);
}

function untag(tagged: Tagged, fromJson: (json: string) => unknown): unknown {
  const next = (part: unknown): unknown => decode(part, fromJson);
  if (tagged.lc === 0) return decodeFields(tagged.value, next);
  switch (tagged.type) {
    case "constructor": {
      const message = storedToMessage(tagged, next);
      if (message) return message;
      break;
    }
    case "json":
      return fromJson(tagged.json);
    case "regexp":
      return new RegExp(tagged.source, tagged.flags);
    case "error":
      return toError(tagged.name, tagged.message);
    case "delta_snapshot":
      return new DeltaSnapshot(next(tagged.value));
    case "typed_array":
      if (Object.hasOwn(TYPED_ARRAYS, tagged.name)) {
        return new TYPED_ARRAYS[tagged.name as keyof typeof TYPED_ARRAYS](tagged.bytes.slice().buffer);
      }
      break;
    default:
  }
  throw new SavepointError(
    "STORE_TOO_NEW",
    "The state contains a value that this version of savepoint/langgraph does not support. Update the package.",
  );
}

function decodeFields(stored: object, next: (part: unknown) => unknown): Record<string, unknown> {
  const value: Record<string, unknown> = {};
  for (const key of Object.keys(stored)) setField(value, key, next((stored as Record<string, unknown>)[key]));
  return value;
}

/** The stored form may be cached, and must not change with the decoded value. */
function copyBuiltIn(stored: object): object {
  if (stored instanceof Date) return new Date(stored);
  if (stored instanceof URL) return new URL(stored);
  if (Buffer.isBuffer(stored)) return Buffer.from(stored);
  return stored instanceof Uint8Array ? new Uint8Array(stored) : stored;
}

/** Sets an own field, even if its name is `__proto__`. */
export function setField(object: Record<string, unknown>, key: string, value: unknown): void {
  if (key !== "__proto__") object[key] = value;
  else Object.defineProperty(object, key, { value, enumerable: true, configurable: true, writable: true });
}

function isDropped(value: unknown): boolean {
  return typeof value === "function" || typeof value === "symbol";
}

function isNamed(value: object, name: string): boolean {
  return (value as { lg_name?: unknown }).lg_name === name;
}

function hasToJson(value: object): value is { toJSON(): unknown } {
  return typeof (value as { toJSON?: unknown }).toJSON === "function";
}

function isSerialized(json: unknown): json is { readonly id: readonly string[] } {
  const { lc, type, id } = (json ?? {}) as { lc?: unknown; type?: unknown; id?: unknown };
  return lc === 1 && type === "constructor" && Array.isArray(id);
}

function typedArrayName(value: object): string | undefined {
  if (!ArrayBuffer.isView(value)) return undefined;
  return Object.entries(TYPED_ARRAYS).find(([, type]) => value instanceof type)?.[0];
}

function bytesOf({ buffer, byteOffset, byteLength }: ArrayBufferView): Uint8Array {
  return new Uint8Array(buffer, byteOffset, byteLength).slice();
}

function toError(name: string, message: string): Error {
  const error = new Error(message);
  // Not enumerable, as in a class.
  if (name !== "Error") Object.defineProperty(error, "name", { value: name, configurable: true, writable: true });
  return error;
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
