/**
 * The texts of the model's records. What has its usual value is left out: a row costs about a hundred bytes.
 *
 * The session's record is what its numbering hangs on, a branch's record what its saves hang on: each commit to a branch
 * checks and replaces both, so of two writers that started from the same head one is refused. The branch's record also
 * carries a copy of its head's row: reading the latest state takes one record and its items.
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
import type { CheckpointKind, CheckpointStatus, Usage } from "./checkpoint.js";
import { timeOfId, unnamedBranch } from "./ids.js";
import { packId, unpackId } from "./keys.js";

export const MAIN = "main";

/** A session: its number, and the next of what it numbers. */
export interface SessionRecord {
  readonly number: number;
  readonly agent: string | undefined;
  readonly createdAt: number;
  readonly nextSeq: number;
  readonly nextTape: number;
  /** How many checkpoints it has; kept by {@link buildCommit}. */
  readonly checkpoints: number;
  /** When it saves by itself, where that was said. */
  readonly policy: AutoPolicy | undefined;
  /** When the first of its checkpoints expires that have a lifetime of their own; kept like their number. */
  readonly earliestExpiry: number | undefined;
}

/** When checkpoints are taken by themselves, and how many of those are kept. */
export interface AutoPolicy {
  /** Milliseconds between two of them. */
  readonly interval: number;
  /** How many checkpoints of the kinds `automatic` and `preOperation` are kept. */
  readonly max: number;
  /** Is one taken before what cannot be undone otherwise? */
  readonly beforeOperations: boolean;
  readonly enabled: boolean;
}

/** A branch: its tape, its head, and the number that the next item on its tape gets. */
export interface BranchRecord {
  readonly name: string;
  readonly tape: number;
  readonly nextItem: number;
  /** Rises whenever the right to write the branch changes hands. */
  readonly epoch: number;
  /** Does a run have the right to write it? Others are refused, unless that run's lease is over. */
  readonly held: boolean;
  /** The head has no row of its own: the next checkpoint takes its place in the history. */
  readonly hidden: boolean;
  readonly createdAt: number;
  /** The checkpoint it was forked from. */
  readonly forkedFrom: number | undefined;
  /** The newest checkpoint's row; `undefined` while there is none. */
  readonly head: CheckpointRow | undefined;
  /** The id of the head's parent. */
  readonly headParentId: string | undefined;
}

/** A checkpoint as it is stored. */
export interface CheckpointRow {
  readonly seq: number;
  readonly id: string;
  /** The tape that its skeleton's refs do not name: that of the branch it was saved on. */
  readonly tape: number;
  readonly branch: string;
  readonly parent: number | undefined;
  /** The parent's parent, so that one unreadable row does not end the line. */
  readonly grandparent: number | undefined;
  readonly createdAt: number;
  readonly step: number;
  readonly kind: CheckpointKind;
  readonly status: CheckpointStatus;
  readonly reason: string | undefined;
  readonly label: string | undefined;
  readonly description: string | undefined;
  readonly trigger: string | undefined;
  readonly resumeHint: string | undefined;
  readonly tasksCompleted: number;
  readonly usage: Usage | undefined;
  /** In its encoded form. */
  readonly metadata: Shadow | undefined;
  readonly pinned: boolean;
  /** How long it is wanted, in milliseconds, where that was said. */
  readonly ttl: number | undefined;
  readonly stateBytes: number;
  readonly storedBytes: number;
  readonly skeleton: Frame;
  /** How many migrations its state has been through, where whoever saved it knew. */
  readonly version: number | undefined;
  /** Set where a run has saved it. */
  readonly run: RunPosition | undefined;
}

/** Where a checkpoint stands in a run. */
export interface RunPosition {
  /** The checkpoint that its step began with. */
  readonly boundary: number;
  /** What the step had recorded by then; its items are part of the row's refs. */
  readonly journal: Piece | undefined;
  /** Is it in the middle of its step? Otherwise it is where the step ends and the next one begins. */
  readonly midStep: boolean;
  /** How many inputs the session had been given. */
  readonly turn: number;
  /** The item with the output, where the turn ended here. */
  readonly output: Piece | undefined;
}

/** A session in which nothing is saved yet. */
export function newSessionRecord(number: number, createdAt: number): SessionRecord {
  const counters = { nextSeq: 0, nextTape: 1, checkpoints: 0 };
  return { number, agent: undefined, createdAt, ...counters, policy: undefined, earliestExpiry: undefined };
}

export function encodeSession(record: SessionRecord): string {
  const {
    number: n,
    agent: a,
    createdAt: t,
    nextSeq: q,
    nextTape: p,
    checkpoints: c,
    policy: o,
    earliestExpiry: e,
  } = record;
  return JSON.stringify({ n, a, t, q, p, c, o, e });
}

export function decodeSession(value: string): SessionRecord {
  const { n, a, t, q, p, c, o, e } = JSON.parse(value) as StoredSession;
  return {
    number: n,
    agent: a,
    createdAt: t,
    nextSeq: q,
    nextTape: p,
    checkpoints: c ?? 0,
    policy: o,
    earliestExpiry: e,
  };
}

/** When a checkpoint expires by what was said of it: it is wanted up to then, and not after. */
export function expiryOf({ createdAt, ttl }: CheckpointRow): number | undefined {
  return ttl === undefined ? undefined : createdAt + ttl;
}

/** When the first of these checkpoints expires; `undefined` if none of them ever does. */
export function earliestExpiryOf(rows: Iterable<CheckpointRow>): number | undefined {
  let first = Number.POSITIVE_INFINITY;
  for (const row of rows) first = Math.min(first, expiryOf(row) ?? first);
  return Number.isFinite(first) ? first : undefined;
}

interface StoredSession {
  n: number;
  a?: string;
  t: number;
  q: number;
  p: number;
  c?: number;
  o?: AutoPolicy;
  e?: number;
}

interface StoredBranch {
  b: string;
  p: number;
  i: number;
  e: number;
  t: number;
  f?: number;
  /** held */
  l?: 1;
  /** hidden */
  x?: 1;
  /** The head's seq, its refs, and the id of its parent. */
  h?: [number, string, (string | null)?];
}

/** Its fields, and the text of its head's row on the lines behind them. */
export function encodeBranch(record: BranchRecord): string {
  const { name, tape, nextItem, epoch, createdAt, forkedFrom, held, hidden, head, headParentId } = record;
  const stored: StoredBranch = { b: name, p: tape, i: nextItem, e: epoch, t: createdAt };
  if (forkedFrom !== undefined) stored.f = forkedFrom;
  if (held) stored.l = 1;
  if (hidden) stored.x = 1;
  if (head) stored.h = [head.seq, head.skeleton.refs, headParentId ?? null];
  const fields = JSON.stringify(stored);
  return head ? `${fields}\n${encodeRow(head)}` : fields;
}

export function decodeBranch(value: string): BranchRecord {
  const end = value.indexOf("\n");
  const { b, p, i, e, t, f, l, x, h } = JSON.parse(end < 0 ? value : value.slice(0, end)) as StoredBranch;
  return {
    name: b,
    tape: p,
    nextItem: i,
    epoch: e,
    createdAt: t,
    forkedFrom: f,
    held: l === 1,
    hidden: x === 1,
    head: h && decodeRow(h[0], value.slice(end + 1), h[1]),
    headParentId: h?.[2] ?? undefined,
  };
}

/** A row's fields, by letters. Those that have their usual value are missing. */
interface StoredRow {
  /** id */
  i: string;
  /** tape, and the branch's name where it has one */
  b?: number | [number, string];
  /** parent and grandparent, as distances; 0 for none */
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
  j?: StoredRowRun;
}

/** Distance to the boundary, turn, mid-step; tape, first and count of the journal; the item of the output. */
type StoredRowRun = [
  distance: number,
  turn: number,
  midStep: 0 | 1,
  tape?: number,
  first?: number,
  count?: number,
  output?: number,
];

/** Rows are written twice, for themselves and in their branch's record. */
const texts = new WeakMap<CheckpointRow, string>();

/** Its fields, and the skeleton on a line of its own: listings parse the first line only. */
export function encodeRow(row: CheckpointRow): string {
  let text = texts.get(row);
  if (text === undefined) texts.set(row, (text = rowToText(row)));
  return text;
}

function rowToText(row: CheckpointRow): string {
  const [toParent, toGrandparent] = [distance(row.seq, row.parent), distance(row.parent, row.grandparent)];
  const [usual, usualNext] = usualParents(row.seq);
  const stored: Partial<StoredRow> = { i: packId(row.id) };
  if (row.tape !== 0) stored.b = row.branch === unnamedBranch(row.tape) ? row.tape : [row.tape, row.branch];
  if (toParent !== usual || toGrandparent !== usualNext) stored.p = [toParent, toGrandparent];
  if (row.createdAt !== timeOfId(row.id)) stored.t = row.createdAt;
  stored.s = row.step;
  if (row.kind !== "manual") stored.k = row.kind;
  if (row.status !== "running") stored.c = row.status;
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
  if (row.run) stored.j = encodeRowRun(row.seq, row.run);
  return `${JSON.stringify(stored)}\n${row.skeleton.json}`;
}

export function decodeRow(seq: number, value: string, refs: string): CheckpointRow {
  const end = value.indexOf("\n");
  const stored = JSON.parse(value.slice(0, end)) as StoredRow;
  const [tape, branch] = typeof stored.b === "number" ? [stored.b, unnamedBranch(stored.b)] : (stored.b ?? [0, MAIN]);
  const [toParent, toGrandparent] = stored.p ?? usualParents(seq);
  const parent = toParent === 0 ? undefined : seq - toParent;
  const id = unpackId(stored.i);
  return {
    seq,
    id,
    tape,
    branch,
    parent,
    grandparent: parent === undefined || toGrandparent === 0 ? undefined : parent - toGrandparent,
    createdAt: stored.t ?? timeOfId(id) ?? 0,
    step: stored.s,
    kind: stored.k ?? "manual",
    status: stored.c ?? "running",
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
    run: stored.j && decodeRowRun(seq, stored.j),
  };
}

function encodeRowRun(seq: number, run: RunPosition): StoredRowRun {
  const { boundary, journal, midStep, turn, output } = run;
  const stored: StoredRowRun = [seq - boundary, turn, midStep ? 1 : 0];
  const tape = journal?.tape ?? output?.tape;
  if (tape !== undefined) stored.push(tape, journal?.start ?? 0, journal?.count ?? 0);
  if (output) stored.push(output.start);
  return stored;
}

function decodeRowRun(seq: number, stored: StoredRowRun): RunPosition {
  const [distance, turn, midStep, tape = 0, start = 0, count = 0, output] = stored;
  return {
    boundary: seq - distance,
    journal: count > 0 ? { tape, start, count } : undefined,
    midStep: midStep === 1,
    turn,
    output: output === undefined ? undefined : { tape, start: output, count: 1 },
  };
}

/** In most sessions every checkpoint follows the one before it. */
function usualParents(seq: number): [number, number] {
  return [Math.min(seq, 1), seq > 1 ? 1 : 0];
}

function distance(from: number | undefined, to: number | undefined): number {
  return from === undefined || to === undefined ? 0 : from - to;
}

/** Metadata in the form it is stored in; refuses what cannot be stored in a row. */
export function encodeMetadata(metadata: object | undefined, registry: ClassRegistry): Shadow | undefined {
  if (metadata === undefined || Object.keys(metadata).length === 0) return undefined;
  const shadow = valueToShadow(metadata, registry);
  if (!hasNodes(shadow)) return shadow;
  throw new SavepointError("INVALID_ARGUMENT", "The metadata contains large bytes. Keep those in the state.");
}

export function decodeMetadata(metadata: Shadow | undefined, registry: ClassRegistry): Record<string, unknown> {
  return metadata === undefined ? {} : (shadowToValue(metadata, registry) as Record<string, unknown>);
}
