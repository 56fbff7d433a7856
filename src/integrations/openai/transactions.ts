/** Changes of a history, as the SDK describes them: applied to plain data. */
import { createHash } from "node:crypto";
import type { AgentInputItem, SessionHistoryMutation, SessionHistoryTransactionArgs } from "@openai/agents-core";
import { SavepointError } from "../../index.js";
import { isEqualItem } from "./item-log.js";
import { copyDefined, invalidArgument, isObject } from "./sdk.js";
import type { OpenAiState } from "./state.js";

/** How many applied transactions a session remembers. The SDK repeats only the latest ones. */
const MAX_OPERATIONS = 1000;

/**
 * Applies a transaction. Returns `undefined` if it was applied before.
 *
 * Throws `CONFLICT` if another transaction has the same id, or if the end of the history is not the expected one.
 */
export function applyTransaction(state: OpenAiState, args: SessionHistoryTransactionArgs): OpenAiState | undefined {
  const { operationId, transaction } = parseTransaction(args);
  const { operations = {}, messages } = state;
  const digest = digestOf(transaction);
  const applied = Object.hasOwn(operations, operationId) ? operations[operationId] : undefined;
  if (applied === digest) return undefined;
  if (applied !== undefined) {
    throw conflict(`Another history transaction was applied under the operation id ${JSON.stringify(operationId)}.`);
  }
  const kept = Object.entries(operations).slice(-MAX_OPERATIONS + 1);
  return {
    messages: changeItems(messages, transaction),
    operations: Object.fromEntries([...kept, [operationId, digest]]),
  };
}

/** Replaces function calls. The first call with the id is replaced, and others with the same id are removed. */
export function applyMutations(
  items: readonly AgentInputItem[],
  mutations: readonly SessionHistoryMutation[],
): readonly AgentInputItem[] {
  return mutations.reduce<readonly AgentInputItem[]>((before, { callId, replacement }) => {
    const isCall = (item: AgentInputItem): boolean => item.type === "function_call" && item.callId === callId;
    const first = before.findIndex(isCall);
    return before.flatMap((item, index) => {
      if (!isCall(item)) return [item];
      return index === first ? [copyDefined(replacement)] : [];
    });
  }, items);
}

type Transaction = SessionHistoryTransactionArgs["transaction"];

function changeItems(items: readonly AgentInputItem[], transaction: Transaction): readonly AgentInputItem[] {
  if (transaction.type === "append_items") return [...items, ...copyDefined(transaction.items)];
  const { expectedSuffix, replacement } = transaction;
  const from = items.length - expectedSuffix.length;
  if (from < 0 || !isEqualItem(items.slice(from), expectedSuffix)) {
    throw conflict("The end of the history is not the one that the transaction replaces.");
  }
  return [...items.slice(0, from), ...copyDefined(replacement)];
}

function parseTransaction(args: SessionHistoryTransactionArgs): SessionHistoryTransactionArgs {
  const { operationId, transaction }: Readonly<Record<string, unknown>> = { ...args };
  if (typeof operationId !== "string" || operationId.trim() === "") {
    throw invalidArgument("applyHistoryTransaction() needs a non-empty operationId.");
  }
  const { type, items, expectedSuffix, replacement } = isObject(transaction) ? transaction : {};
  const lists = type === "append_items" ? [items] : type === "replace_suffix" ? [expectedSuffix, replacement] : [0];
  if (!lists.every((list) => Array.isArray(list) && list.every(isObject))) {
    throw invalidArgument(
      'applyHistoryTransaction() needs a transaction { type: "append_items", items } or { type: "replace_suffix", expectedSuffix, replacement }.',
    );
  }
  return args;
}

function digestOf(transaction: Transaction): string {
  const text = JSON.stringify(copyDefined(transaction), (_, value: unknown) =>
    value instanceof Uint8Array
      ? [...value]
      : isObject(value) && !Array.isArray(value)
        ? Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)))
        : value,
  );
  return createHash("sha256").update(text).digest("base64url").slice(0, 22);
}

/** The errors of transactions that do not fit the history. */
const CONFLICTS = new WeakSet<object>();

/** Whether a transaction does not fit the history: then trying again cannot help, as it can if another process has written. */
export function isTransactionConflict(error: unknown): boolean {
  return isObject(error) && CONFLICTS.has(error);
}

function conflict(message: string): SavepointError {
  const error = new SavepointError("CONFLICT", `${message} The history is unchanged.`);
  CONFLICTS.add(error);
  return error;
}
