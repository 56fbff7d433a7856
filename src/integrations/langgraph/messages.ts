/**
 * Encoding and decoding of LangChain messages. Messages are stored in LangChain's own serialized form, so that search
 * and other tools can read them. The form is built from the fields, which takes a sixth of the time of `toJSON()`.
 *
 * Only the classes listed here are ever instantiated. A message of a user-defined subclass is decoded as its base
 * class.
 */
import {
  AIMessage,
  AIMessageChunk,
  ChatMessage,
  ChatMessageChunk,
  FunctionMessage,
  FunctionMessageChunk,
  HumanMessage,
  HumanMessageChunk,
  RemoveMessage,
  SystemMessage,
  SystemMessageChunk,
  ToolMessage,
  ToolMessageChunk,
} from "@langchain/core/messages";

/** A message as it is stored. */
export interface StoredMessage {
  readonly lc: 1;
  readonly type: "constructor";
  /** LangChain's id of the class. */
  readonly id: readonly string[];
  /** The fields of the message. */
  readonly kwargs: Readonly<Record<string, unknown>>;
}

type MessageClass = (new (fields: never) => object) & { readonly prototype: object };

const CLASSES: readonly (readonly [name: string, type: MessageClass])[] = [
  ["AIMessage", AIMessage],
  ["AIMessageChunk", AIMessageChunk],
  ["ChatMessage", ChatMessage],
  ["ChatMessageChunk", ChatMessageChunk],
  ["FunctionMessage", FunctionMessage],
  ["FunctionMessageChunk", FunctionMessageChunk],
  ["HumanMessage", HumanMessage],
  ["HumanMessageChunk", HumanMessageChunk],
  ["RemoveMessage", RemoveMessage],
  ["SystemMessage", SystemMessage],
  ["SystemMessageChunk", SystemMessageChunk],
  ["ToolMessage", ToolMessage],
  ["ToolMessageChunk", ToolMessageChunk],
];

const CLASS_BY_NAME: ReadonlyMap<unknown, MessageClass> = new Map(CLASSES);
const ID_BY_NAME: ReadonlyMap<string, readonly string[]> = new Map(
  CLASSES.map(([name]) => [name, ["langchain_core", "messages", name]]),
);
/**
 * A cache of class ids. The id of any other class (a subclass, or a class of another copy of LangChain) is found by the class
 * name of its nearest known ancestor and added here; `undefined` if there is none.
 */
const ID_BY_PROTOTYPE = new Map<object, readonly string[] | undefined>(
  CLASSES.map(([name, type]) => [type.prototype, ID_BY_NAME.get(name)]),
);

/** Fields that are not stored, because the class sets them. */
const CLASS_FIELDS = new Set(["lc_kwargs", "lc_namespace", "lc_serializable", "lc_direct_tool_output", "type"]);
/** Arguments that some constructors require; replaced by the stored fields. */
const REQUIRED_FIELDS = { content: "", id: "", role: "", name: "", tool_call_id: "" };

const MESSAGE = Symbol.for("langchain.message");

/** LangChain's id of the class of a message; `undefined` for other objects and unknown classes. */
export function messageClassId(value: object): readonly string[] | undefined {
  const prototype = Object.getPrototypeOf(value) as object;
  const known = ID_BY_PROTOTYPE.get(prototype);
  if (known) return known;
  if (!(MESSAGE in value) || ID_BY_PROTOTYPE.has(prototype)) return undefined;
  const id = idOfAncestor(prototype);
  ID_BY_PROTOTYPE.set(prototype, id);
  return id;
}

/** Encodes a message. Empty fields that its class sets are left out. @param toStored encodes the value of a field */
export function messageToStored(
  message: object,
  id: readonly string[],
  toStored: (value: unknown) => unknown,
): StoredMessage {
  const kwargs: Record<string, unknown> = {};
  const { omitted } = templateOf(CLASS_BY_NAME.get(id[2]) as MessageClass);
  for (const [name, value] of Object.entries(message) as [string, unknown][]) {
    if (CLASS_FIELDS.has(name) || typeof value === "function" || value === undefined) continue;
    if (!isDefault(value, omitted.get(name))) kwargs[name] = toStored(value);
  }
  const stored: StoredMessage = { lc: 1, type: "constructor", id, kwargs };
  const parts = partsOf(message, CLASS_FIELDS);
  if (parts) CACHE.set(message, { message, names: parts.names as readonly string[], values: parts.values, stored });
  return stored;
}

/** A message that was encoded, its fields at that time, and its stored form. */
export interface EncodedMessage {
  readonly message: object;
  readonly names: readonly string[];
  readonly values: readonly unknown[];
  readonly stored: StoredMessage;
}

/**
 * A graph passes all messages at every step, mostly unchanged. A message is encoded once. Changes are noticed, because the
 * fields are compared each time, which takes a small fraction of the time of encoding them. Stored forms are never modified.
 */
const CACHE = new WeakMap<object, EncodedMessage>();

/** The last encoding of a message; `undefined` if the message has changed since, and for any other object. */
export function recallMessage(message: object): EncodedMessage | undefined {
  const known = CACHE.get(message);
  return known && hasSameFields(message, known) ? known : undefined;
}

/** The cached encoding of a message, if its stored form is `stored`; `undefined` for any other value. */
export function encodingOf(value: unknown, stored: unknown): EncodedMessage | undefined {
  const known = CACHE.get(value as object);
  return known?.stored === stored ? known : undefined;
}

/** Whether `value` is this message, and the message has not changed since it was encoded. */
export function isUnchanged(value: unknown, encoded: EncodedMessage | undefined): boolean {
  return encoded !== undefined && encoded.message === value && hasSameFields(encoded.message, encoded);
}

/** The parts of an array, or of an object with their names in their order, as they were when it was encoded. */
interface Parts {
  /** `undefined` for an array. Objects with the same names share them, so that comparing many messages touches little memory. */
  readonly names: readonly string[] | undefined;
  /** Primitive values, the {@link Parts} of arrays and plain objects, or {@link IGNORED}. */
  readonly values: readonly unknown[];
}

/** Stands for the value of a field that is not stored. */
const IGNORED = Symbol("ignored");
const EMPTY_LIST: Parts = { names: undefined, values: [] };
const EMPTY_OBJECT: Parts = { names: [], values: [] };
/** Lists of names, so that objects with the same names share one. */
const NAMES = new Map<string, readonly string[]>();
const MAX_NAMES = 1000;

/** The parts of an object or array that has been encoded; `undefined` if they cannot be compared, such as dates and functions. */
function partsOf(live: object, ignored?: ReadonlySet<string>): Parts | undefined {
  const names = Array.isArray(live) ? undefined : Object.keys(live);
  const parts = names ? names.map((name) => (live as Record<string, unknown>)[name]) : (live as unknown[]);
  if (parts.length === 0) return names ? EMPTY_OBJECT : EMPTY_LIST;
  const values: unknown[] = [];
  for (let index = 0; index < parts.length; index++) {
    let value = parts[index];
    if (names && ignored?.has(names[index] as string)) value = IGNORED;
    else if (typeof value === "function") return undefined;
    else if (typeof value === "object" && value !== null) {
      if (!Array.isArray(value) && Object.getPrototypeOf(value) !== Object.prototype) return undefined;
      value = partsOf(value);
      if (value === undefined) return undefined;
    }
    values.push(value);
  }
  return { names: names && internNames(names), values };
}

function internNames(names: readonly string[]): readonly string[] {
  const key = names.join("\n");
  const known = NAMES.get(key);
  if (known?.every((name, index) => name === names[index])) return known;
  if (NAMES.size >= MAX_NAMES) NAMES.clear();
  NAMES.set(key, names);
  return names;
}

function hasSameFields(live: object, { names, values }: Parts): boolean {
  const known = names as readonly string[];
  let index = 0;
  // The loop that runs for every field of every message at every step. Engines make it fast only in this simple form.
  for (const name in live) {
    if (known[index] !== name) return false;
    const before = values[index++];
    if (before === IGNORED) continue;
    const value = (live as Readonly<Record<string, unknown>>)[name];
    if (!Object.is(value, before) && !isSamePart(value, before)) return false;
  }
  return index === known.length;
}

/** Whether a part that is an array or a plain object has the parts that it had. */
function isSamePart(live: unknown, before: unknown): boolean {
  if (typeof live !== "object" || live === null || typeof before !== "object" || before === null) return false;
  if (before === EMPTY_LIST) return Array.isArray(live) && live.length === 0;
  if (before === EMPTY_OBJECT) return isEmptyObject(live);
  const { names, values } = before as Parts;
  if (names) return Object.getPrototypeOf(live) === Object.prototype && hasSameFields(live, before as Parts);
  if (!Array.isArray(live) || live.length !== values.length) return false;
  return values.every((value, index) => Object.is(live[index], value) || isSamePart(live[index], value));
}

/**
 * Decodes a message; `undefined` if its class is not one of those listed here.
 *
 * @param toLive decodes the value of a field
 */
export function storedToMessage(stored: StoredMessage, toLive: (value: unknown) => unknown): object | undefined {
  const type = CLASS_BY_NAME.get(stored.id[2]);
  if (!type || stored.id.length !== 3 || stored.id[0] !== "langchain_core" || stored.id[1] !== "messages")
    return undefined;
  const fields: Record<string | symbol, unknown> = {};
  for (const name of Object.keys(stored.kwargs)) {
    if (!CLASS_FIELDS.has(name) && !(name in Object.prototype)) fields[name] = toLive(stored.kwargs[name]);
  }
  const { empty, omitted } = templateOf(type);
  for (const [name, isList] of omitted) if (!Object.hasOwn(fields, name)) fields[name] = isList ? [] : {};
  const message = Object.create(type.prototype) as Record<string | symbol, unknown>;
  Object.assign(message, empty, fields);
  message["lc_namespace"] = [...(empty["lc_namespace"] as unknown[])];
  message["lc_kwargs"] = fields;
  return message;
}

/** The fields that the constructor of a class initializes. */
interface Template {
  readonly empty: Readonly<Record<string | symbol, unknown>>;
  /** The fields that it sets to an empty array (`true`) or object. They are stored only if they are not empty. */
  readonly omitted: ReadonlyMap<string, boolean>;
}

const TEMPLATES = new Map<MessageClass, Template>();

/**
 * The fields of a message without arguments. The constructor is called once for each class, because some constructors change
 * or reject their arguments, and all constructors take longer than the rest of decoding.
 */
function templateOf(type: MessageClass): Template {
  let template = TEMPLATES.get(type);
  if (!template) {
    const empty = { ...(new type({ ...REQUIRED_FIELDS } as never) as Record<string | symbol, unknown>) };
    for (const name of Object.keys(REQUIRED_FIELDS)) if (name in empty) empty[name] = undefined;
    const omitted = new Map<string, boolean>();
    for (const [name, value] of Object.entries(empty)) {
      const isList = Array.isArray(value);
      if (!CLASS_FIELDS.has(name) && (isList || isEmptyObject(value))) omitted.set(name, isList);
    }
    TEMPLATES.set(type, (template = { empty, omitted }));
  }
  return template;
}

/** Whether a field is as empty as its class sets it. @param isList whether the class sets an array; `undefined` if it sets neither */
function isDefault(value: unknown, isList: boolean | undefined): boolean {
  if (isList === undefined) return false;
  return isList ? Array.isArray(value) && value.length === 0 : isEmptyObject(value);
}

function isEmptyObject(value: unknown): boolean {
  if (typeof value !== "object" || value === null || Object.getPrototypeOf(value) !== Object.prototype) return false;
  for (const name in value) if (Object.hasOwn(value, name)) return false;
  return true;
}

function idOfAncestor(prototype: object): readonly string[] | undefined {
  for (let at: object | null = prototype; at; at = Object.getPrototypeOf(at) as object | null) {
    const id = ID_BY_NAME.get((at.constructor as { name?: string } | undefined)?.name ?? "");
    if (id) return id;
  }
  return undefined;
}
