/** The messages in the newest state of a session, of any SDK. */
import { shadowToValue } from "../state/index.js";
import type { Context } from "../context.js";
import {
  describeMessage,
  findMemories,
  findMessages,
  findSubagentMessages,
  type MessageDescription,
} from "../messages/index.js";
import { loadShadow, SessionReader } from "../sessions/index.js";

/** A message in a state, or an item of LangGraph's long-term memory, which has no role. */
export interface SessionMessage extends Omit<MessageDescription, "role"> {
  readonly role: MessageDescription["role"] | undefined;
  /** JSON pointer to it in the state. */
  readonly path: string;
}

/** Reads the messages and the memories of a branch; `undefined` if it has no state. */
export async function readSessionMessages(
  context: Context,
  sessionId: string,
  branch: string,
): Promise<SessionMessage[] | undefined> {
  const reader = new SessionReader(context, sessionId);
  const heads = await reader.heads(branch);
  const head = heads.branch?.record.head;
  if (!heads.session || !head) return undefined;
  const shadow = await loadShadow(reader, heads.session.record.number, head);
  const state = shadowToValue(shadow, context.registry);
  const messages = [...findMessages(state), ...findSubagentMessages(state)].flatMap(({ path, message }) => {
    const described = describeMessage(message);
    return described ? [{ ...described, path }] : [];
  });
  return [...messages, ...findMemories(state)];
}
