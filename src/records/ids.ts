/** Validation of ids and names that callers choose, and the ids that Savepoint generates. */
import { createHash, randomFillSync } from "node:crypto";
import { SavepointError } from "../errors.js";

const MAX_BYTES = 1024;
/** Control characters, and unpaired surrogates. */
const FORBIDDEN = /[\p{Cc}\p{Cs}]/u;

/**
 * Validates an id that a caller chose: any string of 1 to 1,024 bytes without control characters. Ids are never used as
 * file names or patterns, so `../x`, `*` and `CON` are valid.
 *
 * @param what names the id in the error message, such as `session id`
 */
export function checkId(id: string, what: string): string {
  const given: unknown = id;
  if (given === undefined || given === null) {
    throw new SavepointError("INVALID_ARGUMENT", `The ${what} is missing: expected a string, got ${String(given)}.`);
  }
  const problem = problemOf(id);
  if (problem === undefined) return id;
  const shown = typeof id === "string" && id.length <= 80 ? ` ${JSON.stringify(id)}` : "";
  throw new SavepointError("INVALID_ID", `The ${what}${shown} is invalid: ${problem}. Choose another ${what}.`);
}

/** Whether a stored string is a valid id. */
export function isId(id: unknown): boolean {
  return problemOf(id) === undefined;
}

/** Validates the name of a new branch: an id that does not start with `~`, as generated names do. */
export function checkBranchName(name: string): string {
  checkId(name, "branch name");
  if (name.startsWith("~")) {
    throw new SavepointError(
      "INVALID_ID",
      `The branch name ${JSON.stringify(name)} is invalid: names that start with "~" are generated. Choose another branch name.`,
    );
  }
  return name;
}

/** The first branch of every session. */
export const MAIN = "main";

/** The generated name of a branch that the caller did not name. */
export function unnamedBranch(tape: number): string {
  return `~${tape}`;
}

/** The place of a checkpoint: the number of its session, and its seq. */
export interface CheckpointPlace {
  readonly number: number;
  readonly seq: number;
}

// A UUIDv7 has 48 bits of time and 74 free bits. Here 42 free bits hold the place. The other 32 are random, and are the
// last eight digits of the id.
const MAX_NUMBER = 2 ** 22;
const MAX_SEQ = 2 ** 20;
const PLACES = MAX_NUMBER * MAX_SEQ;
/** If the clock is set back by less than this, ids keep the latest time, so that they still rise. */
const MAX_SET_BACK = 10_000;

/**
 * Creates the generator of checkpoint ids. The ids are UUIDv7 and encode the place of their checkpoint, so finding the
 * checkpoint takes no index. A place with too large numbers does not fit; then {@link placeOfId} returns an unrelated
 * place.
 */
export function createIdSource(now: () => number): (place: CheckpointPlace) => string {
  const random = createRandom();
  let last = 0;
  return ({ number, seq }) => {
    const clock = Math.max(0, Math.floor(now()) || 0);
    last = clock >= last || last - clock > MAX_SET_BACK ? clock : last;
    const fits = number < MAX_NUMBER && seq < MAX_SEQ;
    const place = fits ? number * MAX_SEQ + seq : Math.floor((random() / 2 ** 32) * PLACES);
    return toId(last, place, random());
  };
}

/**
 * The id of the message at a place. The id is derived, so it is not stored.
 *
 * @param place the number of the message's conversation, and the number of its item
 */
export function messageIdAt(time: number, { number, seq }: CheckpointPlace): string {
  const hash = createHash("sha256").update(`${number}.${seq}.${time}`).digest();
  return toId(Math.max(0, Math.floor(time) || 0), (number * MAX_SEQ + seq) % PLACES, hash.readUInt32BE(0));
}

function toId(time: number, place: number, last: number): string {
  const low = place % 2 ** 30;
  const clock = hex(time, 12);
  const high = hex(Math.floor(place / 2 ** 30), 3);
  const middle = hex(0x8000 + (low >>> 16), 4);
  return `${clock.slice(0, 8)}-${clock.slice(8)}-7${high}-${middle}-${hex(low & 0xffff, 4)}${hex(last, 8)}`;
}

const UUID_V7 = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;

/** The time in a UUIDv7, in milliseconds; `undefined` for any other id. */
export function timeOfId(id: string): number | undefined {
  return UUID_V7.test(id) ? Number.parseInt(id.slice(0, 8) + id.slice(9, 13), 16) : undefined;
}

/** The place that an id encodes. Check that the row there has this id, because users can choose any id. */
export function placeOfId(id: string): CheckpointPlace | undefined {
  if (!UUID_V7.test(id)) return undefined;
  const middle = Number.parseInt(id.slice(19, 23), 16) & 0x3fff;
  const place =
    Number.parseInt(id.slice(15, 18), 16) * 2 ** 30 + middle * 2 ** 16 + Number.parseInt(id.slice(24, 28), 16);
  return { number: Math.floor(place / MAX_SEQ), seq: place % MAX_SEQ };
}

/** Whether the id encodes this place. If it does, finding the checkpoint needs no index record. */
export function encodesPlace(id: string, number: number, seq: number): boolean {
  const place = placeOfId(id);
  return place?.number === number && place.seq === seq;
}

function hex(value: number, digits: number): string {
  return value.toString(16).padStart(digits, "0");
}

/** Unpredictable 32-bit numbers, generated in batches because each call to the system generator is slow. */
function createRandom(): () => number {
  const pool = new Uint32Array(256);
  let at = pool.length;
  return () => {
    if (at === pool.length) {
      randomFillSync(pool);
      at = 0;
    }
    return pool[at++] as number;
  };
}

function problemOf(id: unknown): string | undefined {
  if (typeof id !== "string") return `it is of type ${typeof id}, not a string`;
  if (id === "") return "it is empty";
  if (Buffer.byteLength(id) > MAX_BYTES) return `it is longer than ${MAX_BYTES} bytes`;
  return FORBIDDEN.test(id) ? "it contains a control character or an unpaired surrogate" : undefined;
}
