/** The services that all modules above the store share. One context belongs to one open Savepoint. */
import type { Encryption } from "./encryption/index.js";
import type { ClassRegistry } from "./state/index.js";
import type { Store, StoredRecord } from "./store/index.js";
import type { Events } from "./events/index.js";
import type { CheckpointPlace } from "./records/index.js";
import type { PolicyCache, SweepSchedules } from "./policies/index.js";
import type { LruMap } from "./util/index.js";

export interface Context {
  readonly store: Store;
  readonly registry: ClassRegistry;
  readonly encryption: Encryption;
  readonly events: Events;
  readonly policies: PolicyCache;
  readonly sweeps: SweepSchedules;
  /** The records of lease owners whose processes are certainly dead, as they were last read. A claim checks what it uses of them. */
  readonly deadOwners: LruMap<string, StoredRecord>;
  /** The clock, in milliseconds since 1970. */
  readonly now: () => number;
  /** Generates the id of the checkpoint at a place. */
  readonly newId: (place: CheckpointPlace) => string;
}
