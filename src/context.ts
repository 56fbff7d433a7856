/** The services that all modules above the store share. One context belongs to one open Savepoint. */
import type { ClassRegistry } from "./state/index.js";
import type { Store } from "./store/index.js";
import type { Events } from "./events/index.js";
import type { CheckpointPlace } from "./records/index.js";
import type { PolicyCache, SweepSchedules } from "./policies/index.js";

export interface Context {
  readonly store: Store;
  readonly registry: ClassRegistry;
  readonly events: Events;
  readonly policies: PolicyCache;
  readonly sweeps: SweepSchedules;
  /** The clock, in milliseconds since 1970. */
  readonly now: () => number;
  /** Generates the id of the checkpoint at a place. */
  readonly newId: (place: CheckpointPlace) => string;
}
