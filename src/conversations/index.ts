export {
  decodeConversationListing,
  conversationPuts,
  planConversationRemoval,
  firstTitlePut,
  readWithFallback,
} from "./commit.js";
export type {
  Conversation,
  ConversationEntry,
  ConversationInfo,
  ConversationListOptions,
  ConversationOptions,
  LoadConversationOptions,
} from "./conversation.js";
export {
  type AgentConversations,
  decodeSnapshot,
  encodeSnapshot,
  type ConversationSnapshot,
  isSameSnapshot,
  piecesOfSnapshot,
  readAgentConversations,
  toSnapshotInfo,
  unreadableConversation,
} from "./snapshot.js";
export { parseConversation, type ConversationFields, parseTags, parseTitle } from "./fields.js";
export { moveMessage } from "./message-item.js";
export { renumberSnapshots, type NumberMoves, allocateConversationNumber, readNumberMoves } from "./moved-numbers.js";
export {
  loadConversation,
  loadMessages,
  readIntactConversations,
  readConversation,
  readConversations,
  readMessages,
  type StoredConversation,
  toConversationInfo,
} from "./reader.js";
export { toTitle } from "./title.js";
export { conversationNotFound, ConversationWriter } from "./writer.js";
