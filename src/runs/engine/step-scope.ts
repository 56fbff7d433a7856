/**
 * The step, and the effect in it, that the current code was called from. An effect inside an effect is rejected, because its
 * number would depend on timing. So is a run of the branch of the current step, because it would wait for itself.
 */
import { AsyncLocalStorage } from "node:async_hooks";

export interface StepScope {
  readonly session?: string;
  readonly branch?: string;
  /** The name of the effect whose function is being executed. */
  readonly effect?: string;
}

export const currentScope = new AsyncLocalStorage<StepScope>();
