/**
 * Leases: which process may write which branches, and for how long. One owner record per process is renewed while it runs
 * anything. A process must not start an effect unless its lease has been unbroken since its last write to the branch.
 *
 * This room is about the lease of this process. Whether the lease of another process has ended, so that its branch may be
 * taken over, is decided in runs/claims/claimable.ts.
 */
export type { StoreAddress } from "./heartbeat-thread.js";
export { Leases } from "./leases.js";
export { currentMoment, type Moment } from "./moment.js";
export { parseAnnouncement, ProcessWatcher } from "./process-watcher.js";
