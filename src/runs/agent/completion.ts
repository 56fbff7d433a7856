/** What a step returns to end the work. */

export type EndStatus = "completed" | "failed" | "halted";

/** Made by `run.complete()`, `run.fail()` and `run.halt()`. */
export class Completion<out Output> {
  constructor(
    readonly status: EndStatus,
    readonly output: Output | undefined,
    readonly reason: string | undefined,
  ) {}
}
