export { type ConversationHit, Search, type SearchHit, type SearchOptions } from "./search.js";
