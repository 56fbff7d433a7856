/**
 * `savepoint/langgraph`: a checkpointer and a long-term memory for LangGraph.js. It uses only the public API of Savepoint. Every write is checked
 * against the stored thread, so several processes can work on one thread.
 */
export type { MigrateOptions, MigrateProgress, MigrateReport } from "./migrate.js";
export type { SavepointSaverOptions } from "./options.js";
export { SavepointSaver } from "./saver.js";
export { resolveToolCalls } from "./tool-calls.js";
export type { FoundThread, ListThreadsOptions, ThreadInfo } from "./threads.js";
export {
  type NamespaceState,
  type PutItemOptions,
  type ReadItemOptions,
  SavepointStore,
  type SavepointStoreOptions,
  type SearchItemsOptions,
  type StoredItem,
  type StoreIndexOptions,
} from "./store/index.js";
