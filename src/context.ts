/** What every part of the model works with. */
import type { ClassRegistry } from "./state/index.js";
import type { Store } from "./store/index.js";
import type { Events } from "./events/index.js";
import type { CheckpointPlace } from "./records/index.js";
import type { PolicyCache } from "./policies/index.js";

export interface Context {
  readonly store: Store;
  readonly registry: ClassRegistry;
  readonly events: Events;
  /** The retention policies, and what is known about obeying them. */
  readonly policies: PolicyCache;
  /** The clock, in milliseconds. */
  readonly now: () => number;
  /** A new id for the checkpoint at a place. */
  readonly newId: (place: CheckpointPlace) => string;
}
