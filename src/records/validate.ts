/**
 * Validates records when they are read. A checksum that fits shows that a record is unchanged since it was written, not who
 * wrote it. A record that no version of Savepoint writes is reported like a damaged one, so no other code has to expect it.
 */
import { isSavepointError } from "../errors.js";
import { parseRefs, parseStoredJson } from "../state/index.js";
import { overrideStore, type RecordResult, type Store, type StoredRecord } from "../store/index.js";
import {
  isBoolean,
  isCounter,
  isNumber,
  isString,
  listOf,
  objectOf,
  optional,
  type Shape,
  tupleOf,
} from "../util/index.js";
import { decodeStatusNote, parseNoteKey } from "./annotations.js";
import { decodeBranch } from "./branch.js";
import { decodeRow } from "./checkpoint-row.js";
import { decodeConversation, decodeSnapshotBase } from "./conversation.js";
import { isId } from "./ids.js";
import { decodeNumbers, encodeNumber, unpackId } from "./keys.js";
import { decodeOwner } from "./owner.js";
import { decodeQueueEntry } from "./queue-entry.js";
import { decodeInbox, decodeJournal, decodeQueuedInput, parseRun } from "./run.js";
import { agentOfHistoryId, decodeSession } from "./session.js";
import { MAX_NUMBER, parseBackup } from "./store-wide.js";

/** A view of a store whose reads return invalid records as unreadable. Everything else is forwarded. */
export function validateReads(store: Store): Store {
  return overrideStore(store, {
    get: async (keys) => (await store.get(keys)).map((record) => record && validateRecord(record)),
    list: async (range, options) => (await store.list(range, options)).map(validateRecord),
    ...(store.reserve && {
      reserve: async (...args) => ((await store.reserve?.(...args)) ?? []).map(validateRecord),
    }),
  } satisfies Partial<Store>);
}

/** The record, or why its content is invalid. */
export function validateRecord(record: RecordResult): RecordResult {
  if (!("value" in record)) return record;
  // The columns of a database can hold other types than those that were declared.
  const { key, value, refs } = record;
  if (typeof key !== "string" || typeof value !== "string" || typeof refs !== "string") {
    return { key: String(key), unreadable: "it is not text" };
  }
  try {
    const isValid = validatorOf(record.key)(record);
    return isValid ? record : { key: record.key, unreadable: "its content is invalid" };
  } catch (error) {
    if (!isSavepointError(error, "DAMAGED")) throw error;
    return { key: record.key, unreadable: `its content is invalid: ${error.message}` };
  }
}

/** Returns whether a record is valid, or throws `DAMAGED` with the reason. */
type Validator = (record: StoredRecord) => boolean;

/** The validators of records, by the letter with which their keys begin. See the table in `keys.ts`. */
const VALIDATORS: ReadonlyMap<string, Validator> = new Map<string, Validator>([
  ["#", ({ value }) => isDigits(value) && Number(value) <= MAX_NUMBER],
  ["s", isSessionOrBranch],
  ["n", ({ key, value }) => hasNumbers(key.slice(1), 1) && isSessionId(value)],
  ["j", ({ value }) => isSessionId(value)],
  ["z", isRow],
  ["i", ({ key, value }) => isId(unpackId(key.slice(1, key.indexOf("\t")))) && isDigits(value)],
  ["a", isNote],
  ["l", ({ value }) => isDigits(value)],
  ["w", isAnnotationOrWork],
  ["r", isRunPart],
  ["q", ({ value }) => decodes(() => decodeQueueEntry(value))],
  ["h", ({ value }) => decodes(() => decodeOwner(value))],
  ["c", isConversationPart],
  ["k", ({ value }) => isId(value.endsWith("\t") ? value.slice(0, -1) : value)],
  ["d", isChangedConversation],
  ["m", ({ value }) => areMoves(parseStoredJson(value))],
  ["b", ({ value }) => decodes(() => parseBackup(value))],
  ["v", ({ value }) => isImport(parseStoredJson(value))],
  ["o", ({ value }) => isOpenProcess(parseStoredJson(value))],
  ["p", ({ key, value }) => key === "p" || isPolicy(parseStoredJson(value))],
]);

/**
 * Every other key is accepted: index entries have no content, and letters of other versions do not occur, because the format
 * number is checked when the store is opened.
 */
function validatorOf(key: string): Validator {
  return VALIDATORS.get(key.charAt(0)) ?? (() => true);
}

/** Runs a decoder, which throws if the content is invalid. */
function decodes(decode: () => unknown): true {
  decode();
  return true;
}

function isSessionOrBranch({ key, value }: StoredRecord): boolean {
  const [, session = "", branch] = key.split("\t");
  if (!isSessionId(session)) return false;
  return branch === undefined ? decodes(() => decodeSession(value)) : decodeBranch(value).name === branch;
}

function isRow({ key, value, refs }: StoredRecord): boolean {
  const numbers = hasNumbers(key.slice(1), 2, true) ? decodeNumbers(key.slice(1), 2).numbers : [];
  return numbers.length === 2 && decodes(() => decodeRow(numbers[1] as number, value, refs));
}

function isNote({ key, value }: StoredRecord): boolean {
  if (!hasNumbers(key.slice(1), 2)) return false;
  return parseNoteKey(key).name !== "status" || decodes(() => decodeStatusNote(value));
}

/** `w` begins the keys of annotations and their counters, and those of the index of scheduled work. */
function isAnnotationOrWork({ key, value, refs }: StoredRecord): boolean {
  if (key.charAt(1) === "\t") return true;
  if (hasNumbers(key.slice(1), 1, true)) return isDigits(value);
  return hasNumbers(key.slice(1), 2) && decodes(() => [parseRefs(refs, 0), parseStoredJson(value)]);
}

function isRunPart({ key, value }: StoredRecord): boolean {
  const part = key.slice(key.indexOf("\t", key.indexOf("\t", 2) + 1) + 1);
  if (part === "j") return decodes(() => decodeJournal(value));
  if (part === "r") return decodes(() => parseRun(value));
  if (part === "m") return decodes(() => decodeInbox(value));
  if (part.startsWith("m")) return hasNumbers(part.slice(1), 1, true) && decodes(() => decodeQueuedInput(value));
  return part.startsWith("t") && isTurn(parseStoredJson(value));
}

function isConversationPart({ key, value }: StoredRecord): boolean {
  const [, id = "", part = ""] = key.split("\t");
  if (!isId(id)) return false;
  if (part === "") return decodes(() => decodeConversation(value));
  if (part.startsWith("n")) return isDigits(value);
  if (part.startsWith("l")) return isNumber(Number(value));
  return isString(parseStoredJson(value));
}

function isChangedConversation({ key, value }: StoredRecord): boolean {
  const [, agent = "", conversation] = key.split("\t");
  if (conversation !== undefined) return isId(agent) && isId(conversation);
  return isId(agent) && /^\S+ \d{1,16}$/.test(value) && isCounter(decodeSnapshotBase(value).seq);
}

const isTurn: Shape = tupleOf(isCounter, isCounter);
const areMoves: Shape = listOf(objectOf({ upTo: isCounter, by: isCounter }));
const isImport: Shape = objectOf({
  by: isCounter,
  at: isNumber,
  numbers: listOf(tupleOf(isCounter, isString)),
});
const isOpenProcess: Shape = objectOf({ since: isNumber, process: objectOf({ host: isString, pid: isCounter }) });
/** Checks only these fields. Numbers (`null` means infinity) and the names of kinds are checked where the policy is used. */
const isPolicy: Shape = objectOf({
  keepLabelled: optional(isBoolean),
  expired: optional(isBoolean),
  kinds: optional(listOf(isString)),
});

function isDigits(value: string): boolean {
  return /^\d{1,16}$/.test(value) && isCounter(Number(value));
}

/** The id of a session, or the hidden id under which the history of an agent is stored. */
function isSessionId(id: string): boolean {
  return isId(agentOfHistoryId(id) ?? id);
}

/** Whether a text begins with this many encoded numbers. @param only whether nothing may follow them */
function hasNumbers(text: string, count: number, only = false): boolean {
  const { numbers, rest } = decodeNumbers(text, count);
  const encoded = numbers.map((number) => (isCounter(number) ? encodeNumber(number) : "")).join("");
  return numbers.every(isCounter) && text === encoded + rest && !(only && rest !== "");
}
