/**
 * Matches the effects that a step starts with those that were recorded before.
 *
 * A step function starts its effects in the same order again, so they are matched by number. An external loop may not: it runs
 * tools in parallel and retries models itself. Its effects are matched by identity, and a recorded effect of the same kind and
 * name must have the same arguments.
 */
import type { ClassRegistry } from "../../state/index.js";
import { IMMEDIATE_KINDS, isSameCall, type RecordedEffect, type RecordedEffects } from "./recorded-effects.js";
import type { EffectCall } from "./entry.js";

/** The number of an effect and its record, if there is one; or the different effect that was recorded in its place. */
export type EffectMatch =
  | { readonly index: number; readonly recorded: RecordedEffect | undefined }
  | { readonly differs: RecordedEffect };

export interface EffectMatcher {
  /** Matches the effect that the step starts now. */
  next(call: EffectCall): EffectMatch;
  /** A recorded effect that the step has not started this time, if all must be. */
  readonly unmatched: RecordedEffect | undefined;
  /** Whether recorded results remain that the step has not requested yet. */
  readonly isReplaying: boolean;
}

/** Matches effects by the order in which they are started. */
export class OrderMatcher implements EffectMatcher {
  readonly #recorded: RecordedEffects;
  readonly #registry: ClassRegistry;
  #next = 0;

  constructor(recorded: RecordedEffects, registry: ClassRegistry) {
    this.#recorded = recorded;
    this.#registry = registry;
  }

  next(call: EffectCall): EffectMatch {
    const index = this.#next++;
    const recorded = this.#recorded.byIndex.get(index);
    if (recorded && !isSameCall(recorded.started, call, this.#registry)) return { differs: recorded };
    return { index, recorded };
  }

  get unmatched(): RecordedEffect | undefined {
    return [...this.#recorded.byIndex.values()].find(({ index }) => index >= this.#next);
  }

  get isReplaying(): boolean {
    return this.unmatched !== undefined;
  }
}

/** Matches effects by kind, name, call id and arguments. Among equal ones, the one that was started first matches first. */
export class IdentityMatcher implements EffectMatcher {
  readonly unmatched = undefined;
  readonly #remaining: RecordedEffect[];
  readonly #registry: ClassRegistry;
  #next: number;

  constructor(recorded: RecordedEffects, registry: ClassRegistry) {
    this.#remaining = [...recorded.byIndex.values()].sort((a, b) => a.index - b.index);
    this.#registry = registry;
    this.#next = (this.#remaining.at(-1)?.index ?? -1) + 1;
  }

  next(call: EffectCall): EffectMatch {
    const alike = this.#remaining.filter(
      ({ started: { kind, name, callId } }) => kind === call.kind && name === call.name && callId === call.callId,
    );
    const found = alike.find(({ started }) => isSameCall(started, call, this.#registry));
    if (found) {
      this.#remaining.splice(this.#remaining.indexOf(found), 1);
      return { index: found.index, recorded: found };
    }
    const [other] = alike;
    return other ? { differs: other } : { index: this.#next++, recorded: undefined };
  }

  get isReplaying(): boolean {
    return this.#remaining.some(({ started, outcome }) => outcome !== undefined && !IMMEDIATE_KINDS.has(started.kind));
  }
}
