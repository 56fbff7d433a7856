/**
 * Keys of what is recorded about a checkpoint after it was saved: notes (a label, a pin or a status, which override the row's
 * own) and annotations (values that callers attach).
 */
import { type KeyRange, prefixRange } from "../store/index.js";
import { isString, oneOf, tupleOf } from "../util/index.js";
import { CHECKPOINT_STATUSES, type CheckpointStatus } from "./checkpoint.js";
import { decodeNumbers, encodeNumber, seqRange } from "./keys.js";
import { parseRecord } from "./parse-record.js";

/** A note of a checkpoint: `label`, `pin` or `status`. */
export const noteKey = (number: number, seq: number, name: string): string =>
  `a${encodeNumber(number)}${encodeNumber(seq)}${name}`;
/** The notes of the checkpoints with a seq from `from` (inclusive) to `to` (exclusive). */
export const notesOf = (number: number, from?: number, to?: number): KeyRange =>
  seqRange(`a${encodeNumber(number)}`, from, to);

/** The seq and the name in the key of a note or an annotation. */
export function parseNoteKey(key: string): { seq: number; name: string } {
  const { numbers, rest } = decodeNumbers(key.slice(1), 2);
  return { seq: numbers[1] as number, name: rest };
}

/** The status of a checkpoint that was set after it was saved, and the reason. */
export interface StatusNote {
  readonly status: CheckpointStatus;
  readonly reason: string | undefined;
}

export function encodeStatusNote({ status, reason }: StatusNote): string {
  return JSON.stringify([status, reason ?? ""]);
}

export function decodeStatusNote(value: string): StatusNote {
  const [status, reason] = parseRecord<[CheckpointStatus, string]>(value, isStatusNote, "status");
  return { status, reason: reason || undefined };
}

const isStatusNote = tupleOf(oneOf(...CHECKPOINT_STATUSES), isString);

/** Finds a checkpoint by its label; the key ends with the seq. */
export const labelKey = (number: number, label: string, seq: number): string =>
  `l${encodeNumber(number)}${label}\t${encodeNumber(seq)}`;
export const labelRange = (number: number, label: string): KeyRange =>
  prefixRange(`l${encodeNumber(number)}${label}\t`);
export const labelsOf = (number: number): KeyRange => prefixRange(`l${encodeNumber(number)}`);

/** The tape that stores the annotations of a session. No session has this many branches. */
export const ANNOTATIONS_TAPE = 2 ** 32 - 1;
export const annotationCounterKey = (number: number): string => `w${encodeNumber(number)}`;
export const annotationKey = (number: number, seq: number, name: string): string =>
  `w${encodeNumber(number)}${encodeNumber(seq)}${name}`;
/** The annotations of the checkpoints with a seq from `from` (inclusive) to `to` (exclusive). */
export const annotationsOf = (number: number, from?: number, to?: number): KeyRange =>
  seqRange(`w${encodeNumber(number)}`, from, to);
