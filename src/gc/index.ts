export { listAgentsWithConversations, findLiveMessages, markPieces, MarkError } from "./collect-conversations.js";
export { collectGarbage, type CollectOptions, type CollectReport, collectSession } from "./collect.js";
export { journalRefs, rowRefs, Marks, readJournals } from "./marks.js";
export { type ImportRecord, releaseImport } from "./abandoned-imports.js";
