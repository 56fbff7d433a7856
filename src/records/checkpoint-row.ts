/**
 * The row of a checkpoint: everything about it except the items that its state refers to.
 *
 * Fields with their default value are left out of the encoding, so a row takes about a hundred bytes.
 */
import { SavepointError } from "../errors.js";
import {
  type ClassRegistry,
  valueToShadow,
  type Frame,
  hasNodes,
  type Piece,
  type Shadow,
  shadowToValue,
} from "../state/index.js";
import type { KeyRange } from "../store/index.js";
import {
  CHECKPOINT_STATUSES,
  type CheckpointInfo,
  type CheckpointKind,
  type CheckpointStatus,
  type Usage,
} from "./checkpoint.js";
import { either, isCounter, isNumber, isString, objectOf, oneOf, optional, tupleOf } from "../util/index.js";
import { isId, MAIN, timeOfId, unnamedBranch } from "./ids.js";
import { invalidRecord, parseRecord } from "./parse-record.js";
import { decodeNumbers, encodeNumber, packId, seqRange, unpackId } from "./keys.js";

/** A checkpoint as it is stored: what listings show of it, and what only its session needs. */
export interface CheckpointRow extends Omit<
  CheckpointInfo,
  "sessionId" | "agent" | "parentId" | "parentSeq" | "metadata" | "expiresAt"
> {
  /** The tape of the branch it was saved on. Refs in the skeleton that name no tape mean this one. */
  readonly tape: number;
  readonly parent: number | undefined;
  /** The parent's parent, so that the history continues past one unreadable row. */
  readonly grandparent: number | undefined;
  /** In its encoded form. */
  readonly metadata: Shadow | undefined;
  /** Its lifetime in milliseconds, if it was saved with one. */
  readonly ttl: number | undefined;
  readonly skeleton: Frame;
  /** Set if a run saved it. */
  readonly run: RunPosition | undefined;
}

/** The position of a checkpoint within a run. */
export interface RunPosition {
  /** The seq of the checkpoint at which its step starts. */
  readonly boundary: number;
  /** The journal of the step up to here; the row's refs include its items. */
  readonly journal: Piece | undefined;
  /**
   * The entries that the checkpoint adds to the list of effects of its branch; the row's refs include these too. They end where
   * `journal` ends. They start earlier if steps before this one have no checkpoint in the history, and later if the first
   * entries of `journal` are copies. They may start with entries that the parent lists too: see `entriesSince`.
   */
  readonly history: Piece | undefined;
  /** `true` inside a step; `false` where one step ends and the next one starts. */
  readonly midStep: boolean;
  /** The number of inputs that the session had received. */
  readonly turn: number;
  /** The item of the output, if the turn ended here. */
  readonly output: Piece | undefined;
}

/** The key of the row of a checkpoint: the number of the session, then the seq, so that rows are ordered by seq. */
export const rowKey = (number: number, seq: number): string => `z${encodeNumber(number)}${encodeNumber(seq)}`;
/** The rows with a seq from `from` (inclusive) to `to` (exclusive). */
export const rowsOf = (number: number, from?: number, to?: number): KeyRange =>
  seqRange(`z${encodeNumber(number)}`, from, to);
/** The seq in the key of a row. */
export const seqOfRowKey = (key: string): number => decodeNumbers(key.slice(1), 2).numbers[1] as number;

/** When a checkpoint expires by its own `ttl`; `undefined` if it has none. */
export function expiryOf({ createdAt, ttl }: CheckpointRow): number | undefined {
  return ttl === undefined ? undefined : createdAt + ttl;
}

/** The earliest of these rows' expiries and of `before`; `undefined` if no row has a `ttl` and `before` is not given. */
export function earliestExpiryOf(rows: Iterable<CheckpointRow>, before?: number): number | undefined {
  let first = before ?? Number.POSITIVE_INFINITY;
  for (const row of rows) first = Math.min(first, expiryOf(row) ?? first);
  return Number.isFinite(first) ? first : undefined;
}

/** The fields of a row, by letters. Fields with their default value are missing. */
interface StoredRow {
  /** id */
  i: string;
  /** tape, and the branch's name where it has one */
  b?: number | [number, string];
  /** distances to the parent and the grandparent; 0 for none */
  p?: [number, number];
  t?: number;
  s: number;
  k?: CheckpointKind;
  c?: CheckpointStatus;
  r?: string;
  l?: string;
  d?: string;
  g?: string;
  h?: string;
  n?: number;
  u?: Usage;
  m?: Shadow;
  x?: 1;
  /** ttl */
  e?: number;
  z: number;
  w: number;
  /** version */
  v?: number;
  /** run */
  j?: StoredRunPosition;
}

/**
 * Distance to the boundary, turn, mid-step; tape, first item and count of the journal; the item of the output; the first item of
 * the history, if that is not the first of the journal.
 */
type StoredRunPosition = [
  distance: number,
  turn: number,
  midStep: 0 | 1,
  tape?: number,
  first?: number,
  count?: number,
  output?: number | null,
  historyStart?: number,
];

const isStoredRow = objectOf({
  i: isString,
  b: optional(either(isCounter, tupleOf(isCounter, isId))),
  p: optional(tupleOf(isCounter, isCounter)),
  t: optional(isNumber),
  s: isNumber,
  k: optional(oneOf("automatic", "manual", "preOperation", "recovery")),
  c: optional(oneOf(...CHECKPOINT_STATUSES)),
  r: optional(isString),
  l: optional(isString),
  d: optional(isString),
  g: optional(isString),
  h: optional(isString),
  n: optional(isNumber),
  u: optional(objectOf({ tokens: optional(isNumber), cost: optional(isNumber) })),
  m: optional((value) => typeof value === "object"),
  e: optional(isNumber),
  z: isNumber,
  w: isNumber,
  v: optional(isCounter),
  j: optional(
    tupleOf(
      isCounter,
      isCounter,
      oneOf(0, 1),
      optional(isCounter),
      optional(isCounter),
      optional(isCounter),
      optional(either(isCounter, oneOf(null))),
      optional(isCounter),
    ),
  ),
});

/** Each row is written twice: under its own key, and in the record of its branch. */
const encodings = new WeakMap<CheckpointRow, string>();

/** The fields on the first line and the skeleton on the second, so that listings parse only the first. */
export function encodeRow(row: CheckpointRow): string {
  let text = encodings.get(row);
  if (text === undefined) encodings.set(row, (text = stringifyRow(row)));
  return text;
}

function stringifyRow(row: CheckpointRow): string {
  const [toParent, toGrandparent] = [distance(row.seq, row.parent), distance(row.parent, row.grandparent)];
  const [usualParent, usualGrandparent] = defaultParents(row.seq);
  const stored: Partial<StoredRow> = { i: packId(row.id) };
  if (row.tape !== 0) stored.b = row.branch === unnamedBranch(row.tape) ? row.tape : [row.tape, row.branch];
  if (toParent !== usualParent || toGrandparent !== usualGrandparent) stored.p = [toParent, toGrandparent];
  if (row.createdAt !== timeOfId(row.id)) stored.t = row.createdAt;
  stored.s = row.step;
  if (row.kind !== "manual") stored.k = row.kind;
  if (row.status !== defaultStatus(row.run)) stored.c = row.status;
  if (row.reason !== undefined) stored.r = row.reason;
  if (row.label !== undefined) stored.l = row.label;
  if (row.description !== undefined) stored.d = row.description;
  if (row.trigger !== undefined) stored.g = row.trigger;
  if (row.resumeHint !== undefined) stored.h = row.resumeHint;
  if (row.tasksCompleted !== 0) stored.n = row.tasksCompleted;
  if (row.usage !== undefined) stored.u = row.usage;
  if (row.metadata !== undefined) stored.m = row.metadata;
  if (row.pinned) stored.x = 1;
  if (row.ttl !== undefined) stored.e = row.ttl;
  stored.z = row.stateBytes;
  stored.w = row.storedBytes;
  if (row.version !== undefined) stored.v = row.version;
  if (row.run) stored.j = encodeRunPosition(row.seq, row.run);
  return `${JSON.stringify(stored)}\n${row.skeleton.json}`;
}

/** @param refs the refs of the stored record, which belong to the skeleton */
export function decodeRow(seq: number, value: string, refs: string): CheckpointRow {
  const end = value.indexOf("\n");
  const stored = parseRecord<StoredRow>(value.slice(0, end), isStoredRow, "checkpoint");
  const [tape, branch] = typeof stored.b === "number" ? [stored.b, unnamedBranch(stored.b)] : (stored.b ?? [0, MAIN]);
  const [toParent, toGrandparent] = stored.p ?? defaultParents(seq);
  const parent = toParent === 0 ? undefined : seq - toParent;
  const grandparent = parent === undefined || toGrandparent === 0 ? undefined : parent - toGrandparent;
  const id = unpackId(stored.i);
  // Distances are counters, so every parent is older than its child, and following parents comes to an end.
  const isOlder = (parent ?? 0) >= 0 && (grandparent ?? 0) >= 0 && (stored.j?.[0] ?? 0) <= seq;
  if (!isOlder || !isId(id)) throw invalidRecord("checkpoint");
  return {
    seq,
    id,
    tape,
    branch,
    parent,
    grandparent,
    createdAt: stored.t ?? timeOfId(id) ?? 0,
    step: stored.s,
    kind: stored.k ?? "manual",
    status: stored.c ?? defaultStatus(stored.j),
    reason: stored.r,
    label: stored.l,
    description: stored.d,
    trigger: stored.g,
    resumeHint: stored.h,
    tasksCompleted: stored.n ?? 0,
    usage: stored.u,
    metadata: stored.m,
    pinned: stored.x === 1,
    ttl: stored.e,
    stateBytes: stored.z,
    storedBytes: stored.w,
    skeleton: { json: value.slice(end + 1), refs },
    version: stored.v,
    run: stored.j && decodeRunPosition(seq, stored.j),
  };
}

function encodeRunPosition(seq: number, run: RunPosition): StoredRunPosition {
  const { boundary, journal, history, midStep, turn, output } = run;
  const stored: StoredRunPosition = [seq - boundary, turn, midStep ? 1 : 0];
  const tape = journal?.tape ?? history?.tape ?? output?.tape;
  // An empty journal starts where the history ends.
  const first = journal?.start ?? (history ? history.start + history.count : 0);
  if (tape !== undefined) stored.push(tape, first, journal?.count ?? 0);
  const hasHistoryStart = journal !== undefined || history !== undefined ? history?.start !== journal?.start : false;
  if (output || hasHistoryStart) stored.push(output?.start ?? null);
  if (hasHistoryStart) stored.push(history?.start ?? first + (journal?.count ?? 0));
  return stored;
}

function decodeRunPosition(seq: number, stored: StoredRunPosition): RunPosition {
  const [distance, turn, midStep, tape = 0, start = 0, count = 0, output, historyStart = start] = stored;
  const listed = start + count - historyStart;
  if (listed < 0) throw invalidRecord("checkpoint");
  return {
    boundary: seq - distance,
    journal: count > 0 ? { tape, start, count } : undefined,
    history: listed > 0 ? { tape, start: historyStart, count: listed } : undefined,
    midStep: midStep === 1,
    turn,
    output: typeof output === "number" ? { tape, start: output, count: 1 } : undefined,
  };
}

/** All items of the journal that a checkpoint keeps: those that its step resumes with, and those that it lists. */
export function itemsOfRun({ journal, history }: RunPosition): Piece | undefined {
  if (!journal || !history) return journal ?? history;
  const start = Math.min(journal.start, history.start);
  return { ...journal, start, count: journal.start + journal.count - start };
}

/**
 * The entries that a checkpoint adds to those that its parent lists; `undefined` if there are none. Both list entries of the same
 * tape if the parent is inside the same step, has the same state (after a rewind), or was hidden when the step began.
 *
 * Entries that the checkpoint resumes with, and that it does not list because an earlier checkpoint of the step does, are added if
 * no checkpoint of the step is left before it.
 */
export function entriesSince(
  { run }: CheckpointRow,
  parent: Pick<CheckpointRow, "run"> | undefined,
): Piece | undefined {
  if (!run) return undefined;
  const listed = parent?.run?.midStep ? run.history : itemsOfRun(run);
  return piecesSince(listed, parent?.run && itemsOfRun(parent.run));
}

/** The part of `history` behind the end of `before`, if both are on the same tape. */
export function piecesSince(history: Piece | undefined, before: Piece | undefined): Piece | undefined {
  if (!history || before?.tape !== history.tape) return history;
  const end = history.start + history.count;
  const start = Math.max(history.start, before.start + before.count);
  return start < end ? { ...history, start, count: end - start } : undefined;
}

/** In most sessions the parent of a checkpoint is the one saved before it. */
function defaultParents(seq: number): [number, number] {
  return [Math.min(seq, 1), seq > 1 ? 1 : 0];
}

/** The status of most checkpoints: of those that a run saves, and of those that are saved by hand. */
export function defaultStatus(run: unknown): CheckpointStatus {
  return run === undefined ? "open" : "running";
}

function distance(from: number | undefined, to: number | undefined): number {
  return from === undefined || to === undefined ? 0 : from - to;
}

/** Encodes metadata for a row. Large binary values are rejected: rows are read by every listing. */
export function encodeMetadata(metadata: object | undefined, registry: ClassRegistry): Shadow | undefined {
  if (metadata === undefined || Object.keys(metadata).length === 0) return undefined;
  const shadow = valueToShadow(metadata, registry);
  if (!hasNodes(shadow)) return shadow;
  throw new SavepointError(
    "INVALID_ARGUMENT",
    "The metadata contains binary data that is too large for it. Store it in the state instead.",
  );
}

export function decodeMetadata(metadata: Shadow | undefined, registry: ClassRegistry): Record<string, unknown> {
  return metadata === undefined ? {} : (shadowToValue(metadata, registry) as Record<string, unknown>);
}

/** Finds a checkpoint by an id that does not encode its place. Several sessions can use the same id. */
export const idKey = (id: string, number: number): string => `${idPrefix(id)}${encodeNumber(number)}`;
export const idPrefix = (id: string): string => `i${packId(id)}\t`;
