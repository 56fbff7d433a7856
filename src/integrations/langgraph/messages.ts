/**
 * LangChain messages, as they are stored and made again. They are stored in LangChain's own form, so that they are found by
 * search and shown by every tool; but made of their own fields, which costs a sixth of asking each of them for its JSON.
 *
 * Only the classes that are named here are ever made. A message of a class of the user's own comes back as the class here
 * that it extends.
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
  /** What LangChain calls the class. */
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
/** Filled as classes are met: those of another copy of LangChain, and those that extend one, are found by their names. */
const ID_BY_PROTOTYPE = new Map<object, readonly string[] | undefined>(
  CLASSES.map(([name, type]) => [type.prototype, ID_BY_NAME.get(name)]),
);

/** What a message has by being one: it is made again with the class. */
const OF_THE_CLASS = new Set(["lc_kwargs", "lc_namespace", "lc_serializable", "lc_direct_tool_output", "type"]);
/** What some classes ask for when they are made; the fields that were stored take its place. */
const NEEDED = { content: "", id: "", role: "", name: "", tool_call_id: "" };

/** Lists that every message of a class has of its own. */
const LISTS = ["lc_namespace", "tool_calls", "invalid_tool_calls", "tool_call_chunks"];

const MESSAGE = Symbol.for("langchain.message");

/** What LangChain calls the class of a message; `undefined` for what is no message, or of no class that is known. */
export function messageClassId(value: object): readonly string[] | undefined {
  const prototype = Object.getPrototypeOf(value) as object;
  const known = ID_BY_PROTOTYPE.get(prototype);
  if (known) return known;
  if (!(MESSAGE in value) || ID_BY_PROTOTYPE.has(prototype)) return undefined;
  const id = idOfAncestor(prototype);
  ID_BY_PROTOTYPE.set(prototype, id);
  return id;
}

/** @param toStored gives the stored form of a field's value */
export function messageToStored(
  message: object,
  id: readonly string[],
  toStored: (value: unknown) => unknown,
): StoredMessage {
  const known = KNOWN.get(message);
  if (known && isAsKnown(message as Readonly<Record<string, unknown>>, known)) return known.stored;
  const kwargs: Record<string, unknown> = {};
  const fields = Object.entries(message) as [string, unknown][];
  for (const [name, value] of fields) {
    if (value !== undefined && typeof value !== "function" && !OF_THE_CLASS.has(name)) kwargs[name] = toStored(value);
  }
  const stored: StoredMessage = { lc: 1, type: "constructor", id, kwargs };
  if (fields.every(([name, value]) => OF_THE_CLASS.has(name) || isSimple(value)))
    KNOWN.set(message, { fields, stored });
  return stored;
}

/** The stored form of a message, and the fields that it was made of. */
interface KnownMessage {
  readonly fields: readonly (readonly [name: string, value: unknown])[];
  readonly stored: StoredMessage;
}

/**
 * A graph hands over all messages at every step, mostly the same ones. Those whose fields can be compared at a glance are
 * not made anew; whoever changes one is noticed.
 */
const KNOWN = new WeakMap<object, KnownMessage>();

function isAsKnown(message: Readonly<Record<string, unknown>>, { fields }: KnownMessage): boolean {
  let index = 0;
  for (const name in message) {
    const field = fields[index++];
    if (!field || field[0] !== name) return false;
    if (!OF_THE_CLASS.has(name) && (message[name] !== field[1] || !isSimple(field[1]))) return false;
  }
  return index === fields.length;
}

/** Can nothing in it have changed while it is the same? */
function isSimple(value: unknown): boolean {
  if (typeof value !== "object" || value === null) return typeof value !== "function";
  if (Array.isArray(value)) return value.length === 0;
  if (Object.getPrototypeOf(value) !== Object.prototype) return false;
  for (const _ in value) return false;
  return true;
}

/**
 * Makes a message again; `undefined` where it is of no class that may be made.
 *
 * @param toLive gives the value of a field
 */
export function storedToMessage(stored: StoredMessage, toLive: (value: unknown) => unknown): object | undefined {
  const type = CLASS_BY_NAME.get(stored.id[2]);
  if (!type || stored.id.length !== 3 || stored.id[0] !== "langchain_core" || stored.id[1] !== "messages")
    return undefined;
  const fields: Record<string, unknown> = {};
  for (const name of Object.keys(stored.kwargs)) {
    if (!OF_THE_CLASS.has(name) && !(name in Object.prototype)) fields[name] = toLive(stored.kwargs[name]);
  }
  const message = emptyMessage(type);
  Object.assign(message, fields);
  message["lc_kwargs"] = fields;
  return message;
}

const EMPTY = new Map<MessageClass, Record<string | symbol, unknown>>();

/**
 * A message of a class with no fields yet. Its constructor is called once for each class: some constructors change what
 * they are given, or complain about it, and all of them take longer than everything else about reading a message.
 */
function emptyMessage(type: MessageClass): Record<string, unknown> {
  let empty = EMPTY.get(type);
  if (!empty) {
    empty = { ...(new type({ ...NEEDED } as never) as Record<string | symbol, unknown>) };
    for (const name of Object.keys(NEEDED)) if (name in empty) empty[name] = undefined;
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
