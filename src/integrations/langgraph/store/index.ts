/** LangGraph's long-term memory: `SavepointStore`. */
export type { PutItemOptions, ReadItemOptions, SavepointStoreOptions, SearchItemsOptions } from "./options.js";
export { SavepointStore } from "./store.js";
export type { NamespaceState, StoredItem } from "./items.js";
export type { StoreIndexOptions } from "./vectors.js";
