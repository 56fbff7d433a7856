/**
 * The entries of a journal and their encoding. Each entry is an item on the journal's tape. A large result is an item of its
 * own before its entry, so that a state that it becomes part of can refer to it.
 *
 * Entries are in the order of events. A `start` is written before an effect runs, an `end` when it has a result. An effect whose
 * policy is `retry` has only an `end`, which then contains the start. Answers of people and requests to execute
 * an effect again are entries too.
 */
import type { EffectKind } from "../../events/index.js";
import type { SessionReader } from "../../sessions/index.js";
import { SavepointError } from "../../errors.js";
import { parseRecord } from "../../records/index.js";
import { isCounter, isNumber, isString, objectOf, oneOf, optional, tupleOf } from "../../util/index.js";
import {
  BoundedReader,
  decodeParts,
  encodeShadow,
  estimateSize,
  type Frame,
  hasNodes,
  parseFrame,
  type Piece,
  type Shadow,
  type ShadowObject,
  ValueNode,
} from "../../state/index.js";
import { withItems } from "./known-items.js";
import type { RecordedError } from "./recorded-error.js";

/** The identity of an effect, by which a replayed step is checked against what was recorded. */
export interface EffectCall {
  readonly kind: EffectKind;
  readonly name: string;
  /** The id of a tool call. */
  readonly callId?: string;
  /** The arguments of a tool, or the hash of a model's input; in encoded form. */
  readonly args?: Shadow;
}

/** Tokens and cost of an effect. */
export interface EffectUsage {
  readonly tokens?: number;
  readonly cost?: number;
}

/** The start of an effect: its identity, its time, and how many results the step had received by then. */
export interface EffectStart extends EffectCall {
  readonly at: number;
  readonly delivered: number;
  /** When a sleep ends, in milliseconds since 1970. */
  readonly until?: number;
}

/** The result of an effect, or the error that it threw. */
export type EffectOutcome = { readonly value: Shadow } | { readonly error: RecordedError };

/** Where an entry belongs. Only the first entry of a step, and of an attempt of a step, contains it. */
export interface StepMark {
  /** The number of the step, from 1. */
  readonly step: number;
  /** The epoch of the claim under which the entry was written. */
  readonly epoch: number;
  /** The number of inputs that the session had received. An abandoned turn is listed with a checkpoint of a later one. */
  readonly turn: number;
  /** Whether earlier entries belong to the same step, and the numbers of its effects continue. */
  readonly continues: boolean;
}

/** What settled the unknown outcome of an effect: a person's answer, or the function `verify` of the tool. */
export type Settler = "answer" | "verify";

/** One entry of a journal. */
export type JournalOperation = EntryFields & {
  readonly mark?: StepMark;
  /** The process of the worker that executes the step; in entries with a mark. */
  readonly worker?: string;
};

type EntryFields =
  | { readonly op: "start"; readonly index: number; readonly started: EffectStart }
  | {
      readonly op: "end";
      readonly index: number;
      /** Missing if the effect has a `start` entry. */
      readonly started?: EffectStart;
      readonly outcome: EffectOutcome;
      readonly usage?: EffectUsage;
      /** How long its function ran, with all attempts, in milliseconds. */
      readonly took?: number;
      /** How often its function was called. Missing if once. */
      readonly attempts?: number;
      readonly settledBy?: Settler;
      /** Whether the outcome is that of a tool call which is kept from before the step was restarted. */
      readonly isKept?: true;
      /** The time of an answer, in milliseconds since 1970. */
      readonly answeredAt?: number;
      /** When its function was called, if that is later than its start: another attempt of the step executed it again. */
      readonly executedAt?: number;
    }
  /** The effect is to be executed again: it failed, or a person answered that it did not happen. */
  | { readonly op: "again"; readonly index: number; readonly settledBy?: Settler }
  /** A tool call of a step that was restarted: its start or its result is kept by the id of the call. */
  | { readonly op: "kept"; readonly index: number; readonly started: EffectStart; readonly outcome?: EffectOutcome };

/** A result that is stored as an item of its own. */
export interface StoredResult {
  readonly index: number;
  readonly shadow: Shadow;
  readonly piece: Piece;
  readonly bytes: number;
}

/** Entries as items of a tape. */
export interface EncodedEntries {
  readonly items: readonly Frame[];
  readonly blobs: ReadonlyMap<string, Uint8Array>;
  readonly results: readonly StoredResult[];
  /** For each entry, the number of items up to and including it. */
  readonly ends: readonly number[];
}

/** Results up to this size are stored inside their entry. */
const MAX_INLINE = 256;

/** Encodes entries as items, numbered from `next` on. */
export function encodeEntries(entries: readonly JournalOperation[], tape: number, next: number): EncodedEntries {
  const items: Frame[] = [];
  const blobs = new Map<string, Uint8Array>();
  const results: StoredResult[] = [];
  const ends: number[] = [];
  for (const entry of entries) {
    const { shadow, node } = entryToShadow(entry);
    const encoded = encodeShadow(shadow, tape, next + items.length);
    items.push(...encoded.items);
    for (const [hash, bytes] of encoded.blobs) blobs.set(hash, bytes);
    const { json, refs } = encoded.skeleton;
    // The number of preceding items that belong to the entry: readers start at the end of the tape.
    const own = encoded.items.length;
    items.push({ json: own > 0 ? `{"m":${own},${json.slice(1)}` : json, refs });
    ends.push(items.length);
    if (node?.piece) results.push({ index: entry.index, shadow: node.value, piece: node.piece, bytes: node.bytes });
  }
  return { items, blobs, results, ends };
}

/** Entries as they were read from a tape. */
export interface DecodedEntries {
  readonly entries: readonly JournalOperation[];
  readonly results: readonly StoredResult[];
  /** The entries' own frames, as they are stored. */
  readonly frames: readonly Frame[];
}

/** Reads the entries on these items. Throws `DAMAGED` if one is unreadable: without it, effects would be executed again. */
export async function readEntries(
  reader: SessionReader,
  number: number,
  piece: Piece,
  state = reader.stateReader(number),
): Promise<DecodedEntries> {
  if (piece.count === 0) return { entries: [], results: [], frames: [] };
  const frames: Frame[] = [];
  let shadows: Shadow[];
  try {
    const found = await new BoundedReader(state).items([piece]);
    for (let at = found.length - 1; at >= 0;) {
      const frame = found[at] as Frame | { unreadable: string };
      if (!("json" in frame)) throw damagedJournal(reader, frame.unreadable);
      frames.push(frame);
      const { m = 0 } = parseRecord<{ m?: number }>(frame.json, isEntry, "journal entry");
      at -= 1 + m;
    }
    frames.reverse();
    const parts = frames.map((frame, index) => ({ tree: parseFrame(frame, piece.tape), path: `/${index}` }));
    shadows = await decodeParts(parts, withItems(state, piece, found));
  } catch (error) {
    throw damagedJournal(reader, (error as Error).message, error);
  }
  const results: StoredResult[] = [];
  const entries = shadows.map((shadow) => {
    const entry = shadowToEntry(shadow as ShadowObject);
    const node = (shadow as ShadowObject)["v"];
    if (node instanceof ValueNode && node.piece)
      results.push({ index: entry.index, shadow: node.value, piece: node.piece, bytes: node.bytes });
    return entry;
  });
  return { entries, results, frames };
}

/** An entry, as {@link entryToShadow} encodes it, with the number of items before it that belong to it. */
export const isEntry = objectOf({
  m: optional(isCounter),
  o: isString,
  i: isCounter,
  k: optional(isString),
  n: optional(isString),
  t: optional(isNumber),
  d: optional(isNumber),
  c: optional(isString),
  w: optional(isNumber),
  l: optional(isNumber),
  r: optional(isCounter),
  b: optional(oneOf("a", "v")),
  f: optional(oneOf(1)),
  e: optional(isNumber),
  g: optional(isNumber),
  s: optional(tupleOf(isCounter, isCounter, isCounter, optional(oneOf(1)))),
  h: optional(isString),
  x: optional(objectOf({ name: isString, message: isString })),
  u: optional(objectOf({ tokens: optional(isNumber), cost: optional(isNumber) })),
});

function damagedJournal(reader: SessionReader, why: string, cause?: unknown): SavepointError {
  return new SavepointError(
    "DAMAGED",
    `The journal of the current step of session ${JSON.stringify(reader.sessionId)} is damaged: ${why}. Resuming would execute its effects again. Rewind to an intact checkpoint and run the session from there.`,
    { cause },
  );
}

/** Encodes an entry with one letter per field, without absent fields. */
function entryToShadow(entry: JournalOperation): { shadow: ShadowObject; node: ValueNode | undefined } {
  const shadow: ShadowObject = { o: entry.op[0] as string, i: entry.index };
  let node: ValueNode | undefined;
  if ("started" in entry && entry.started) {
    const { kind, name, callId, args, at, delivered, until } = entry.started;
    Object.assign(shadow, { k: kind, n: name, t: at, d: delivered });
    if (callId !== undefined) shadow["c"] = callId;
    if (args !== undefined) shadow["a"] = args;
    if (until !== undefined) shadow["w"] = until;
  }
  if ("outcome" in entry && entry.outcome) {
    const { outcome } = entry;
    if ("error" in outcome) shadow["x"] = outcome.error as unknown as ShadowObject;
    else if (estimateSize(outcome.value) <= MAX_INLINE && !hasNodes(outcome.value)) shadow["v"] = outcome.value;
    else shadow["v"] = node = new ValueNode(outcome.value);
  }
  if ("usage" in entry && entry.usage) shadow["u"] = { ...entry.usage };
  if (entry.op === "end") {
    if (entry.took !== undefined) shadow["l"] = Math.max(0, Math.round(entry.took));
    if ((entry.attempts ?? 1) > 1) shadow["r"] = entry.attempts as number;
    if (entry.isKept) shadow["f"] = 1;
    if (entry.answeredAt !== undefined) shadow["e"] = entry.answeredAt;
    if (entry.executedAt !== undefined) shadow["g"] = entry.executedAt;
  }
  if ("settledBy" in entry && entry.settledBy) shadow["b"] = entry.settledBy === "answer" ? "a" : "v";
  const { mark, worker } = entry;
  if (mark) shadow["s"] = [mark.step, mark.epoch, mark.turn, ...(mark.continues ? [1] : [])];
  if (worker !== undefined) shadow["h"] = worker;
  return { shadow, node };
}

/** Decodes an entry. Its shape was checked when its frame was found. */
export function shadowToEntry(shadow: ShadowObject): JournalOperation {
  const { s, h } = shadow;
  const [step, epoch, turn, continues] = (s ?? []) as [number?, number?, number?, 1?];
  return {
    ...toEntryFields(shadow),
    ...(step !== undefined && {
      mark: { step, epoch: epoch as number, turn: turn as number, continues: continues === 1 },
    }),
    ...(h !== undefined && { worker: h as string }),
  };
}

function toEntryFields(shadow: ShadowObject): EntryFields {
  const { o: op, i, k, n, t, d, c, a, w, x, v, u, l, r, b, f, e, g } = shadow;
  const index = i as number;
  const started: EffectStart | undefined =
    k === undefined
      ? undefined
      : {
          kind: k as EffectKind,
          name: n as string,
          at: t as number,
          delivered: d as number,
          ...(c !== undefined && { callId: c as string }),
          ...(a !== undefined && { args: a }),
          ...(w !== undefined && { until: w as number }),
        };
  const outcome: EffectOutcome | undefined =
    x !== undefined
      ? { error: x as unknown as RecordedError }
      : v === undefined
        ? undefined
        : { value: v instanceof ValueNode ? v.value : v };
  const usage = u as EffectUsage | undefined;
  if (op === "s" && started) return { op: "start", index, started };
  const settledBy = b === undefined ? {} : { settledBy: b === "a" ? ("answer" as const) : ("verify" as const) };
  if (op === "e" && outcome) {
    return {
      op: "end",
      index,
      ...(started && { started }),
      outcome,
      ...(usage && { usage }),
      ...(l !== undefined && { took: l as number }),
      ...(r !== undefined && { attempts: r as number }),
      ...(e !== undefined && { answeredAt: e as number }),
      ...(g !== undefined && { executedAt: g as number }),
      ...(f !== undefined && { isKept: true as const }),
      ...settledBy,
    };
  }
  if (op === "a") return { op: "again", index, ...settledBy };
  if (op === "k" && started) return { op: "kept", index, started, ...(outcome && { outcome }) };
  throw new SavepointError(
    "STORE_TOO_NEW",
    `The journal contains an entry of the unknown kind ${JSON.stringify(op)}. A newer version of Savepoint wrote it: update the package.`,
  );
}
