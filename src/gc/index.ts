export { agentsWithConversations, liveMessages, markPieces, Unmarkable } from "./collect-conversations.js";
export { collectGarbage, type CollectOptions, type CollectReport, collectSession } from "./collect.js";
export { frameOfJournal, frameOfRow, Marks, readJournals } from "./marks.js";
export { type ImportRecord, releaseImport } from "./old-imports.js";
