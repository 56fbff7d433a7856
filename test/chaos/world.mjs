/**
 * What the workers leave outside of the store: what their effects did, in one file per session, and which saves were
 * acknowledged, in one file per process. Lines are appended with one write each, so those of several processes stay intact.
 */
import { randomBytes } from "node:crypto";
import {
  appendFileSync,
  closeSync,
  existsSync,
  mkdirSync,
  openSync,
  readFileSync,
  readSync,
  readdirSync,
} from "node:fs";
import { join } from "node:path";

/**
 * Something that was done.
 *
 * @typedef {object} Deed
 * @property {string} by the process
 * @property {number} at when, in milliseconds of a clock that all processes of the machine share
 * @property {number} begun when its function was called
 * @property {number} step
 * @property {string} what
 * @property {string} key
 * @property {string} token what it returned: different each time that it is done
 * @property {string} [drawn] what the step had recorded before
 */

/**
 * Something that was acknowledged to a process, or that it read.
 *
 * @typedef {object} Ack
 * @property {string} by
 * @property {number} at
 * @property {string} session
 * @property {"queued" | "started" | "step" | "seen" | "checkpoint" | "status" | "leaseLost" | "quarantined"} what
 * @property {number} [step]
 * @property {number} [seq]
 * @property {string} [status]
 * @property {Done} [done]
 */

/** What a step leaves in the state. @typedef {{ step: number, drawn: string, written: string }} Done */

/** Milliseconds, by a clock that nothing sets. */
export const monotonic = () => Number(process.hrtime.bigint() / 1000n) / 1000;

export class World {
  /** @param {string} folder @param {string} by the process that looks at it */
  constructor(folder, by) {
    this.folder = folder;
    this.by = by;
    this.deeds = join(folder, "deeds");
    this.acks = join(folder, "acks");
    mkdirSync(this.deeds, { recursive: true });
    mkdirSync(this.acks, { recursive: true });
    /** How far the files of acknowledgements are read. @type {Map<string, { at: number, rest: string }>} */
    this.read = new Map();
  }

  /** Does something. @param {string} session @param {Omit<Deed, "by" | "at" | "token">} deed @returns {string} what it returns */
  do(session, deed) {
    const token = randomBytes(6).toString("hex");
    append(join(this.deeds, session), { by: this.by, at: monotonic(), token, ...deed });
    return token;
  }

  /** @param {string} session @returns {Deed[]} in the order in which they happened */
  done(session) {
    const file = join(this.deeds, session);
    return existsSync(file) ? parse(readFileSync(file, "utf8")) : [];
  }

  /** @param {Omit<Ack, "by" | "at">} ack */
  note(ack) {
    append(join(this.acks, this.by), { by: this.by, at: monotonic(), ...ack });
  }

  /** What was noted since this was last called. @returns {Ack[]} */
  newAcks() {
    /** @type {Ack[]} */
    const found = [];
    for (const name of readdirSync(this.acks)) {
      const known = this.read.get(name) ?? { at: 0, rest: "" };
      const { text, at } = readFrom(join(this.acks, name), known.at);
      const whole = known.rest + text;
      const end = whole.lastIndexOf("\n") + 1;
      found.push(...parse(whole.slice(0, end)));
      this.read.set(name, { at, rest: whole.slice(end) });
    }
    return found.sort((a, b) => a.at - b.at);
  }
}

/** @param {string} file @param {object} line */
function append(file, line) {
  appendFileSync(file, `${JSON.stringify(line)}\n`);
}

/** @param {string} text */
function parse(text) {
  return text
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => JSON.parse(line));
}

/** @param {string} file @param {number} from */
function readFrom(file, from) {
  const handle = openSync(file, "r");
  try {
    const parts = [];
    let at = from;
    for (;;) {
      const buffer = Buffer.alloc(65_536);
      const length = readSync(handle, buffer, 0, buffer.length, at);
      if (length === 0) return { text: Buffer.concat(parts).toString("utf8"), at };
      parts.push(buffer.subarray(0, length));
      at += length;
    }
  } finally {
    closeSync(handle);
  }
}
