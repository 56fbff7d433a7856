/**
 * The contract that every store implements, and the options that they share. It has no implementation: all code above the
 * stores depends on these types only. A commit is the only write, and it is atomic.
 */
export { prefixRange } from "./contract.js";
export type * from "./contract.js";
export { compareKeys, covers, lowerBound } from "./key-range.js";
export { busyTimeoutOf, fileModeOf, createFailureReporter } from "./options.js";
export type * from "./options.js";
export { DOCUMENTS_PER_SOURCE, isSameSource } from "./text-index.js";
export type * from "./text-index.js";
