/**
 * Which records are encrypted, and with which data key. See the table in `records/keys.ts`.
 *
 * Records that the store, the heartbeat thread or people who operate the store need stay readable: counters, indexes, queue entries,
 * owners of leases, open processes, policies, garbage. They have ids, labels, names of agents, numbers and times, and no content. All
 * others are encrypted, also those of kinds that this table does not know.
 */
import {
  ALL_STORED_KEYS,
  annotationCounterKey,
  branchKey,
  conversationKey,
  decodeNumbers,
  ENCRYPTION_KEY,
  MAX_NUMBER,
  sessionKey,
} from "../records/index.js";
import { compareKeys, covers, type KeyRange } from "../store/index.js";
import { STORE_KEY } from "./data-key.js";

/** The letters of the kinds that stay readable. Of `c` and `w`, only some keys stay readable. */
const READABLE = new Set("#njiluqhkydmvobpxe");

/** Whether the value of a record stays readable. */
export function isReadable(key: string): boolean {
  const kind = key.charAt(0);
  // The counter of annotations; other keys with a number are annotations.
  if (kind === "w") return key.charAt(1) === "\t" || key === annotationCounterKey(numberIn(key));
  if (kind === "c") return /^[nl]/.test(key.slice(key.indexOf("\t", 2) + 1)) && key.indexOf("\t", 2) > 0;
  return READABLE.has(kind);
}

/** Whether a record is a row: no commit checks its value, and few commits replace it. */
export function isWrittenOnce(key: string): boolean {
  return key.charCodeAt(0) === ROW_KIND;
}

const ROW_KIND = "z".charCodeAt(0);

/** The number of the data key of a record, or the key of the record of the session or conversation that has the number. */
export type KeySource = number | { readonly record: string };

/** Which data key encrypts the record of a key. */
export function keySourceOf(key: string): KeySource {
  switch (key.charAt(0)) {
    case "z":
    case "a":
    case "w":
      return numberIn(key);
    case "s":
    case "r":
      return { record: sessionKey(idIn(key)) };
    case "c": {
      const [, id = "", part = ""] = key.split("\t");
      return part === "" ? { record: conversationKey(id) } : validNumber(decodeNumbers(part.slice(1), 1).numbers[0]);
    }
    default:
      return STORE_KEY;
  }
}

/** The number in the value of a session, a conversation or a journal; `undefined` for other values. */
export function numberInValue(key: string, value: string): number | undefined {
  const kind = key.charAt(0);
  const isOwner = kind === "s" || kind === "c";
  if (!isOwner && !(kind === "r" && key.endsWith("\tj"))) return undefined;
  const start = isOwner ? '{"n":' : "[";
  const number = value.startsWith(start) ? numberAt(value, start.length, isOwner ? ",}" : ",") : STORE_KEY;
  return number === STORE_KEY ? undefined : number;
}

/** Parses the digits at `from` as a number. Returns {@link STORE_KEY} if none of `ends` follows them. */
function numberAt(text: string, from: number, ends: string): number {
  let to = from;
  while (isDigit(text.charCodeAt(to)) && to - from < MAX_DIGITS) to++;
  return to > from && to < text.length && ends.includes(text.charAt(to))
    ? validNumber(Number(text.slice(from, to)))
    : STORE_KEY;
}

const isDigit = (code: number): boolean => code >= 48 && code <= 57;
const MAX_DIGITS = 16;

/** Whether a record belongs to the encryption itself. Callers neither see nor write it. */
export function isEncryptionRecord(key: string): boolean {
  return key === ENCRYPTION_KEY || covers(ALL_STORED_KEYS, key);
}

/** The parts of a range that have no records of the encryption, in order. */
export function aroundEncryption({ from, to }: KeyRange): KeyRange[] {
  const least = (a: string, b: string): string => (compareKeys(a, b) < 0 ? a : b);
  const most = (a: string, b: string): string => (compareKeys(a, b) < 0 ? b : a);
  const { from: keysStart, to: keysEnd } = ALL_STORED_KEYS;
  const parts = [
    { from, to: least(to, keysStart) },
    { from: most(from, keysEnd), to: least(to, ENCRYPTION_KEY) },
    { from: most(from, `${ENCRYPTION_KEY}\u0001`), to },
  ];
  return parts.filter((part) => compareKeys(part.from, part.to) < 0);
}

/** The number of the session or conversation that a tape belongs to. */
export function numberOfTape(tape: string): number {
  return validNumber(decodeNumbers(tape, 1).numbers[0]);
}

/** The id in a key: between the first two tabs, or after the first tab if it is the only one. */
function idIn(key: string): string {
  const from = key.indexOf("\t") + 1;
  const to = key.indexOf("\t", from);
  return to < 0 ? key.slice(from) : key.slice(from, to);
}

function numberIn(key: string): number {
  return validNumber(decodeNumbers(key.slice(1), 1).numbers[0]);
}

function validNumber(number: number | undefined): number {
  return number !== undefined && Number.isSafeInteger(number) && number >= 0 && number <= MAX_NUMBER
    ? number
    : STORE_KEY;
}

/** The key of the branch record, whose value contains the references of its head. */
export const isBranchKey = (key: string): boolean => {
  const [kind, session = "", branch, ...more] = key.split("\t");
  return kind === "s" && branch !== undefined && more.length === 0 && key === branchKey(session, branch);
};
