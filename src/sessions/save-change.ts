/** The change that a save makes to the previous state: replaces it, or modifies its shadow. */
import { types } from "node:util";
import { SavepointError } from "../errors.js";
import {
  type ClassRegistry,
  valueToShadow,
  newShadow,
  type RecordedValues,
  reviseShadow,
  layoutState,
  type Shadow,
  shadowToValue,
} from "../state/index.js";

/**
 * A state to save: the caller's own object, which must be compared synchronously; or a private copy. If no part of the object is
 * ever changed, the next state can share parts with it, which need not be compared.
 */
export type StateInput = { readonly live: unknown; readonly isImmutable?: boolean } | { readonly copy: Shadow };

/** A change that can be applied to a branch head, and to another one if the head moves. */
export interface SaveChange {
  /** Builds the next shadow from the previous one. `frozen` is the deep-frozen state of the previous one, if it is known. */
  apply(before: Shadow | undefined, frozen?: unknown): Shadow;
  /** The same change for another head, after it produced `made` from this one. */
  rebase(made: Shadow): SaveChange;
  /** The resulting state, if it does not depend on the previous one. */
  state?(): Shadow;
}

/** Replaces the previous state. */
export function replaceState(candidate: StateInput, registry: ClassRegistry, recorded?: RecordedValues): SaveChange {
  const state = (): Shadow => ("copy" in candidate ? layoutState(candidate.copy) : newShadow(candidate.live, registry));
  return {
    state,
    apply(before, frozen) {
      if (before === undefined) return state();
      const value = "copy" in candidate ? shadowToValue(candidate.copy, registry) : candidate.live;
      return reviseShadow(before, value, registry, frozen, recorded);
    },
    // The caller may have changed the live state since.
    rebase: (made) => replaceState({ copy: valueToShadow(shadowToValue(made, registry), registry) }, registry),
  };
}

/** Modifies the previous shadow. Fails on an empty branch. */
export function changeShadow(change: (before: Shadow) => Shadow): SaveChange {
  const self: SaveChange = {
    apply(before) {
      if (before !== undefined) return change(before);
      throw new SavepointError(
        "CHECKPOINT_NOT_FOUND",
        "The branch has no checkpoint to append to. Save a state first.",
      );
    },
    rebase: () => self,
  };
  return self;
}

/** Checks that the function passed to `update` returned a state. */
export function validateUpdateResult(next: unknown): unknown {
  if (next !== undefined && !types.isPromise(next)) return next;
  const wrong = next === undefined ? "nothing" : "a promise";
  throw new SavepointError(
    "INVALID_ARGUMENT",
    `The function passed to update() returned ${wrong}. Return the next state synchronously, and await before calling update().`,
  );
}
