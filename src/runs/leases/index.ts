export { Leases, type Reopening } from "./leases.js";
export { type Moment, momentOf } from "./moment.js";
export { Neighbours, readAnnouncement } from "./neighbours.js";
export { isStoreFailure } from "./store-failure.js";
