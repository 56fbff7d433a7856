export { Leases, type StoreAddress } from "./leases.js";
export { type Moment, currentMoment } from "./moment.js";
export { ProcessWatcher, parseAnnouncement } from "./process-watcher.js";
export { isStoreFailure } from "./store-failure.js";
