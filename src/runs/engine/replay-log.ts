/**
 * The replay of a step: matches its effects with those that an earlier attempt has recorded, and delivers results in the
 * recorded order.
 */
import {
  type EffectCall,
  type EffectMatcher,
  idempotencyKey,
  IdentityMatcher,
  type JournalOperation,
  type KeySeed,
  OrderMatcher,
  type RecordedEffect,
  RecordedEffects,
} from "../journal/index.js";
import { Deliveries, type DeliveryListener } from "./deliveries.js";
import type { StartedEffect, StepHost } from "./step-types.js";

/** An effect that the step starts: its number, and its records; or the different effect that was recorded in its place. */
export type ReplayMatch = Omit<StartedEffect, "started"> | { readonly differs: RecordedEffect };

export class ReplayLog {
  /** Delivers the results to the step. */
  readonly deliveries: Deliveries;
  /** Whether an external loop executes the step. It may request its results in any order. */
  readonly #isOpen: boolean;
  readonly #keySeed: KeySeed;
  readonly #recorded: RecordedEffects;
  readonly #matcher: EffectMatcher;

  /** How often each tool call id was used. */
  readonly #calls = new Map<string, number>();

  constructor(entries: readonly JournalOperation[], host: StepHost, listener: DeliveryListener) {
    const isOpen = host.definition.open;
    this.#isOpen = isOpen;
    this.#keySeed = host.keySeed;
    this.#recorded = new RecordedEffects(entries);
    this.#matcher = new (isOpen ? IdentityMatcher : OrderMatcher)(this.#recorded, host.context.registry);
    this.deliveries = new Deliveries(isOpen ? [] : this.#recorded.ordered, listener);
  }

  /** Matches the effect that the step starts now. */
  next(call: EffectCall): ReplayMatch {
    const match = this.#matcher.next(call);
    if ("differs" in match) return match;
    const { index, recorded } = match;
    const key = this.#nextKey(index, call.callId);
    const kept = this.#recorded.claimKept(call);
    return { index, recorded, kept: recorded ? undefined : kept, key };
  }

  /** The idempotency key of an effect: by its number or, for a tool call, by its id and the number of its use. */
  #nextKey(index: number, callId: string | undefined): () => string {
    const nth = callId === undefined ? 0 : (this.#calls.get(callId) ?? 0);
    if (callId !== undefined) this.#calls.set(callId, nth + 1);
    return () => idempotencyKey(this.#keySeed, index, callId, nth);
  }

  /** A recorded effect that the step has not started, although it must. */
  get unmatched(): RecordedEffect | undefined {
    return this.#matcher.unmatched;
  }

  /** Whether recorded results remain that the step has not requested. */
  get isReplaying(): boolean {
    return this.#matcher.isReplaying;
  }

  /** Delivers a recorded result: in its recorded turn or, to an external loop, when it is requested. */
  deliverRecorded(effect: RecordedEffect, deliver: () => void): void {
    if (this.#isOpen) this.deliveries.deliverUnordered(deliver);
    else this.deliveries.deliverRecorded(effect, deliver);
  }

  /** Delivers a new result: after all recorded ones or, to an external loop, immediately. */
  deliverLive(deliver: () => void): void {
    if (this.#isOpen) this.deliveries.deliverUnordered(deliver);
    else this.deliveries.deliverLive(deliver);
  }
}
