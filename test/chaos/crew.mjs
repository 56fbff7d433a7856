/** The workers: four processes at any time, each with a name of its own. One that dies is followed by another. */
import { spawn } from "node:child_process";
import { createWriteStream } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { pick } from "./random.mjs";
import { monotonic } from "./world.mjs";

/** @import { ChildProcess } from "node:child_process" */

const program = fileURLToPath(new URL("./worker.mjs", import.meta.url));

/** @typedef {{ name: string, child: ChildProcess, ended: Promise<unknown>, frozen: boolean, doomed: boolean }} Member */
/** When a process was frozen, and when it was woken. @typedef {{ from: number, to: number }} Frost */

/** In this time a process that was woken has done what it was at, on a machine that is busy, in milliseconds. */
const JUST_WOKEN = 250;
/** How long a worker gets to hand back what it has, in milliseconds. */
const DRAINED_AFTER = 45_000;

export class Crew {
  /**
   * @param {object} options
   * @param {string} options.url
   * @param {string} options.folder
   * @param {number} options.sessions
   * @param {number} options.lease
   * @param {() => number} options.random
   * @param {(violation: string) => void} options.violated
   * @param {(name: string) => boolean} options.isTakenOver whether another worker has taken over a session of this one
   */
  constructor(options) {
    this.options = options;
    /** @type {Set<Member>} */
    this.members = new Set();
    this.hired = 0;
    this.isOver = false;
    /** @type {Map<string, Frost[]>} */
    this.frosts = new Map();
    this.log = createWriteStream(join(options.folder, "workers.log"));
  }

  hire() {
    const { url, folder, sessions, lease, random } = this.options;
    const name = `worker-${++this.hired}`;
    const seed = Math.floor(random() * 2 ** 31);
    const child = spawn(process.execPath, [program, url, folder, name, `${seed}`, `${sessions}`, `${lease}`], {
      stdio: ["ignore", "pipe", "pipe"],
    });
    let last = "";
    for (const stream of [child.stdout, child.stderr]) {
      stream.on("data", (/** @type {Buffer} */ data) => {
        last = `${last}${String(data)}`.slice(-2000);
        this.log.write(`${name}: ${String(data)}`);
      });
    }
    const ended = new Promise((resolve) => child.once("close", (code, signal) => resolve(signal ?? code)));
    /** @type {Member} */
    const member = { name, child, ended, frozen: false, doomed: false };
    this.members.add(member);
    child.once("close", (code, signal) => {
      this.members.delete(member);
      if (!member.doomed) this.options.violated(`${name} ended by itself (${signal ?? code}): ${last}`);
      if (!this.isOver) this.hire();
    });
  }

  /** One that works. */
  #any() {
    const awake = [...this.members].filter(({ frozen, doomed }) => !frozen && !doomed);
    return awake.length === 0 ? undefined : pick(this.options.random, awake);
  }

  kill() {
    const member = this.#any();
    if (!member) return false;
    member.doomed = true;
    return member.child.kill("SIGKILL");
  }

  /** Freezes one and wakes it long after its leases expired, or at the moment at which others take over from it. */
  freeze() {
    const member = this.#any();
    if (!member) return false;
    const { lease, random } = this.options;
    member.frozen = true;
    const frosts = this.frosts.get(member.name) ?? [];
    const frost = { from: monotonic(), to: Number.POSITIVE_INFINITY };
    this.frosts.set(member.name, [...frosts, frost]);
    member.child.kill("SIGSTOP");
    const early = random() < 0.75;
    void this.#thaw(member, lease * (1.2 + random()), early).then(() => {
      frost.to = monotonic();
      this.log.write(`${member.name}: frozen from ${frost.from} to ${frost.to}\n`);
      member.child.kill("SIGCONT");
      member.frozen = false;
    });
    return true;
  }

  /** @param {Member} member @param {number} time @param {boolean} early */
  async #thaw({ name }, time, early) {
    const end = monotonic() + time;
    while (monotonic() < end && !(early && this.options.isTakenOver(name))) await sleep(10);
  }

  /** Asks one to stop. */
  drain() {
    const member = this.#any();
    if (!member) return false;
    member.doomed = true;
    void this.#end(member);
    return true;
  }

  /** Asks all to stop. */
  async close() {
    this.isOver = true;
    for (const member of this.members) {
      member.doomed = true;
      member.child.kill("SIGCONT");
    }
    await Promise.all([...this.members].map((member) => this.#end(member)));
    this.log.end();
  }

  /** @param {Member} member */
  async #end(member) {
    const from = monotonic();
    member.child.kill("SIGTERM");
    const patience = sleep(DRAINED_AFTER, "late", { ref: false });
    const how = await Promise.race([member.ended, patience]);
    this.log.write(`${member.name}: asked to stop at ${from}, and was ${String(how)} at ${monotonic()}\n`);
    if (how !== "late") {
      if (how !== "SIGTERM")
        this.options.violated(`${member.name} ended with ${String(how)} when it was asked to stop`);
      return;
    }
    this.options.violated(`${member.name} did not stop within ${DRAINED_AFTER / 1000} s of SIGTERM`);
    member.child.kill("SIGKILL");
    await member.ended;
  }

  /**
   * Was this process frozen while it did something; or had it only just been woken when it began with that? `undefined`
   * where neither is so.
   *
   * @param {string} name @param {number} from @param {number} to
   */
  frozenIn(name, from, to) {
    const frosts = this.frosts.get(name) ?? [];
    // Its time may be taken a moment before it is done.
    if (frosts.some((frost) => frost.from <= to + JUST_WOKEN && frost.to >= from)) return "in it";
    return frosts.some((frost) => frost.to <= from && frost.to >= from - JUST_WOKEN) ? "before it" : undefined;
  }

  get freezes() {
    return [...this.frosts.values()].flat().length;
  }
}
