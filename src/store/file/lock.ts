/**
 * The lock of a store: who holds it may write.
 *
 * Everyone who wants it puts a file of a name that nobody else has into a folder, and holds the lock if no other file is
 * there. Of two that come at the same time at least one sees the other, so never two hold it. Who came first stays and
 * waits, the others step back. A file that a dead process left can be removed by anyone, because its name is never used
 * again: nobody's lock is ever removed by mistake.
 *
 * The name says which process it is. One that is certainly dead does not count. Where that cannot be told (another
 * container, another machine) it does not count once it has shown no sign of life for a while.
 */
import { createHash, randomBytes } from "node:crypto";
import { closeSync, existsSync, openSync, readdirSync, statSync, unlinkSync, utimesSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { SavepointError } from "../../errors.js";
import { isCertainlyDead, isUnknownPid, type ProcessIdentity, thisProcess } from "../process-identity.js";
import { isMissing } from "../file-failure.js";

/** How often a holder shows that it lives, and how long others believe it without; in milliseconds. */
const SIGN_EVERY = 1_000;
const SILENCE = 5_000;
/** How long to wait before looking again. */
const SOON = 1;
const LATER = 4;

export class FolderLock {
  readonly #folder: string;
  readonly #url: string;
  readonly #timeout: number;
  /** Of those of whom it cannot be told whether they live: their last sign, and when it was first seen. */
  readonly #signs = new Map<string, { sign: number; seenAt: number }>();
  #own: string | undefined;
  #timer: NodeJS.Timeout | undefined;

  constructor(folder: string, url: string, timeout: number) {
    this.#folder = folder;
    this.#url = url;
    this.#timeout = timeout;
  }

  /**
   * Waits for the lock. `BUSY` if others have it for too long.
   *
   * @returns those who died with it: what they were writing may be unfinished. They are forgotten by {@link forget}
   */
  async acquire(): Promise<string[]> {
    const began = Date.now();
    const name = `${began.toString(36).padStart(9, "0")}-${describeOwn()}-${randomBytes(6).toString("hex")}`;
    const path = join(this.#folder, name);
    for (;;) {
      if (!existsSync(path)) closeSync(openSync(path, "wx"));
      const others = readdirSync(this.#folder).filter((other) => other !== name && parse(other));
      const living = others.filter((other) => !this.#isDead(other));
      if (living.length === 0) {
        this.#hold(name);
        return others;
      }
      const first = living.every((other) => name < other);
      if (!first) removeIfThere(path);
      if (Date.now() - began > this.#timeout) {
        removeIfThere(path);
        throw this.#busy(living);
      }
      await sleep(first ? SOON : SOON + Math.random() * LATER);
    }
  }

  /** Lets others write. */
  release(): void {
    clearInterval(this.#timer);
    const own = this.#own;
    this.#own = undefined;
    if (own !== undefined) removeIfThere(join(this.#folder, own));
  }

  /** Those who died with the lock have been dealt with. */
  forget(dead: readonly string[]): void {
    for (const name of dead) removeIfThere(join(this.#folder, name));
  }

  /** Is it ours? Somebody may have thought us dead and taken it. */
  get isHeld(): boolean {
    return this.#own !== undefined && existsSync(join(this.#folder, this.#own));
  }

  /** Fails if it is not: then nothing may be written. */
  check(): void {
    if (this.isHeld) return;
    throw new SavepointError(
      "BUSY",
      `The lock of ${this.#url} was taken over by another process, because this one showed no sign of life. Look whether the last save is there, and try again.`,
    );
  }

  #hold(name: string): void {
    this.#own = name;
    this.#signs.clear();
    const path = join(this.#folder, name);
    this.#timer = setInterval(() => {
      const now = new Date();
      try {
        utimesSync(path, now, now);
      } catch {
        // It was taken over, or the disk fails: whoever writes next finds out.
      }
    }, SIGN_EVERY).unref();
  }

  #isDead(name: string): boolean {
    const other = parse(name);
    const own = thisProcess();
    if (!other) return false;
    const sameMachine = other.host === encode(own.host);
    const knowsBoot = own.boot !== undefined && other.boot !== encode(undefined);
    if (sameMachine && knowsBoot && other.boot !== encode(own.boot)) return true;
    if (sameMachine && other.namespace === encode(own.namespace)) {
      // A pid may have been given again.
      if (own.start === undefined) return isUnknownPid(other.pid) || this.#isSilent(name);
      return isCertainlyDead({ ...own, pid: other.pid, start: other.start });
    }
    return this.#isSilent(name);
  }

  /** By what is seen here: clocks of two machines differ. */
  #isSilent(name: string): boolean {
    const sign = statSync(join(this.#folder, name), { throwIfNoEntry: false })?.mtimeMs;
    if (sign === undefined) return false;
    const known = this.#signs.get(name);
    if (known?.sign === sign) return performance.now() - known.seenAt > SILENCE;
    this.#signs.set(name, { sign, seenAt: performance.now() });
    return false;
  }

  #busy(living: readonly string[]): SavepointError<"BUSY"> {
    const pids = living.map((name) => parse(name)?.pid).join(", ");
    return new SavepointError(
      "BUSY",
      `Writing to ${this.#url} waited ${this.#timeout} ms for its lock, which process ${pids} holds. Nothing was written; try again, or end that process if it hangs.`,
      { details: { pids: living.map((name) => parse(name)?.pid) } },
    );
  }
}

/** What the name of a lock says. */
type Holder = { readonly [Part in "host" | "boot" | "namespace" | "start"]: string } & Pick<ProcessIdentity, "pid">;

function describeOwn(): string {
  const { host, boot, namespace, pid, start } = thisProcess();
  return [pid, encode(start), encode(namespace), encode(boot), encode(host)].join("-");
}

function parse(name: string): Holder | undefined {
  const match = /^[0-9a-z]+-(\d+)-(\w+)-(\w+)-(\w+)-(\w+)-[0-9a-f]+$/.exec(name);
  if (!match) return undefined;
  const [, pid = "", start = "", namespace = "", boot = "", host = ""] = match;
  return { pid: Number(pid), start, namespace, boot, host };
}

/** Digits as they are; anything else as a short hash. */
function encode(text: string | undefined): string {
  if (text === undefined) return "unknown";
  return /^\d+$/.test(text) ? text : createHash("sha256").update(text).digest("hex").slice(0, 12);
}

function removeIfThere(path: string): void {
  try {
    unlinkSync(path);
  } catch (error) {
    if (!isMissing(error)) throw error;
  }
}
