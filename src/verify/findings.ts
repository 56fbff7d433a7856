/** What is found to be wrong with a store. */
import { decodeNumbers } from "../records/index.js";

/** Something that is wrong, for programs and people. */
export interface VerifyProblem {
  /**
   * `record`, `item` and `blob`: something stored cannot be read. `structure`: what can be read does not fit together.
   * `store`: the file or folder itself is damaged. `bundle`: a bundle is.
   */
  readonly kind: "record" | "item" | "blob" | "structure" | "store" | "bundle";
  /** Whose it is, where that can be told. */
  readonly sessionId?: string;
  readonly agent?: string;
  readonly conversationId?: string;
  /** The ids of checkpoints that cannot be loaded whole because of it. */
  readonly checkpoints: readonly string[];
  readonly place: string;
  readonly reason: string;
  /** Of something that `repair` took from a backup, and that may have changed since: when the backup was made. */
  readonly asOf?: number;
}

/** The same, with what it takes to heal it. */
export interface Finding extends VerifyProblem {
  readonly location?: DamageLocation;
}

export type DamageLocation =
  | { readonly record: string }
  | { readonly tape: string; readonly item: number }
  | { readonly blob: string };

/** Tells two findings apart. */
export function findingKey({ kind, place, location }: Finding): string {
  return JSON.stringify([kind, location ?? place]);
}

export function toProblem({ location: _at, ...problem }: Finding): VerifyProblem {
  return problem;
}

/** A record that cannot be read. */
export function damagedRecord(key: string, reason: string): Finding {
  return {
    kind: "record",
    ...ownerOf(key),
    checkpoints: [],
    place: describeKey(key),
    reason,
    location: { record: key },
  };
}

/** A record that should be there. */
export function missingRecord(key: string): Finding {
  return { ...damagedRecord(key, "it is missing"), kind: "structure" };
}

/** Records by the first letter of their keys. */
const RECORDS: Readonly<Record<string, string>> = {
  "#": "the counter of sessions and conversations",
  s: "a session or a branch",
  n: "the list of sessions",
  i: "the index of checkpoint ids",
  a: "a label or pin",
  l: "the index of labels",
  r: "a run",
  q: "the list of unfinished runs",
  h: "a process that runs something",
  j: "the list of an agent's sessions",
  c: "a conversation",
  k: "the list of conversations",
  m: "the numbers of an agent that came from elsewhere",
  p: "a retention policy",
  o: "a process that has the store open",
  v: "an import that was interrupted",
  y: "a deleted conversation",
  x: "a deleted session",
  z: "a checkpoint",
};

function describeKey(key: string): string {
  const [, ...parts] = key.split("\t");
  const what = RECORDS[key[0] ?? ""] ?? "a record";
  if (key.startsWith("z")) {
    const [number, seq] = decodeNumbers(key.slice(1), 2).numbers;
    return `checkpoint #${seq} of session number ${number}`;
  }
  const named = parts.map((part) => part.replace("\u0001", "agent ")).filter((part) => part !== "");
  return named.length > 0 ? `${what}: ${named.join(", ")}` : what;
}

function ownerOf(key: string): Pick<VerifyProblem, "sessionId" | "agent" | "conversationId"> {
  const [kind, name = ""] = key.split("\t");
  if (kind === "c") return { conversationId: name };
  if (kind !== "s" && kind !== "r" && kind !== "q") return {};
  return name.startsWith("\u0001") ? { agent: name.slice(1) } : { sessionId: name };
}
