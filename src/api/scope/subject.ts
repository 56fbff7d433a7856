/** Which session, conversation or agent a key belongs to. See the table in `records/keys.ts`. */
import {
  agentOfHistoryId,
  decodeNumbers,
  RETENTION_STAMP_KEY,
  sessionNumberKey,
  STORE_RETENTION_KEY,
  trailingNumberOf,
} from "../../records/index.js";
import { type KeyRange, prefixRange } from "../../store/index.js";

/** What a key belongs to. */
export type Subject =
  | { readonly kind: "session" | "conversation" | "agent"; readonly id: string }
  | NumberedSubject
  /** A record of the store that the work of every agent needs. */
  | { readonly kind: "store"; readonly isWritable: boolean }
  /** Every other key, also one of a kind that this table does not know. */
  | { readonly kind: "unknown" };

/** A session or conversation by its number, or a conversation by its position in lists, which can be another number. */
export interface NumberedSubject {
  readonly kind: "number";
  readonly number: number;
  readonly isOrder: boolean;
}

const UNKNOWN: Subject = { kind: "unknown" };

export function subjectOf(key: string): Subject {
  const [, first = "", second = ""] = key.split("\t");
  const isNumbered = key.charAt(1) !== "\t";
  switch (key.charAt(0)) {
    case "s":
    case "r":
    case "q":
    case "u":
      return sessionOrAgent(first);
    case "c":
      return { kind: "conversation", id: first };
    case "j":
    case "d":
    case "y":
    case "m":
      return { kind: "agent", id: first };
    case "k":
      return isNumbered ? numberIn(key, true) : { kind: "agent", id: first };
    case "w":
      return isNumbered ? numberIn(key) : { kind: "agent", id: first };
    case "n":
    case "z":
    case "a":
    case "l":
    case "x":
      return numberIn(key);
    case "e":
      return { kind: "number", number: decodeNumbers(first, 1).numbers[0] as number, isOrder: false };
    case "i":
      return { kind: "number", number: trailingNumberOf(key), isOrder: false };
    case "p":
      if (key === RETENTION_STAMP_KEY) return { kind: "store", isWritable: true };
      if (key === STORE_RETENTION_KEY) return { kind: "store", isWritable: false };
      return first === "s" ? sessionOrAgent(second) : { kind: "agent", id: second };
    case "#":
    case "h":
      return { kind: "store", isWritable: true };
    case "o":
    case "b":
      return { kind: "store", isWritable: false };
    default:
      return UNKNOWN;
  }
}

/** What all keys of a range belong to; unknown if they may belong to several. */
export function subjectOfRange({ from, to }: KeyRange): Subject {
  const subject = subjectOf(from);
  const [letter = "", first = ""] = from.split("\t");
  if (subject.kind === "unknown" || subject.kind === "store" || letter === "p") return UNKNOWN;
  const prefix =
    subject.kind === "number" ? from.charAt(0) + sessionNumberKey(subject.number).slice(1) : `${letter}\t${first}\t`;
  return from.startsWith(prefix) && to <= prefixRange(prefix).to ? subject : UNKNOWN;
}

function sessionOrAgent(session: string): Subject {
  const agent = agentOfHistoryId(session);
  return agent === undefined ? { kind: "session", id: session } : { kind: "agent", id: agent };
}

function numberIn(key: string, isOrder = false): Subject {
  return { kind: "number", number: decodeNumbers(key.slice(1), 1).numbers[0] as number, isOrder };
}
