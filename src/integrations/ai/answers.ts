/**
 * Answers of a client to the last reply. When a user has approved a call, or a tool in the browser has returned its result, the SDK's
 * client sends the reply again, with the answers in it: converted, it is a list of assistant and tool messages. Only the answers to open
 * calls are new.
 */
import { createHash } from "node:crypto";
import { findUnansweredCalls, partsOf } from "./messages.js";
import { invalidArgument, type ModelMessage, type SdkPart } from "./sdk.js";

/** Whether an input is a reply that was sent again with answers, perhaps with the beginning of what the model has said after them. */
export function isAnsweredReply(input: readonly ModelMessage[]): boolean {
  const isReply = input.every(({ role }) => role === "assistant" || role === "tool");
  return isReply && input[0]?.role === "assistant" && input.some(({ role }) => role === "tool");
}

/**
 * The name of the turn of an answered reply. Each answer is a turn of its own, but the reply that it continues keeps its id, by which
 * callers name turns.
 */
export function nameAnswer(turn: string, input: readonly ModelMessage[]): string {
  const asked = new Set(input.flatMap(partsOf).filter(isRequest).map(idOf));
  const last = input.filter(({ role }) => role === "tool").at(-1);
  const answered = partsOf(last ?? { content: [] })
    // The result of an approved call is not an answer of the client. It is present only if the client has already received it.
    .filter(({ type, toolCallId }) => type !== "tool-result" || !asked.has(toolCallId))
    .map(({ toolCallId, approvalId }) => approvalId ?? toolCallId);
  const hash = createHash("sha256").update(JSON.stringify(answered)).digest("base64url");
  return `${turn}/${hash.slice(0, 16)}`;
}

/** Removes from an answered reply what the conversation already contains. Returns other input unchanged. */
export function keepAnswers(history: readonly ModelMessage[], input: readonly ModelMessage[]): readonly ModelMessage[] {
  if (!isAnsweredReply(input)) return input;
  const known = new Set(history.flatMap(partsOf).filter(isCall).map(idOf));
  // A conversation of another store, with which the session starts.
  if (
    !input
      .flatMap(partsOf)
      .filter(isCall)
      .map(idOf)
      .some((id) => known.has(id))
  )
    return input;
  const calls = findUnansweredCalls(history);
  const approvals = findOpenApprovals(history);
  const content = input
    .filter(({ role }) => role === "tool")
    .flatMap(partsOf)
    .filter(({ type, toolCallId, approvalId }) =>
      type === "tool-approval-response" ? approvals.has(approvalId) : calls.has(String(toolCallId)),
    );
  if (content.length > 0) return [{ role: "tool", content } as unknown as ModelMessage];
  throw invalidArgument(
    "The input of the turn is a reply whose tool calls are all answered. Pass the last message of the user, or a reply with an answer to an open call.",
  );
}

const isCall = ({ type }: SdkPart): boolean => type === "tool-call";
const isRequest = ({ type }: SdkPart): boolean => type === "tool-approval-request";
const idOf = ({ toolCallId }: SdkPart): unknown => toolCallId;

/** The ids of requests for approval without a response. */
function findOpenApprovals(messages: readonly ModelMessage[]): Set<unknown> {
  const open = new Set<unknown>();
  for (const { type, approvalId } of messages.flatMap(partsOf)) {
    if (type === "tool-approval-request") open.add(approvalId);
    if (type === "tool-approval-response") open.delete(approvalId);
  }
  return open;
}
