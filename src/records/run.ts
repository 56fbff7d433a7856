/**
 * The records of a run: who may write the branch, the status of the work, the effects recorded since the last step, and the
 * queued inputs.
 *
 * Every write of a run checks and replaces the journal record, so it is small. That check rejects a process whose lease was
 * taken over. The record also holds the session's number, so a session that was deleted and created again never matches.
 */
import { type ClassRegistry, parseValue, type Piece, stringifyValue } from "../state/index.js";
import { type KeyRange, prefixRange } from "../store/index.js";
import type { ToolCall } from "../messages/index.js";
import type { CheckpointStatus } from "./checkpoint.js";
import { either, isCounter, isNumber, isString, listOf, objectOf, oneOf, optional, tupleOf } from "../util/index.js";
import { type CheckpointRow, piecesSince } from "./checkpoint-row.js";
import { isId } from "./ids.js";
import { encodeNumber } from "./keys.js";
import { invalidRecord, parseRecord } from "./parse-record.js";
import type { BranchName } from "./queue-entry.js";

/** A question that a run waits to have answered. */
export interface Question {
  /** Identifies it in `sp.answer(session, value, { question })`. */
  readonly id: string;
  /** `ask`: the agent asked. `unknown`: a tool call was interrupted and its outcome is unknown. */
  readonly kind: "ask" | "unknown";
  readonly text: string;
  /** The tool call that was interrupted. */
  readonly call?: ToolCall;
  /** When the tool call started, in milliseconds since 1970. */
  readonly startedAt?: number;
  /** Data that the agent passed with the question. */
  readonly data?: unknown;
}

/** The error that ended a run, in the form in which it is stored: name, message and stack, each of limited length. */
export interface RunError {
  readonly name: string;
  readonly message: string;
  readonly stack?: string;
}

/** The status of the work on a branch. */
export interface RunRecord {
  readonly number: number;
  readonly agent: string;
  readonly status: CheckpointStatus;
  readonly reason: string | undefined;
  /** The seq of the branch's head at the last release. If the head differs, another writer has moved the branch. */
  readonly head: number | undefined;
  /** The current or last owner of the lease. */
  readonly owner: string;
  /** The number of inputs accepted so far. */
  readonly turn: number;
  /** The hash of the current input. */
  readonly input: string;
  /** The key that the caller passed with the current input. */
  readonly key: string | undefined;
  readonly questions: readonly Question[];
  /** When a sleeping run resumes. */
  readonly wakeAt: number | undefined;
  readonly startedAt: number;
  /**
   * Set if an error that the agent's code causes has ended it: `AGENT_FAILED` if the step threw, or the code of Savepoint's error,
   * such as `NONDETERMINISM`. Such a run is resumed when it is run again, because the code may have been fixed.
   */
  readonly code: string | undefined;
  /** The run has crashed too many processes: it is `failed`, and no worker resumes it. */
  readonly quarantined?: true;
  /** Its steps are executed by a loop outside of Savepoint: only `sp.openRun()` can resume it. */
  readonly external?: true;
  /** The error that ended it. */
  readonly error: RunError | undefined;
  /** The number of completed steps when its turn started, or when the turn was last resumed after it had ended. */
  readonly stepsBefore: number | undefined;
}

/** The effects that a run recorded since its last boundary, and its right to record them. */
export interface JournalRecord {
  readonly number: number;
  readonly epoch: number;
  /** The tape of its items. */
  readonly tape: number;
  readonly first: number;
  readonly count: number;
  /** The seq of the checkpoint at which the step starts. */
  readonly boundary: number;
  /** The seq of the branch's head that it belongs to. If the head differs, another writer has moved the branch. */
  readonly head: number;
  /** The seq of the checkpoint from which this step was resumed; not the boundary after a rewind into the step. */
  readonly origin: number;
  /** Failed attempts since the last completed step. */
  readonly failures: number;
  /** Milliseconds of work up to the last boundary. */
  readonly worked: number;
  /** The state of the loop detector. */
  readonly loop: string;
  /** The reason of a requested cancellation. */
  readonly cancelReason: string | undefined;
  /**
   * The item from which on the next checkpoint in the history lists effects, if that is not `first`: earlier, if steps before
   * this one have no checkpoint in the history; later, if the first entries are copies that another checkpoint lists.
   */
  readonly listedFrom: number | undefined;
  /** The recorded deltas of the current turn; `undefined` if no turn of this branch has recorded any. */
  readonly stream: StreamPosition | undefined;
}

/**
 * Where the deltas of a turn are recorded: on items of {@link streamTape}. A new attempt of the turn starts a new range, so what
 * an attempt that was cut off has recorded is not read again.
 */
export interface StreamPosition {
  /** The epoch of the attempt that recorded them. */
  readonly epoch: number;
  readonly first: number;
  readonly count: number;
  /** Whether the turn has ended. The items are then freed. */
  readonly isEnded: boolean;
}

/** The first tape of deltas. Tapes of branches and journals have lower numbers. */
const STREAM_TAPES = 2 ** 32;
/** The tape of the deltas of a branch, given the tape of its journal. */
export const streamTape = (journalTape: number): number => STREAM_TAPES + journalTape;

/** The deltas that a journal keeps; `undefined` if there are none, or their turn has ended. */
export function itemsOfStream({ tape, stream }: JournalRecord): Piece | undefined {
  if (!stream || stream.isEnded || stream.count === 0) return undefined;
  return { tape: streamTape(tape), start: stream.first, count: stream.count };
}

/** The deltas of a turn that another process has ended, so that they are freed. */
export function endStream({ stream }: JournalRecord): StreamPosition | undefined {
  return stream && { ...stream, isEnded: true };
}

/** All items that a journal keeps: the entries of its step, and earlier ones that no checkpoint lists yet. */
export function itemsOfJournal({ tape, first, count, listedFrom = first }: JournalRecord): Piece {
  const start = Math.min(first, listedFrom);
  return { tape, start, count: first + count - start };
}

/**
 * The entries that a journal adds to those that the head of its branch lists; `undefined` if there are none, or if another writer
 * has moved the branch.
 */
export function unlistedEntries(
  journal: JournalRecord | undefined,
  head: CheckpointRow | undefined,
): Piece | undefined {
  if (!journal || journal.head !== head?.seq) return undefined;
  const { tape, first, count, listedFrom = first } = journal;
  const end = first + count;
  return piecesSince(
    listedFrom < end ? { tape, start: listedFrom, count: end - listedFrom } : undefined,
    head.run?.history,
  );
}

/** The journal of a branch without recorded effects whose work starts from the checkpoint with seq `from`. */
export function emptyJournal(number: number, tape: number, from: number): JournalRecord {
  const counters = { epoch: 0, first: 0, count: 0, failures: 0, worked: 0 };
  return {
    number,
    tape,
    ...counters,
    boundary: from,
    head: from,
    origin: from,
    loop: "",
    cancelReason: undefined,
    listedFrom: undefined,
    stream: undefined,
  };
}

/** The counters of a branch's queued inputs: the number of the oldest one, and the number of the next one. */
export interface InboxRecord {
  readonly first: number;
  readonly next: number;
}

/** An input that waits for a run to accept it. */
export interface QueuedInput {
  readonly key: string | undefined;
  /** In its encoded form. */
  readonly input: string;
}

/** Questions can contain any value that a state can, so they are encoded as such. */
export function encodeRun(record: RunRecord, registry: ClassRegistry): string {
  const { questions, ...fields } = record;
  return JSON.stringify({ ...fields, ...(questions.length > 0 && { questions: stringifyValue(questions, registry) }) });
}

export function decodeRun(value: string, registry: ClassRegistry): RunRecord {
  const { questions, ...fields } = parseRun(value);
  const { reason, head, key, wakeAt, code, error, stepsBefore, ...rest } = fields;
  const decoded = questions === undefined ? [] : (parseValue(questions, registry) as Question[]);
  return { ...rest, reason, head, key, wakeAt, code, error, stepsBefore, questions: decoded };
}

/** Parses a run without decoding its questions, because decoding requires the classes that they may contain. */
export function parseRun(value: string): Omit<RunRecord, "questions"> & { questions?: string } {
  const run = parseRecord<ReturnType<typeof parseRun>>(value, isStoredRun, "run");
  if (run.questions !== undefined) parseRecord(run.questions, areQuestions, "question");
  return run;
}

/** The fields from `number` to `origin`. */
type StoredPosition = [number, number, number, number, number, number, number, number];

export function encodeJournal(record: JournalRecord): string {
  const { number, epoch, tape, first, count, boundary, head, origin, failures, worked, loop, cancelReason, stream } =
    record;
  const listedFrom = record.listedFrom === first ? undefined : record.listedFrom;
  const fields: unknown[] = [number, epoch, tape, first, count, boundary, head, origin];
  const isLong = cancelReason !== undefined || listedFrom !== undefined || stream !== undefined;
  if (failures || worked || loop || isLong) fields.push(failures, Math.round(worked));
  if (loop || isLong) fields.push(loop);
  if (isLong) fields.push(cancelReason ?? null);
  if (listedFrom !== undefined || stream) fields.push(listedFrom ?? null);
  if (stream) fields.push([stream.epoch, stream.first, stream.count, ...(stream.isEnded ? [1] : [])]);
  return JSON.stringify(fields);
}

export function decodeJournal(value: string): JournalRecord {
  const [
    number,
    epoch,
    tape,
    first,
    count,
    boundary,
    head,
    origin,
    failures = 0,
    worked = 0,
    loop = "",
    reason,
    listed,
    stored,
  ] = parseRecord<[...StoredPosition, number?, number?, string?, (string | null)?, (number | null)?, StoredStream?]>(
    value,
    isStoredJournal,
    "journal",
  );
  const listedFrom = listed ?? undefined;
  if (listedFrom !== undefined && listedFrom > first + count) throw invalidRecord("journal");
  const cancelReason = reason ?? undefined;
  const [streamEpoch = 0, streamFirst = 0, streamCount = 0, ended] = stored ?? [];
  const stream = stored && {
    epoch: streamEpoch,
    first: streamFirst,
    count: streamCount,
    isEnded: ended === 1,
  };
  return {
    number,
    epoch,
    tape,
    first,
    count,
    boundary,
    head,
    origin,
    failures,
    worked,
    loop,
    cancelReason,
    listedFrom,
    stream,
  };
}

/** A {@link StreamPosition}. */
type StoredStream = [number, number, number, number?];

export const encodeInbox = (record: InboxRecord): string => JSON.stringify([record.first, record.next]);
export const decodeInbox = (value: string): InboxRecord => {
  const [first, next] = parseRecord<[number, number]>(value, isStoredInbox, "inbox");
  return { first, next };
};
export const encodeQueuedInput = (queued: QueuedInput): string => JSON.stringify(queued);
export const decodeQueuedInput = (value: string): QueuedInput => {
  const { key, input } = parseRecord<{ key?: string; input: string }>(value, isStoredInput, "queued input");
  return { key, input };
};

const isRunError = objectOf({ name: isString, message: isString, stack: optional(isString) });
const isStoredRun = objectOf({
  number: isCounter,
  agent: isId,
  status: oneOf("queued", "running", "waiting", "completed", "failed", "halted"),
  reason: optional(isString),
  head: optional(isCounter),
  owner: isString,
  turn: isCounter,
  input: isString,
  key: optional(isString),
  questions: optional(isString),
  wakeAt: optional(isNumber),
  startedAt: isNumber,
  code: optional(isString),
  quarantined: optional(oneOf(true)),
  external: optional(oneOf(true)),
  error: optional(isRunError),
  stepsBefore: optional(isCounter),
});
const areQuestions = listOf(objectOf({ id: isString, kind: oneOf("ask", "unknown"), text: isString }));
const isStoredStream = tupleOf(isCounter, isCounter, isCounter, optional(oneOf(1)));
const isStoredJournal = tupleOf(
  ...Array.from({ length: 8 }, () => isCounter),
  ...[isCounter, isNumber, isString, either(isString, oneOf(null)), either(isCounter, oneOf(null)), isStoredStream].map(
    optional,
  ),
);
const isStoredInbox = tupleOf(isCounter, isCounter);
const isStoredInput = objectOf({ key: optional(isString), input: isString });

/** The records of all runs: journals and inboxes too. */
export const ALL_RUNS: KeyRange = prefixRange("r\t");
/** The branch of a run, given the key of its {@link RunRecord}; `undefined` for the other records of runs. */
export function parseRunKey(key: string): BranchName | undefined {
  const [, session = "", branch = "", part] = key.split("\t");
  return part === "r" ? { session, branch } : undefined;
}
/** All records of a session's runs. */
export const runsOf = (session: string): KeyRange => prefixRange(`r\t${session}\t`);
const runPart = (session: string, branch: string, part: string): string => `r\t${session}\t${branch}\t${part}`;
export const runKey = (session: string, branch: string): string => runPart(session, branch, "r");
export const journalKey = (session: string, branch: string): string => runPart(session, branch, "j");
export const inboxKey = (session: string, branch: string): string => runPart(session, branch, "m");
export const inputKey = (session: string, branch: string, number: number): string =>
  runPart(session, branch, `m${encodeNumber(number)}`);
/** The start of the turn with an idempotency key. */
export const turnKey = (session: string, branch: string, key: string): string => runPart(session, branch, `t${key}`);
