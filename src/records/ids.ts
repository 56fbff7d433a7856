/** Ids and names that callers choose, and those that Savepoint makes. */
import { createHash, randomFillSync } from "node:crypto";
import { SavepointError } from "../errors.js";

const MAX_BYTES = 1024;
/** Control characters, and halves of surrogate pairs. */
const FORBIDDEN = /[\p{Cc}\p{Cs}]/u;

/**
 * Checks an id that a caller chose: any text of 1 to 1,024 bytes without control characters. Ids are never used as file
 * names or patterns, so `../x`, `*` or `CON` are just ids.
 */
export function checkId(id: string, what: string): string {
  const problem = problemOf(id);
  if (problem === undefined) return id;
  const shown = typeof id === "string" && id.length <= 80 ? ` ${JSON.stringify(id)}` : "";
  throw new SavepointError("INVALID_ID", `The ${what}${shown} cannot be used: ${problem}. Choose another.`);
}

/** Checks the name of a branch: an id that does not look like that of an unnamed branch. */
export function checkBranchName(name: string): string {
  checkId(name, "branch name");
  if (name.startsWith("~")) {
    throw new SavepointError(
      "INVALID_ID",
      `The branch name ${JSON.stringify(name)} begins with "~", as unnamed branches do.`,
    );
  }
  return name;
}

/** How an unnamed branch is called. */
export function unnamedBranch(tape: number): string {
  return `~${tape}`;
}

/** Where a checkpoint is: the number of its session, and its seq. */
export interface CheckpointPlace {
  readonly number: number;
  readonly seq: number;
}

// A UUIDv7 has 48 bits of time and 74 to fill: here 42 for the place, and 32 by chance, which are its last eight digits.
const MAX_NUMBER = 2 ** 22;
const MAX_SEQ = 2 ** 20;
const PLACES = MAX_NUMBER * MAX_SEQ;
/** A clock that was set back by less is not followed: ids go on from where they were. */
const MAX_SET_BACK = 10_000;

/**
 * Makes UUIDv7 ids for checkpoints. An id says where its checkpoint is, so that finding it takes no index; where the
 * numbers are too large for that it does not, and {@link placeOfId} gives a place that has nothing to do with it.
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
 * The id of the message at a place: always the same, so that it need not be stored.
 *
 * @param place the number of its conversation, and that of its item
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

/** The place that an id says it is the id of. Whether it is has to be looked at: a caller may have chosen it. */
export function placeOfId(id: string): CheckpointPlace | undefined {
  if (!UUID_V7.test(id)) return undefined;
  const middle = Number.parseInt(id.slice(19, 23), 16) & 0x3fff;
  const place =
    Number.parseInt(id.slice(15, 18), 16) * 2 ** 30 + middle * 2 ** 16 + Number.parseInt(id.slice(24, 28), 16);
  return { number: Math.floor(place / MAX_SEQ), seq: place % MAX_SEQ };
}

/** Is it found by what it says itself? */
export function encodesPlace(id: string, number: number, seq: number): boolean {
  const place = placeOfId(id);
  return place !== undefined && place.number === number && place.seq === seq;
}

function hex(value: number, digits: number): string {
  return value.toString(16).padStart(digits, "0");
}

/** Numbers of 32 bits that cannot be guessed; asked for many at a time, because asking costs. */
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
  return FORBIDDEN.test(id) ? "it contains a control character or half a character" : undefined;
}
