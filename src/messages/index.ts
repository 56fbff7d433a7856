export { describeMessage, findMessages, type MessageDescription } from "./message-text.js";
export {
  type Attachment,
  type AttachmentType,
  type Message,
  message,
  type MessageFields,
  pendingToolCalls,
  type Role,
  type ToolCall,
  type ToolCallStatus,
} from "./message.js";
