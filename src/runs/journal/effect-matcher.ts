/**
 * Which recorded effect is the one that is started now?
 *
 * A step's own function starts its effects in the same order again, so their numbers tell. Somebody else's loop may not:
 * tools that it runs in parallel start as it likes, and a model that failed is asked again by it. There an effect is told by
 * what it is, and what is recorded of the same kind and name must be what is asked for.
 */
import type { ClassRegistry } from "../../state/index.js";
import { IMMEDIATE_KINDS, isSameCall, type RecordedEffect, type RecordedEffects } from "./recorded-effects.js";
import type { EffectCall } from "./entry.js";

/** The number of an effect, and what was recorded of it; or what was recorded in its place. */
export type EffectMatch =
  | { readonly index: number; readonly recorded: RecordedEffect | undefined }
  | { readonly differs: RecordedEffect };

export interface EffectMatcher {
  next(call: EffectCall): EffectMatch;
  /** An effect that was recorded and that was not started this time, where that is wrong. */
  readonly unmatched: RecordedEffect | undefined;
  /** Are there results that were recorded and not asked for yet? */
  readonly isReplaying: boolean;
}

/** By the order in which they are started. */
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

/** By what they are: kind, name, call id, and then arguments. Of those that are the same, the first that was started. */
export class IdentityMatcher implements EffectMatcher {
  readonly unmatched = undefined;
  readonly #left: RecordedEffect[];
  readonly #registry: ClassRegistry;
  #next: number;

  constructor(recorded: RecordedEffects, registry: ClassRegistry) {
    this.#left = [...recorded.byIndex.values()].sort((a, b) => a.index - b.index);
    this.#registry = registry;
    this.#next = (this.#left.at(-1)?.index ?? -1) + 1;
  }

  next(call: EffectCall): EffectMatch {
    const alike = this.#left.filter(
      ({ started: { kind, name, callId } }) => kind === call.kind && name === call.name && callId === call.callId,
    );
    const found = alike.find(({ started }) => isSameCall(started, call, this.#registry));
    if (found) {
      this.#left.splice(this.#left.indexOf(found), 1);
      return { index: found.index, recorded: found };
    }
    const [other] = alike;
    return other ? { differs: other } : { index: this.#next++, recorded: undefined };
  }

  get isReplaying(): boolean {
    return this.#left.some(({ started, outcome }) => outcome !== undefined && !IMMEDIATE_KINDS.has(started.kind));
  }
}
