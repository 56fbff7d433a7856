/**
 * The keys of all records and the names of all tapes: how they are encoded, and a table of them. The functions that build
 * the keys of a record stand beside that record.
 *
 * Sessions and conversations have numbers that are never reused. Rows and tapes are named after these numbers, so the
 * remains of a deleted session cannot be confused with a new one of the same id. Numbers are written in base 36 after their
 * length, which keeps them short and sorts them by value. Ids contain no control characters, so a tab ends an id in a key.
 *
 * An agent is stored as a session with an id that callers cannot choose, because it starts with a control character. Saves
 * of the agent are heads without rows; its rows are the checkpoints of the whole agent.
 *
 * | key                           | value                                                                      | file            |
 * |-------------------------------|----------------------------------------------------------------------------|-----------------|
 * | `#`                           | the next number for a session or conversation                              | `store-wide`    |
 * | `s⇥<session>`                 | session: number, agent, counters                                           | `session`       |
 * | `n<number>`                   | session id by number                                                       | `session`       |
 * | `j⇥<agent>⇥<number>`          | session id by agent and number                                             | `session`       |
 * | `s⇥<session>⇥<branch>`        | branch: head, epoch, item counter                                          | `branch`        |
 * | `z<number><seq>`              | checkpoint row; sorts last, where a B-tree grows at its end                | `checkpoint-row` |
 * | `i<id>⇥<number>`              | seq by checkpoint id, for ids that do not encode their place               | `checkpoint-row` |
 * | `a<number><seq><name>`        | label, pin or status that was set after the save                           | `annotations`   |
 * | `l<number><label>⇥<seq>`      | seq by label                                                               | `annotations`   |
 * | `w<number><seq><name>`        | annotation; apart from labels and pins, because it can be large            | `annotations`   |
 * | `w<number>`                   | item counter of the annotations tape                                       | `annotations`   |
 * | `r⇥<session>⇥<branch>⇥r`      | run: status, turn, questions                                               | `run`           |
 * | `r⇥<session>⇥<branch>⇥j`      | journal: epoch and entries; every write of a run checks it                 | `run`           |
 * | `r⇥<session>⇥<branch>⇥m`      | inbox: counters of the queued inputs                                       | `run`           |
 * | `r⇥<session>⇥<branch>⇥m<n>`   | queued input                                                               | `run`           |
 * | `r⇥<session>⇥<branch>⇥t<key>` | the start of the turn with that key                                        | `run`           |
 * | `q⇥<session>⇥<branch>`        | queue entry: an unfinished run, and when it can be resumed                 | `queue-entry`   |
 * | `w⇥<agent>⇥<priority><time>⇥<session>⇥<branch>` | index of queue entries without an owner, in the order of resuming | `queue-entry` |
 * | `u<owner>⇥<session>⇥<branch>` | index of queue entries by owner                                            | `queue-entry`   |
 * | `h<owner>`                    | owner of leases: its process, and when the leases expire                   | `owner`         |
 * | `c⇥<conversation>`            | conversation: number, agent, title, tags, ranges of its messages           | `conversation`  |
 * | `c⇥<conversation>⇥n<number>`  | item counter of its tape; an append checks that it exists                  | `conversation`  |
 * | `c⇥<conversation>⇥l<number>`  | time of its last message                                                   | `conversation`  |
 * | `c⇥<conversation>⇥t<number>`  | its title, if that is derived from a message                               | `conversation`  |
 * | `k<number>`                   | conversation id by number                                                  | `conversation`  |
 * | `k⇥<agent>⇥<number>`          | conversation id by agent and number, and whether it is archived            | `conversation`  |
 * | `y⇥<agent>⇥<number>`          | removed conversation that checkpoints of the agent may still refer to      | `conversation`  |
 * | `d⇥<agent>⇥<conversation>`    | conversation that has changed since the newest checkpoint of the agent     | `conversation`  |
 * | `d⇥<agent>`                   | the checkpoint that these marks refer to                                   | `conversation`  |
 * | `m⇥<agent>`                   | offset of the numbers that checkpoints of an imported agent refer to       | `store-wide`    |
 * | `v⇥<bundle>`                  | import in progress: the offset of its numbers, and what is stored already  | `store-wide`    |
 * | `o<process>`                  | process that has written to the store and has not closed it                | `store-wide`    |
 * | `b⇥<path>`                    | backup: when it was written, and on which machine                          | `store-wide`    |
 * | `p`                           | stamp that changes with every change of a retention policy                 | `store-wide`    |
 * | `p⇥`                          | retention policy of the store                                              | `store-wide`    |
 * | `p⇥a⇥<agent>`                 | retention policy of an agent and its sessions                              | `store-wide`    |
 * | `p⇥s⇥<session>`               | retention policy of a session                                              | `store-wide`    |
 * | `o`                           | encryption of the store: its id, and which key is current                  | `store-wide`    |
 * | `e⇥-`, `e⇥<number>`           | wrapped data key: of the store, of a session or conversation               | `store-wide`    |
 * | `e⇥k<fingerprint>`            | wrapped key of a key provider                                              | `store-wide`    |
 * | `x<number>`                   | garbage: a deleted session or conversation whose data is not freed yet     | `store-wide`    |
 */
import { type KeyRange, prefixRange } from "../store/index.js";

/** A tape of a session; the tape of branch `main` is number 0. */
export const tapeName = (number: number, tape: number): string => `${encodeNumber(number)}${encodeNumber(tape)}`;
/** The number of a tape within its session. */
export const tapeNumberOf = (tape: string): number => decodeNumbers(tape, 2).numbers[1] as number;
export const tapesOf = (number: number): KeyRange => prefixRange(encodeNumber(number));

/** Base-36 digits after their count. The result sorts like the number, and a reader knows where it ends. */
export function encodeNumber(value: number): string {
  const digits = value.toString(36);
  return digits.length.toString(36) + digits;
}

/** Decodes `count` numbers, as {@link encodeNumber} writes them, from the start of a string. */
export function decodeNumbers(text: string, count: number): { numbers: number[]; rest: string } {
  const numbers: number[] = [];
  let at = 0;
  for (let index = 0; index < count; index++) {
    const length = Number.parseInt(text[at] ?? "", 36);
    numbers.push(Number.parseInt(text.slice(at + 1, at + 1 + length), 36));
    at += 1 + length;
  }
  return { numbers, rest: text.slice(at) };
}

/** The keys that start with `prefix` and a seq from `from` (inclusive) to `to` (exclusive). */
export function seqRange(prefix: string, from = 0, to?: number): KeyRange {
  const end = to === undefined ? prefixRange(prefix).to : prefix + encodeNumber(to);
  return { from: prefix + encodeNumber(from), to: end };
}

/** The number in the last tab-separated part of a key. */
export function trailingNumberOf(key: string): number {
  return decodeNumbers(key.slice(key.lastIndexOf("\t") + 1), 1).numbers[0] as number;
}

/** A time in milliseconds as a string that sorts like the time. */
export function encodeTime(time: number): string {
  return Math.max(0, Math.floor(time)).toString(36).padStart(9, "0");
}

// In the order of the character codes, so that packed ids sort like the ids.
const ALPHABET = "-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz";
const HYPHEN = 45;
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

/** Packs a UUID into 22 characters that sort like UUIDs. Any other id follows a `=` unchanged. */
export function packId(id: string): string {
  if (!UUID.test(id)) return `=${id}`;
  let packed = "";
  let bits = 0;
  let count = 0;
  for (let at = 0; at < id.length; at++) {
    const code = id.charCodeAt(at);
    if (code === HYPHEN) continue;
    // A digit, or a letter from a to f.
    bits = (bits << 4) | (code < 58 ? code - 48 : code - 87);
    count += 4;
    if (count >= 6) {
      count -= 6;
      packed += ALPHABET[(bits >> count) & 63] as string;
    }
  }
  return packed + (ALPHABET[(bits << (6 - count)) & 63] as string);
}

export function unpackId(packed: string): string {
  if (packed.startsWith("=")) return packed.slice(1);
  let digits = "";
  for (let at = 0; at < packed.length; at += 2) {
    const bits = (ALPHABET.indexOf(packed[at] as string) << 6) | ALPHABET.indexOf(packed[at + 1] as string);
    digits += bits.toString(16).padStart(3, "0");
  }
  return [0, 8, 12, 16, 20].map((from, index, cuts) => digits.slice(from, cuts[index + 1] ?? 32)).join("-");
}
