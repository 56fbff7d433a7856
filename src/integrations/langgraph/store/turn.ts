/** The turns of this process among the writers of one namespace. */
import { setTimeout as delay } from "node:timers/promises";
import { isMoved } from "../../shared/index.js";
import { type QueueEntry, queueNameOf, type TurnQueue } from "./turn-queue.js";

/** A process joins the queue after this many failed attempts, or when they have taken more than this many milliseconds. */
const MAX_CONFLICTS = 3;
const MAX_CONFLICT_TIME = 250;
/** The length of a turn: this many milliseconds, or the time of this many attempts (to read and save the state) if that is longer. */
const MIN_TURN = 200;
const MIN_TURN_ATTEMPTS = 2;
/** How long a process that has a turn may save nothing before it ends its turn, in milliseconds. */
const MAX_IDLE = 20;
/** How much longer than expected a turn may take, in milliseconds. After that, its process counts as ended. */
const GRACE = 1_000;
/** The minimum pause between two reads of the queue by a waiting process, in milliseconds for each entry before its own. */
const POLL_INTERVAL = 5;
/** The maximum wait for a turn, in milliseconds. */
const MAX_WAIT = 30_000;

/**
 * A process saves without turns until it finds other processes in the queue of the namespace, or until one of its saves has conflicted
 * several times. Then it joins the queue and saves only during its turns. A turn ends after some time. The process leaves the queue when
 * no other process is in it, or when it has nothing to save.
 */
export class Turn {
  readonly #queue: TurnQueue;
  readonly #name: string;
  /** Whether it is the turn of this process. */
  #hasTurn = false;
  /** When the turn ends, by `performance.now()`; `undefined` before its first save. */
  #end: number | undefined;
  /** Whether the queue must be read before the next attempt. */
  #mustRead = false;
  /** The failed attempts since the last save, and how long they took. */
  #conflicts = 0;
  #conflictTime = 0;
  /** The time of the last attempt that included a read of the state, in milliseconds. */
  #needs = 0;
  #idle: NodeJS.Timeout | undefined;
  #leaving: Promise<void> | undefined;

  constructor(queue: TurnQueue, sessionId: string) {
    this.#queue = queue;
    this.#name = queueNameOf(sessionId);
  }

  /**
   * Waits until this process may save, then saves. Call {@link pause} when there is nothing more to save.
   *
   * @param save one attempt, which fails if another process has moved the head
   * @param mustRead whether the attempt reads the state first
   */
  async save(save: () => Promise<void>, mustRead: boolean): Promise<void> {
    await this.#wait();
    const began = performance.now();
    try {
      await save();
    } catch (error) {
      if (isMoved(error)) this.#noteConflict(performance.now() - began);
      throw error;
    }
    this.#noteSave(performance.now() - began, mustRead);
  }

  /** Notes that there is nothing to save, or that saving failed. The turn ends soon unless another save begins. */
  pause(): void {
    if (this.#hasTurn) this.#idle = setTimeout(() => void (this.#leaving = this.#leave()), MAX_IDLE);
  }

  async #wait(): Promise<void> {
    clearTimeout(this.#idle);
    await this.#leaving;
    if (!this.#hasTurn && this.#queue.isReadDue) await this.#queue.read();
    const isOver = this.#end !== undefined && performance.now() >= this.#end;
    const others = !this.#hasTurn && this.#others().length > 0;
    if (isOver || others || this.#mustRead) await this.#take(isOver);
  }

  #noteSave(time: number, mustRead: boolean): void {
    this.#queue.noteSave(time);
    if (mustRead) this.#needs = time;
    [this.#conflicts, this.#conflictTime] = [0, 0];
    if (this.#hasTurn) this.#end ??= performance.now() + turnTime(this.#needs);
  }

  #noteConflict(time: number): void {
    this.#needs = time;
    this.#mustRead = true;
    this.#conflicts++;
    this.#conflictTime += time;
  }

  /** Whether this process needs a turn even if no other process is in the queue. */
  get #isStarving(): boolean {
    return this.#conflicts >= MAX_CONFLICTS || this.#conflictTime > MAX_CONFLICT_TIME;
  }

  /** Waits for the next turn if other processes are in the queue, or if this process must join it. */
  async #take(isOver: boolean): Promise<void> {
    this.#mustRead = false;
    if (isOver) this.#begin(false);
    let mustJoin = isOver;
    let front: { readonly entry: QueueEntry; readonly since: number } | undefined;
    for (const began = performance.now(); performance.now() - began < MAX_WAIT;) {
      await this.#queue.read();
      const entries = this.#queue.entriesOf(this.#name);
      const position = entries.findIndex((entry) => this.#isOwn(entry));
      const own = entries[position];
      if (this.#others().length === 0 && !this.#isStarving) {
        if (own) await this.#queue.remove(own);
        return this.#begin(false);
      }
      if (!own || mustJoin) {
        if (!(await this.#queue.join(this.#name, this.#needs))) break;
        mustJoin = false;
        continue;
      }
      if (position === 0) return this.#hasTurn ? undefined : this.#begin(true);
      const [entry] = entries;
      if (entry && !(front && isSame(front.entry, entry))) front = { entry, since: performance.now() };
      if (front && performance.now() - front.since > turnLimit(front.entry)) await this.#queue.remove(front.entry);
      else await delay(position * Math.max(POLL_INTERVAL, this.#queue.readTime));
    }
    this.#begin(false);
  }

  #begin(hasTurn: boolean): void {
    this.#hasTurn = hasTurn;
    this.#end = undefined;
  }

  /** Ends the turn and leaves the queue, because there is nothing to save. */
  async #leave(): Promise<void> {
    this.#begin(false);
    await this.#queue.read();
    const own = this.#queue.entriesOf(this.#name).find((entry) => this.#isOwn(entry));
    if (own) await this.#queue.remove(own);
    this.#leaving = undefined;
  }

  #others(): QueueEntry[] {
    return this.#queue.entriesOf(this.#name).filter((entry) => !this.#isOwn(entry));
  }

  #isOwn({ writer }: QueueEntry): boolean {
    return writer === this.#queue.writer;
  }
}

function turnTime(needs: number): number {
  return Math.max(MIN_TURN, MIN_TURN_ATTEMPTS * needs);
}

/** How long other processes wait for the end of a turn. Its time counts from the first save, so up to two attempts are not part of it. */
function turnLimit({ needs }: QueueEntry): number {
  return GRACE + 2 * needs + turnTime(needs);
}

function isSame(a: QueueEntry, b: QueueEntry): boolean {
  return a.writer === b.writer && a.ticket === b.ticket;
}
