/** A turn that has ended, opened again: all its calls are replayed from the journal. */
import { SavepointError } from "../../errors.js";
import type { CheckpointRow, Usage } from "../../records/index.js";
import { describeBranch, loadShadow, type SessionReader } from "../../sessions/index.js";
import type { ToolCall } from "../../messages/index.js";
import { valueToShadow, shadowToValue } from "../../state/index.js";
import {
  type EffectCall,
  type JournalOperation,
  hashValue,
  IdentityMatcher,
  readEntries,
  RecordedEffects,
  reviveError,
} from "../journal/index.js";
import type { AskOptions, LlmOptions, OpenRun, Reply } from "../agent/index.js";
import { readResult, type RunResult } from "../status/index.js";

export class FinishedOpenRun implements OpenRun {
  state: unknown;
  readonly signal: AbortSignal = new AbortController().signal;
  readonly #reader: SessionReader;
  readonly #matcher: IdentityMatcher;

  /** Reads the turn that ended with this checkpoint. */
  static async read(
    reader: SessionReader,
    branch: string,
    number: number,
    row: CheckpointRow,
  ): Promise<FinishedOpenRun> {
    const status = row.status === "failed" || row.status === "halted" ? row.status : "completed";
    const result = await readResult(reader, number, branch, row, { status, reason: row.reason });
    const { boundary, journal, turn = 0 } = row.run ?? {};
    const { entries } = journal ? await readEntries(reader, number, journal) : { entries: [] };
    const start = boundary === undefined ? undefined : await reader.row(number, boundary);
    // If the checkpoint at which the turn started was removed, the state at its end is used.
    const from = start && !("unreadable" in start) ? start : row;
    const state = shadowToValue(await loadShadow(reader, number, from), reader.context.registry);
    return new FinishedOpenRun(reader, branch, turn, result, state, entries);
  }

  private constructor(
    reader: SessionReader,
    readonly branch: string,
    readonly turn: number,
    readonly finished: RunResult,
    state: unknown,
    entries: readonly JournalOperation[],
  ) {
    this.#reader = reader;
    this.state = state;
    this.#matcher = new IdentityMatcher(new RecordedEffects(entries), reader.context.registry);
  }

  get session(): string {
    return this.#reader.sessionId;
  }

  get usage(): Required<Usage> {
    return this.finished.usage;
  }

  async llm<Result>(_: unknown, options: LlmOptions<Awaited<Result>> = {}): Promise<Reply<Awaited<Result>>> {
    const { name = "llm", input } = options;
    const { registry } = this.#reader.context;
    const args = input === undefined ? {} : { args: hashValue(input, registry) };
    return this.#recorded({ kind: "llm", name, ...args }) as Reply<Awaited<Result>>;
  }

  async tool<Result>(call: ToolCall): Promise<Awaited<Result>> {
    const args = valueToShadow(call.arguments, this.#reader.context.registry);
    return this.#recorded({ kind: "tool", name: call.name, callId: call.id, args }) as Awaited<Result>;
  }

  async effect<Result>(name: string): Promise<Awaited<Result>> {
    return this.#recorded({ kind: "effect", name }) as Awaited<Result>;
  }

  async ask<Answer>(question: string | AskOptions): Promise<Answer> {
    return this.#recorded({ kind: "ask", name: typeof question === "string" ? question : question.text }) as Answer;
  }

  remember<Value>(name: string): Value {
    return this.#recorded({ kind: "effect", name }) as Value;
  }

  async stepDone(): Promise<void> {}

  async emit(): Promise<void> {}

  async flush(): Promise<void> {}

  async complete(): Promise<RunResult> {
    if (this.finished.status === "completed") return this.finished;
    throw new SavepointError("RUN_ENDED", `${this.#describe()} cannot be completed.`);
  }

  async fail(reason: unknown): Promise<RunResult> {
    const cause = reason instanceof Error ? reason : undefined;
    throw new SavepointError("RUN_ENDED", `${this.#describe()} cannot fail.`, { cause });
  }

  async release(): Promise<void> {}

  async [Symbol.asyncDispose](): Promise<void> {}

  #recorded(call: EffectCall): unknown {
    const match = this.#matcher.next(call);
    const outcome = "differs" in match ? undefined : match.recorded?.outcome;
    if (!outcome) {
      throw new SavepointError(
        "NONDETERMINISM",
        `${this.#describe()} did not call ${JSON.stringify(call.name)}, or called it with another input, and executes nothing new. Use another name for a new turn.`,
        { details: { sessionId: this.session, branch: this.branch, called: call.name } },
      );
    }
    if ("error" in outcome) throw reviveError(outcome.error);
    return shadowToValue(outcome.value, this.#reader.context.registry);
  }

  #describe(): string {
    const where = describeBranch(this.session, this.branch);
    return `Turn ${this.turn} of ${where.charAt(0).toLowerCase()}${where.slice(1)} is ${this.finished.status}; it`;
  }
}
