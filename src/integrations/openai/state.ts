/** The state of a session of the SDK: its history, and the progress of the last turn. */
import type { AgentInputItem } from "@openai/agents-core";
import { type Json, SavepointError } from "../../index.js";
import { isObject } from "./sdk.js";

/** The state of a session. */
export interface OpenAiState {
  /** The history, as the SDK's own items. */
  readonly messages: readonly AgentInputItem[];
  /** The turn that the last items belong to. Missing if a plain session has written last. */
  readonly turn?: {
    /** The number of items before the turn. */
    readonly from: number;
    /** Whether the turn has ended. */
    readonly done: boolean;
  };
  /**
   * The SDK's `RunState` when the unfinished turn last needed approval, parsed, so that the next one writes only what has changed. A turn
   * that is opened again does not need it: it replays what is recorded. It does not have the context of the program.
   */
  readonly run?: Json;
  /** The history transactions that a plain session has applied: digests by their operation ids, the oldest first. */
  readonly operations?: Readonly<Record<string, string>>;
}

/** Validates a state that a turn or a session has saved. Another program may have saved anything. */
export function parseState(session: string, state: unknown): OpenAiState {
  const { messages, turn, operations = {} } = isObject(state) ? state : {};
  if (Array.isArray(messages) && messages.every(isObject) && isObject(operations)) {
    const { from, done } = isObject(turn) ? turn : {};
    if (turn === undefined || (typeof from === "number" && typeof done === "boolean")) return state as OpenAiState;
  }
  throw new SavepointError(
    "INVALID_STATE",
    `The state of session ${JSON.stringify(session)} is not a history of the OpenAI Agents SDK: another program has saved it. Use another session, or return to an earlier checkpoint with session.rewind().`,
  );
}
