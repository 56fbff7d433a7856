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

/** Array fields, which must not be shared between messages. */
const LISTS = ["lc_namespace", "tool_calls", "invalid_tool_calls", "tool_call_chunks"];

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

/** Encodes a message. @param toStored encodes the value of a field */
export function messageToStored(
  message: object,
  id: readonly string[],
  toStored: (value: unknown) => unknown,
): StoredMessage {
  const known = CACHE.get(message);
  if (known && isUnchanged(message as Readonly<Record<string, unknown>>, known)) return known.stored;
  const kwargs: Record<string, unknown> = {};
  const fields = Object.entries(message) as [string, unknown][];
  for (const [name, value] of fields) {
    if (value !== undefined && typeof value !== "function" && !CLASS_FIELDS.has(name)) kwargs[name] = toStored(value);
  }
  const stored: StoredMessage = { lc: 1, type: "constructor", id, kwargs };
  if (fields.every(([name, value]) => CLASS_FIELDS.has(name) || isSimple(value)))
    CACHE.set(message, { fields, stored });
  return stored;
}

/** The stored form of a message, and the fields that it was built from. */
interface CachedMessage {
  readonly fields: readonly (readonly [name: string, value: unknown])[];
  readonly stored: StoredMessage;
}

/**
 * A graph passes all messages at every step, mostly unchanged. A message whose fields are all primitive or empty is
 * encoded once. Changes are noticed, because the fields are compared each time.
 */
const CACHE = new WeakMap<object, CachedMessage>();

function isUnchanged(message: Readonly<Record<string, unknown>>, { fields }: CachedMessage): boolean {
  let index = 0;
  for (const name in message) {
    const field = fields[index++];
    if (!field || field[0] !== name) return false;
    if (!CLASS_FIELDS.has(name) && (message[name] !== field[1] || !isSimple(field[1]))) return false;
  }
  return index === fields.length;
}

/**
 * Whether the value is a primitive, an empty array or an empty plain object. Such a value is unchanged if it is still the
 * same value and still passes this test.
 */
function isSimple(value: unknown): boolean {
  if (typeof value !== "object" || value === null) return typeof value !== "function";
  if (Array.isArray(value)) return value.length === 0;
  if (Object.getPrototypeOf(value) !== Object.prototype) return false;
  for (const _ in value) return false;
  return true;
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
  const fields: Record<string, unknown> = {};
  for (const name of Object.keys(stored.kwargs)) {
    if (!CLASS_FIELDS.has(name) && !(name in Object.prototype)) fields[name] = toLive(stored.kwargs[name]);
  }
  const message = emptyMessage(type);
  Object.assign(message, fields);
  message["lc_kwargs"] = fields;
  return message;
}

const EMPTY = new Map<MessageClass, Record<string | symbol, unknown>>();

/**
 * A message of a class, without fields. The constructor is called once for each class, because some constructors change
 * or reject their arguments, and all constructors take longer than the rest of decoding.
 */
function emptyMessage(type: MessageClass): Record<string, unknown> {
  let empty = EMPTY.get(type);
  if (!empty) {
    empty = { ...(new type({ ...REQUIRED_FIELDS } as never) as Record<string | symbol, unknown>) };
    for (const name of Object.keys(REQUIRED_FIELDS)) if (name in empty) empty[name] = undefined;
    EMPTY.set(type, empty);
  }
  const message = Object.assign(Object.create(type.prototype) as Record<string, unknown>, empty);
  for (const name of LISTS) if (name in message) message[name] = [...(message[name] as unknown[])];
  return message;
}

function idOfAncestor(prototype: object): readonly string[] | undefined {
  for (let at: object | null = prototype; at; at = Object.getPrototypeOf(at) as object | null) {
    const id = ID_BY_NAME.get((at.constructor as { name?: string } | undefined)?.name ?? "");
    if (id) return id;
  }
  return undefined;
}
