/** The checkpoint strategy of a run: which checkpoints stay in the history. Durability does not depend on it. */
import { invalidArgument } from "../../util/index.js";

/**
 * When a run saves a checkpoint that stays in the history: after tool calls, after replies of the model, after every step,
 * after every n-th step, or never. The first, the last and the newest state are kept with every strategy.
 */
export type Strategy = "afterToolCall" | "afterLlmResponse" | "everyStep" | "never" | { readonly everyN: number };

/** An event after which a strategy may want a checkpoint. An `iteration` is a completed step. */
export type CheckpointEvent = "toolCallComplete" | "llmResponse" | "iteration";

/**
 * Returns whether a strategy wants a checkpoint after an event.
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

/** Throws `INVALID_ARGUMENT` unless the value is a strategy. */
export function checkStrategy(strategy: Strategy): Strategy {
  const names: unknown[] = ["afterToolCall", "afterLlmResponse", "everyStep", "never"];
  const everyN: unknown = typeof strategy === "object" && strategy !== null ? strategy.everyN : undefined;
  if (names.includes(strategy) || (Number.isSafeInteger(everyN) && (everyN as number) > 0)) return strategy;
  throw invalidArgument(
    `The strategy ${JSON.stringify(strategy)} is invalid: expected "afterToolCall", "afterLlmResponse", "everyStep", "never", or { everyN } with a positive integer.`,
  );
}
