/** The store in memory. It implements the whole contract with plain maps and keeps nothing after the process ends. */
export { openMemoryStore } from "./store.js";
