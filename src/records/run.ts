/**
 * The records of a run. They say who may write a branch, how its work stands, and what it has recorded since its last
 * boundary. The model reads them to tell how a session stands; the layer above it writes them.
 *
 * The journal's record is small, because every write of a run checks and replaces it: that is what refuses a process
 * whose lease was taken over. It names the session's number too, so that a session that was deleted and begun again
 * cannot be mistaken for what it was.
 */
import { type ClassRegistry, parseValue, stringifyValue } from "../state/index.js";
import type { ProcessIdentity } from "../util/index.js";
import type { CheckpointStatus } from "./checkpoint.js";
import type { ToolCall } from "../messages/index.js";

/** Something that a run waits to be told. */
export interface Question {
  /** Names it in `sp.answer(session, value, { question })`. */
  readonly id: string;
  /** `ask`: the agent asked. `unknown`: a tool was interrupted, and nobody knows whether it happened. */
  readonly kind: "ask" | "unknown";
  readonly text: string;
  /** The tool call that was interrupted. */
  readonly call?: ToolCall;
  /** When it was started, in milliseconds since 1970. */
  readonly startedAt?: number;
  /** What the agent gave along. */
  readonly data?: unknown;
}

/** How the work on a branch stands. */
export interface RunRecord {
  readonly number: number;
  readonly agent: string;
  readonly status: CheckpointStatus;
  readonly reason: string | undefined;
  /** The head of the branch when it was last let go; where it has another one since, somebody else has moved it. */
  readonly head: number | undefined;
  /** Who runs it, or ran it last. */
  readonly owner: string;
  /** Inputs taken so far. */
  readonly turn: number;
  /** The hash of the input that is being worked on. */
  readonly input: string;
  /** The key that came with it. */
  readonly key: string | undefined;
  readonly questions: readonly Question[];
  /** When it wants to be woken. */
  readonly wakeAt: number | undefined;
  readonly startedAt: number;
  /** The error that ended it, where that is one of Savepoint's. */
  readonly code: string | undefined;
}

/** What a run has recorded since its boundary, and its right to do so. */
export interface JournalRecord {
  readonly number: number;
  readonly epoch: number;
  /** The tape its items are on. */
  readonly tape: number;
  readonly first: number;
  readonly count: number;
  /** The checkpoint that the step began with. */
  readonly boundary: number;
  /** The head of the branch that it belongs to: where there is another one, somebody else has moved the branch. */
  readonly head: number;
  /** The checkpoint that work on this step began from: another one than its boundary after going back into its middle. */
  readonly origin: number;
  /** Steps that failed since the last one that did not. */
  readonly failures: number;
  /** Milliseconds of work so far, as of the last boundary. */
  readonly worked: number;
  /** What the loop detector remembers. */
  readonly loop: string;
  /** Somebody wants it to stop, and why. */
  readonly cancelReason: string | undefined;
}

/** The journal of a branch that has recorded nothing, and whose work begins from a checkpoint. */
export function emptyJournal(number: number, tape: number, from: number): JournalRecord {
  return {
    number,
    epoch: 0,
    tape,
    first: 0,
    count: 0,
    boundary: from,
    head: from,
    origin: from,
    failures: 0,
    worked: 0,
    loop: "",
    cancelReason: undefined,
  };
}

/** A process that runs something. */
export interface OwnerRecord {
  /** When its leases end, by the store's clock. */
  readonly until: number;
  readonly process: ProcessIdentity;
}

/** When the leases end of one that was stopped, and could not let go of everything. */
export const CLEAN_SHUTDOWN = 0;

/** Inputs that were left for a branch: the number of the oldest, and the number the next one gets. */
export interface InboxRecord {
  readonly first: number;
  readonly next: number;
}

/** An input that was left. */
export interface QueuedInput {
  readonly key: string | undefined;
  /** In its encoded form. */
  readonly input: string;
}

/** Questions may have anything in them that a state may: they are a text of their own. */
export function encodeRun(record: RunRecord, registry: ClassRegistry): string {
  const { questions, ...fields } = record;
  return JSON.stringify({ ...fields, ...(questions.length > 0 && { questions: stringifyValue(questions, registry) }) });
}

export function decodeRun(value: string, registry: ClassRegistry): RunRecord {
  const { questions, ...fields } = JSON.parse(value) as Omit<RunRecord, "questions"> & { questions?: string };
  const { reason, head, key, wakeAt, code, ...rest } = fields;
  const asked = questions === undefined ? [] : (parseValue(questions, registry) as Question[]);
  return { ...rest, reason, head, key, wakeAt, code, questions: asked };
}

export function encodeJournal(record: JournalRecord): string {
  const { number, epoch, tape, first, count, boundary, head, origin, failures, worked, loop, cancelReason } = record;
  const fields: unknown[] = [number, epoch, tape, first, count, boundary, head, origin];
  if (failures || worked || loop || cancelReason !== undefined) fields.push(failures, Math.round(worked));
  if (loop || cancelReason !== undefined) fields.push(loop);
  if (cancelReason !== undefined) fields.push(cancelReason);
  return JSON.stringify(fields);
}

export function decodeJournal(value: string): JournalRecord {
  const [number, epoch, tape, first, count, boundary, head, origin, failures = 0, worked = 0, loop = "", cancel] =
    JSON.parse(value) as [
      number,
      number,
      number,
      number,
      number,
      number,
      number,
      number,
      number?,
      number?,
      string?,
      string?,
    ];
  return { number, epoch, tape, first, count, boundary, head, origin, failures, worked, loop, cancelReason: cancel };
}

export const encodeOwner = (record: OwnerRecord): string => JSON.stringify(record);
export const decodeOwner = (value: string): OwnerRecord => JSON.parse(value) as OwnerRecord;
export const encodeInbox = (record: InboxRecord): string => JSON.stringify([record.first, record.next]);
export const decodeInbox = (value: string): InboxRecord => {
  const [first, next] = JSON.parse(value) as [number, number];
  return { first, next };
};
export const encodeQueuedInput = (left: QueuedInput): string => JSON.stringify(left);
export const decodeQueuedInput = (value: string): QueuedInput => {
  const { key, input } = JSON.parse(value) as { key?: string; input: string };
  return { key, input };
};
