/**
 * Conversations: messages of an agent on an append-only tape, and a small record with their title, tags and metadata.
 *
 * Appending never reads; every other change replaces the record under a check. A conversation is its record plus ranges of
 * tapes, so that checkpoints of an agent (snapshots) and edits share messages instead of copying them.
 */
export {
  changePut,
  decodeConversationListing,
  conversationPuts,
  newStamp,
  planConversationRemoval,
  firstTitlePut,
  findRemovable,
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
  type ConversationMarks,
  type ConversationsAtOnce,
  readAllConversations,
  readChangedConversations,
  readMarks,
  removeMarks,
  unreadableConversation,
} from "./changes.js";
export {
  decodeSnapshot,
  encodeSnapshot,
  type ConversationSnapshot,
  isSameSnapshot,
  piecesOfSnapshot,
  toSnapshotInfo,
} from "./snapshot.js";
export { parseConversation, type ConversationFields, parseTags, parseTitle, toTitle } from "./fields.js";
export { moveMessage } from "./message-item.js";
export { renumberSnapshots, type NumberMoves, allocateConversationNumber, readNumberMoves } from "./moved-numbers.js";
export {
  type DamagedConversation,
  isIntactConversation,
  loadConversation,
  loadMessages,
  readIntactConversations,
  readConversation,
  readConversations,
  readMessages,
  type StoredConversation,
  toConversationInfo,
} from "./reader.js";
export { conversationNotFound, ConversationWriter } from "./writer.js";
