/** What is known of an effect while its entries are read. */
import type { Hole } from "../../state/index.js";
import type { JournalOperation } from "./entry.js";

/** What a process recorded of an effect while it held the branch. */
export interface EffectClaim {
  /** The number of the claim: it rises whenever a process claims the branch. */
  readonly epoch: number;
  /** The host and the pid of the worker; `undefined` if no worker held the branch. */
  readonly worker: string | undefined;
  /** The first and the last recorded time, in milliseconds since 1970. */
  readonly from: number;
  readonly to: number;
}

/** The claim under which an entry was written. */
export interface EntryClaim {
  readonly epoch: number;
  readonly worker: string | undefined;
}

/** The entries of an effect, in their order, and the claims under which they were written. */
export class EffectRecord {
  readonly index: number;
  readonly operations: JournalOperation[] = [];
  readonly holes: Hole[] = [];
  /** How many earlier effects of the step have the same tool call id. */
  readonly nth: number;
  readonly #claims: EffectClaim[] = [];

  constructor(index: number, nth: number) {
    this.index = index;
    this.nth = nth;
  }

  get claims(): readonly EffectClaim[] {
    return this.#claims;
  }

  add(entry: JournalOperation, claim: EntryClaim | undefined): void {
    const times = this.#timesOf(entry);
    this.operations.push(entry);
    if (!claim || times.length === 0) return;
    const last = this.#claims.at(-1);
    const [from, to] = [Math.min(...times), Math.max(...times)];
    if (last?.epoch === claim.epoch) this.#claims[this.#claims.length - 1] = { ...last, to: Math.max(last.to, to) };
    else this.#claims.push({ ...claim, from, to });
  }

  /** When the entry was written, as far as it is known. Answers are written by other processes than that of the claim. */
  #timesOf(entry: JournalOperation): number[] {
    const first = this.operations.length === 0 && "started" in entry ? entry.started?.at : undefined;
    if (entry.op !== "end") return first === undefined ? [] : [first];
    const { executedAt, answeredAt, took } = entry;
    if (answeredAt !== undefined) return [];
    if (executedAt !== undefined) return [executedAt, executedAt + (took ?? 0)];
    const start = first ?? this.#startedAt;
    return start === undefined
      ? []
      : [...(first === undefined ? [] : [first]), ...(took === undefined ? [] : [start + took])];
  }

  get #startedAt(): number | undefined {
    for (const entry of this.operations) if ("started" in entry && entry.started) return entry.started.at;
    return undefined;
  }
}

/** Counts the uses of tool call ids in a step. */
export class CallCounter {
  readonly #counts = new Map<string, number>();

  /** How many effects with this tool call id were counted before. Counts this one. */
  next(entry: JournalOperation): number {
    const callId = "started" in entry ? entry.started?.callId : undefined;
    if (callId === undefined) return 0;
    const count = this.#counts.get(callId) ?? 0;
    this.#counts.set(callId, count + 1);
    return count;
  }
}
