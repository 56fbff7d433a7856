/**
 * Messages: the format of Savepoint, and reading the formats of all known SDKs. Descriptions are derived on demand; a stored
 * message is never converted.
 */
export { briefJson } from "./brief-json.js";
export { findMemories, type StateMemory } from "./memories.js";
export {
  describeMessage,
  findMessages,
  findSubagentMessages,
  type MessageDescription,
  type StateMessage,
} from "./message-text.js";
export {
  type Attachment,
  type AttachmentType,
  type Message,
  message,
  type MessageFields,
  type Role,
  type ToolCall,
  type ToolCallStatus,
} from "./message.js";
export { describeToolUse, type ToolResult, type ToolUse } from "./tool-use.js";
export { pendingToolCalls, resolveToolCalls, type ToolCallResolution } from "./tool-calls.js";
