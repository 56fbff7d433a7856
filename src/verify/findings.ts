/** Problems that a verification finds. */
import { agentOfHistoryId, decodeNumbers } from "../records/index.js";

/** A problem of a store or bundle. */
export interface VerifyProblem {
  /**
   * `record`, `item`, `blob`: stored data cannot be read. `structure`: records contradict each other, or one is missing. `store`:
   * the file or folder of the store is damaged. `bundle`: a bundle is damaged.
   */
  readonly kind: "record" | "item" | "blob" | "structure" | "store" | "bundle";
  /** The session that it belongs to, if that is known. */
  readonly sessionId?: string;
  /** The agent that it belongs to, if that is known. */
  readonly agent?: string;
  /** The conversation that it belongs to, if that is known. */
  readonly conversationId?: string;
  /** Ids of checkpoints that cannot be loaded completely because of it. */
  readonly checkpoints: readonly string[];
  /** What is affected, in words. */
  readonly place: string;
  /** What is wrong, in words. */
  readonly reason: string;
  /** For a record that `repair` took from a backup and that may have changed since: when the backup was written. */
  readonly asOf?: number;
}

/** A problem with the location that a repair needs. */
export interface Finding extends VerifyProblem {
  readonly location?: DamageLocation;
}

/** What is damaged: a record, an item of a tape, or a blob. */
export type DamageLocation =
  | { readonly record: string }
  | { readonly tape: string; readonly item: number }
  | { readonly blob: string };

/** Identifies a finding across several surveys. */
export function findingKey({ kind, place, location }: Finding): string {
  return JSON.stringify([kind, location ?? place]);
}

/** The public part of a finding. */
export function toProblem({ location: _location, ...problem }: Finding): VerifyProblem {
  return problem;
}

/** A record that cannot be read. */
export function damagedRecord(key: string, reason: string): Finding {
  const location = { record: key };
  return { kind: "record", ...ownerOf(key), checkpoints: [], place: describeKey(key), reason, location };
}

/** A record that should exist and does not. */
export function missingRecord(key: string): Finding {
  return { ...damagedRecord(key, "it is missing"), kind: "structure" };
}

/** Names of records, by the first letter of their keys. */
const RECORD_NAMES: Readonly<Record<string, string>> = {
  "#": "the counter of sessions and conversations",
  s: "a session or a branch",
  n: "the list of sessions",
  i: "the index of checkpoint ids",
  a: "a label or pin",
  l: "the index of labels",
  r: "a run",
  q: "the queue",
  h: "a process that executes runs",
  j: "the list of an agent's sessions",
  c: "a conversation",
  d: "the mark of a changed conversation",
  k: "the list of conversations",
  m: "the numbers of an imported agent",
  p: "a retention policy",
  o: "a process that has the store open",
  v: "an interrupted import",
  y: "a removed conversation",
  x: "a deleted session",
  z: "a checkpoint",
};

function describeKey(key: string): string {
  const [, ...parts] = key.split("\t");
  const name = RECORD_NAMES[key[0] ?? ""] ?? "a record";
  if (key.startsWith("z")) {
    const [number, seq] = decodeNumbers(key.slice(1), 2).numbers;
    return `checkpoint #${seq} of session number ${number}`;
  }
  const ids = parts.map((part) => part.replace("\u0001", "agent ")).filter((part) => part !== "");
  return ids.length > 0 ? `${name}: ${ids.join(", ")}` : name;
}

/** The owner of a session's data: the session, or the agent whose history it is. */
export function ownerOfSession(sessionId: string): Pick<VerifyProblem, "sessionId" | "agent"> {
  const agent = agentOfHistoryId(sessionId);
  return agent === undefined ? { sessionId } : { agent };
}

function ownerOf(key: string): Pick<VerifyProblem, "sessionId" | "agent" | "conversationId"> {
  const [kind, id = ""] = key.split("\t");
  if (kind === "c") return { conversationId: id };
  return kind === "s" || kind === "r" || kind === "q" ? ownerOfSession(id) : {};
}
