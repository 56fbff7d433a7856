/**
 * Full-text search. The index is derived data: saves do not write it, a search brings it up to date first, and every hit is
 * read from the conversation or session itself, so that a stale or damaged index cannot return a wrong hit.
 */
export type { ConversationHit, SearchHit, SearchOptions } from "./query.js";
export { Search } from "./search.js";
export type { TextOwner } from "./text-sources.js";
