/**
 * Where the code that runs just now was called from: a step, or the function of one of its effects. Some things cannot be
 * done from there: an effect inside an effect could not be told apart from one after it, and who waits for its own step
 * waits for ever.
 */
import { AsyncLocalStorage } from "node:async_hooks";

export interface StepScope {
  readonly session?: string;
  readonly branch?: string;
  /** The effect, if it is in the function of one. */
  readonly effect?: string;
}

export const currentScope = new AsyncLocalStorage<StepScope>();
