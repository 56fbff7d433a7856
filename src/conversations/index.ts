export { listedConversation, recordPuts, removal, titlePut, valueOr } from "./commit.js";
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
  decodeEntry,
  encodeEntry,
  type EnteredConversation,
  isSameEntry,
  piecesOfEntry,
  readAgentConversations,
  toEnteredInfo,
  unreadableConversation,
} from "./entry.js";
export { takeConversation, type TakenConversation, takeTags, takeTitle } from "./fields.js";
export { moveMessage } from "./message-item.js";
export { moveEntries, type Moves, numberFor, readMoves } from "./moved-numbers.js";
export {
  loadConversation,
  loadMessages,
  readable,
  readConversation,
  readConversations,
  readMessages,
  type StoredConversation,
  toConversationInfo,
} from "./reader.js";
export { toTitle } from "./title.js";
export { conversationNotFound, ConversationWriter } from "./writer.js";
