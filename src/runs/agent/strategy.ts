/** Which checkpoints of a run stay in the history. It never decides what survives: that is every step, always. */
import { SavepointError } from "../../errors.js";

/**
 * When a run takes a checkpoint that stays: after tool calls, after replies of the model, after every step, after every
 * n-th, or never. The newest state is always there, and so are the first one and the last.
 */
export type Strategy = "afterToolCall" | "afterLlmResponse" | "everyStep" | "never" | { readonly everyN: number };

/** What has just happened. An `iteration` is a step that is done. */
export type CheckpointEvent = "toolCallComplete" | "llmResponse" | "iteration";

/**
 * Is this the moment for a checkpoint?
 *
 * @param iteration the number of the step, counted from 1
 */
export function shouldCheckpoint(strategy: Strategy, event: CheckpointEvent, iteration: number): boolean {
  checkStrategy(strategy);
  if (typeof strategy === "object") {
    return event === "iteration" && iteration > 0 && iteration % strategy.everyN === 0;
  }
  switch (strategy) {
    case "afterToolCall":
      return event === "toolCallComplete";
    case "afterLlmResponse":
      return event === "llmResponse";
    case "everyStep":
      return event === "iteration";
    case "never":
      return false;
  }
}

/** Refuses what is no strategy. */
export function checkStrategy(strategy: Strategy): Strategy {
  const names: unknown[] = ["afterToolCall", "afterLlmResponse", "everyStep", "never"];
  const everyN: unknown = typeof strategy === "object" && strategy !== null ? strategy.everyN : undefined;
  if (names.includes(strategy) || (Number.isSafeInteger(everyN) && (everyN as number) > 0)) return strategy;
  throw new SavepointError(
    "INVALID_ARGUMENT",
    `${JSON.stringify(strategy)} is no strategy. Use "afterToolCall", "afterLlmResponse", "everyStep", "never", or { everyN: 3 } with a whole number from 1 on.`,
  );
}
