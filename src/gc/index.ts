/**
 * Garbage collection: frees items, messages and blobs that nothing reaches, while other processes keep writing.
 *
 * Everything that may refer to an item is read before the item is freed; if any of it is damaged, nothing is freed.
 */
export { releaseImport } from "./abandoned-imports.js";
export { findLiveMessages, listAgentsWithConversations } from "./collect-conversations.js";
export { collectGarbage, type CollectOptions, type CollectReport, collectSession } from "./collect.js";
export { journalRefs, MarkError, markPieces, Marks, readJournals, rowRefs } from "./marks.js";
