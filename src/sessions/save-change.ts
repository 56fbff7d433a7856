/** What a save does to the state before it: puts another one in its place, or changes its shadow. */
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

/** A state to save: the caller's own, to be compared at once; or a private copy, for when it may change meanwhile. */
export type StateInput = { readonly live: unknown } | { readonly copy: Shadow };

export interface SaveChange {
  /** The next shadow, made of the one before it, if there is one. `frozen` is that one's state, deep-frozen. */
  apply(before: Shadow | undefined, frozen?: unknown): Shadow;
  /** The same change to another head, after `made` was made of this one. */
  rebase(made: Shadow): SaveChange;
  /** The state that it leads to, where that does not depend on the one before. */
  state?(): Shadow;
}

/** Whatever was there, this state comes next. */
export function replaceState(candidate: StateInput, registry: ClassRegistry, recorded?: RecordedValues): SaveChange {
  const state = (): Shadow => ("copy" in candidate ? layoutState(candidate.copy) : newShadow(candidate.live, registry));
  return {
    state,
    apply(before, frozen) {
      if (before === undefined) return state();
      const value = "copy" in candidate ? shadowToValue(candidate.copy, registry) : candidate.live;
      return reviseShadow(before, value, registry, frozen, recorded);
    },
    // The state as it was when it was given; its owner may have changed it since.
    rebase: (made) => replaceState({ copy: valueToShadow(shadowToValue(made, registry), registry) }, registry),
  };
}

/** What `change` makes of the shadow that is there; there must be one. */
export function changeShadow(change: (before: Shadow) => Shadow): SaveChange {
  const self: SaveChange = {
    apply(before) {
      if (before !== undefined) return change(before);
      throw new SavepointError("CHECKPOINT_NOT_FOUND", "There is no checkpoint to add to yet. Save a state first.");
    },
    rebase: () => self,
  };
  return self;
}
