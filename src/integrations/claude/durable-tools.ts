/** Tools of the Claude Agent SDK whose calls are recorded, by its hooks. */
import {
  type EffectContext,
  isSavepointError,
  type OpenRun,
  type OpenRunOptions,
  type RunResult,
  type Savepoint,
  type UnknownPolicy,
  type Verdict,
} from "../../index.js";
import { CallLog, type CallResult, parseResult, sortKeys } from "./call-log.js";
import { denyCall, stopQuery, type ToolHookInput, type ToolHookOutput, type ToolHooks } from "./hooks.js";
import { invalidArgument } from "./keys.js";
import type { TranscriptEntry } from "./types.js";

/** What to do if a call of a tool was interrupted, so that whether it happened is unknown. */
export interface ToolPolicy {
  /** @default "ask" */
  readonly onUnknown?: UnknownPolicy;
  /** Finds out whether the call happened, for the policy `verify`. */
  readonly verify?: (input: unknown, context: EffectContext) => Verdict | Promise<Verdict>;
}

/** Which turn of which session to record, and how. */
export interface DurableToolsOptions extends Omit<OpenRunOptions, "initial" | "receive"> {
  /** What to do with interrupted calls, by the name of the tool: `Bash`, `mcp__shop__charge`. @default "ask" for each tool */
  readonly policies?: Readonly<Record<string, ToolPolicy>>;
  /**
   * The transcript with which the query resumes: `await sessionStore.load(key)`. It shows which results the model knows. A call that
   * repeats one of them is executed; a call that repeats another recorded one gets the recorded result.
   * @default empty
   */
  readonly transcript?: readonly TranscriptEntry[] | null;
  /**
   * Which tools to record.
   * @default all except Claude Code's own tools that only read
   */
  readonly isRecorded?: (tool: string) => boolean;
}

/** An open turn whose tools are recorded. */
export interface DurableTools extends AsyncDisposable {
  /** Pass them to the SDK: `query({ prompt, options: { hooks: tools.hooks } })`. */
  readonly hooks: ToolHooks;
  /** Aborted when the turn is cancelled or has lost its lease. */
  readonly signal: AbortSignal;
  /** The result of this turn, if it was completed before: there is no need to query again. */
  readonly finished: RunResult | undefined;
  /** Completes the turn. @throws `OUTCOME_UNKNOWN` if it waits for a person */
  complete(output?: unknown): Promise<RunResult>;
  /** Ends the turn as failed. Opening the same turn again resumes it. */
  fail(error: unknown): Promise<RunResult>;
  /** Releases the turn without ending it, so that this or another process can open it again. */
  release(): Promise<void>;
}

/** Claude Code's own tools that change nothing. */
const READING: ReadonlySet<string> = new Set(
  "Read Glob Grep LS NotebookRead WebFetch WebSearch ToolSearch TaskOutput BashOutput ListMcpResources ReadMcpResource".split(
    " ",
  ),
);

/**
 * Opens a turn in which the calls of tools are recorded: the start of a call before Claude Code executes it, and its result before the
 * model gets it. If the process dies, the resumed model makes the interrupted calls again. A call whose result was recorded is then not
 * executed: the model gets the recorded result. For a call that was interrupted, its policy decides.
 *
 * @example
 * const tools = await durableTools(sp, { session: "order-42", turn: messageId, transcript: await sessionStore.load(key) });
 * for await (const message of query({ prompt, options: { sessionStore, resume, hooks: tools.hooks } })) console.log(message);
 * await tools.complete();
 */
export async function durableTools(sp: Savepoint, options: DurableToolsOptions): Promise<DurableTools> {
  if (typeof (sp as Partial<Savepoint> | undefined)?.openRun !== "function") {
    throw invalidArgument(
      "durableTools() needs an open Savepoint: durableTools(await Savepoint.open(url), { session }).",
    );
  }
  const { policies = {}, transcript, isRecorded = (tool) => !READING.has(tool), ...turn } = options;
  const run = await sp.openRun({ ...turn, initial: () => ({}) });
  try {
    const { session, branch } = run;
    const entries = run.finished ? [] : await sp.journal(session, { branch }).all();
    return new Recorder(run, new CallLog(entries, transcript ?? []), policies, isRecorded);
  } catch (error) {
    // If it cannot be released, its lease expires; the first error is the one to report.
    await run.release().catch(() => {});
    throw error;
  }
}

/** A call that Claude Code executes. */
interface OpenCall {
  /** Ends it: its result is recorded, or its outcome stays unknown. */
  readonly end: (result: CallResult) => void;
  readonly interrupt: () => void;
  /** Settles when its result is durable. */
  readonly recorded: Promise<unknown>;
}

class Recorder implements DurableTools {
  readonly hooks: ToolHooks;
  readonly #run: OpenRun;
  readonly #log: CallLog;
  readonly #policies: Readonly<Record<string, ToolPolicy>>;
  readonly #open = new Map<string, OpenCall>();
  readonly #isRecorded: (tool: string) => boolean;

  constructor(
    run: OpenRun,
    log: CallLog,
    policies: Readonly<Record<string, ToolPolicy>>,
    isRecorded: (tool: string) => boolean,
  ) {
    this.#run = run;
    this.#log = log;
    this.#policies = policies;
    this.#isRecorded = isRecorded;
    const hook = (handle: (input: ToolHookInput) => Promise<ToolHookOutput | void>): ToolHooks["PreToolUse"] => [
      { hooks: [async (input) => (await handle(input)) ?? {}] },
    ];
    this.hooks = {
      PreToolUse: hook((input) => this.#start(input)),
      PostToolUse: hook(({ tool_use_id: toolUseId = "", tool_response: output }) =>
        this.#end(toolUseId, { toolUseId, output: output ?? null }),
      ),
      PostToolUseFailure: hook((input) => this.#endFailed(input)),
      // A call of the batch that has not ended was denied.
      PostToolBatch: hook(async ({ tool_calls: calls = [] }) => {
        for (const { tool_use_id: toolUseId } of calls) await this.#end(toolUseId, { toolUseId, refused: true });
      }),
    };
  }

  get signal(): AbortSignal {
    return this.#run.signal;
  }

  get finished(): RunResult | undefined {
    return this.#run.finished;
  }

  async complete(output?: unknown): Promise<RunResult> {
    return this.#run.complete(output);
  }

  async fail(error: unknown): Promise<RunResult> {
    return this.#run.fail(error);
  }

  async release(): Promise<void> {
    // Nothing can record their results any more.
    for (const { interrupt } of this.#open.values()) interrupt();
    this.#open.clear();
    await this.#run.release();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.release();
  }

  /** Records that a call starts, or answers it with its recorded result. */
  async #start({
    tool_name: name = "",
    tool_input: input,
    tool_use_id: toolUseId = "",
  }: ToolHookInput): Promise<ToolHookOutput | void> {
    if (!this.#isRecorded(name)) return undefined;
    const { onUnknown, verify } = Object.hasOwn(this.#policies, name) ? (this.#policies[name] ?? {}) : {};
    const stop = new AbortController();
    const sorted = sortKeys(input);
    const call = { id: this.#log.next(name, sorted), name, arguments: sorted };
    const started = new Promise<"started">((resolve, reject) => {
      const recorded = this.#run.tool(
        call,
        () =>
          new Promise<CallResult>((end, fail) => {
            const interrupt = (): void => {
              stop.abort();
              fail(new Error("Claude Code has interrupted the call."));
            };
            this.#open.set(toolUseId, { end, interrupt, recorded });
            resolve("started");
          }),
        {
          stopped: stop.signal,
          ...(onUnknown && { onUnknown }),
          ...(verify && { verify: (context) => verify(input, context) as Verdict<CallResult> }),
        },
      );
      recorded.then((result) => reject(new Replay(result)), reject);
    });
    try {
      await started;
      return undefined;
    } catch (error) {
      return error instanceof Replay ? answerReplay(parseResult(error.result)) : answerError(error);
    }
  }

  async #endFailed({
    tool_use_id: toolUseId = "",
    error = "",
    is_interrupt: isInterrupt,
  }: ToolHookInput): Promise<void> {
    if (!isInterrupt) return this.#end(toolUseId, { toolUseId, error });
    const call = this.#open.get(toolUseId);
    this.#open.delete(toolUseId);
    call?.interrupt();
    // Its outcome stays unknown. The turn has ended, or the next call of the loop reports why not.
    await call?.recorded.catch(() => {});
  }

  /** Records the result of a call. Resolves when it is durable, so before the model gets it. */
  async #end(toolUseId: string, result: CallResult): Promise<void> {
    const call = this.#open.get(toolUseId);
    this.#open.delete(toolUseId);
    call?.end(result);
    await call?.recorded;
  }
}

/** The result of a call that is not executed, because it was recorded before. */
class Replay extends Error {
  constructor(readonly result: unknown) {
    super("The call was recorded before.");
  }
}

function answerReplay(result: CallResult): ToolHookOutput | void {
  // It was denied, and must be decided again. Such calls are not replayed, so this one was denied meanwhile.
  if ("refused" in result) return undefined;
  const before = "This call was executed before the session was interrupted, and is not executed again.";
  if ("error" in result) return denyCall(`${before} It failed: ${result.error}`);
  const { output } = result;
  return denyCall(`${before} Its result: ${typeof output === "string" ? output : JSON.stringify(output)}`);
}

function answerError(error: unknown): ToolHookOutput {
  const message = error instanceof Error ? error.message : String(error);
  // With the policy `fail`, the model gets the error. All other errors have ended the turn.
  const isForModel = isSavepointError(error, "OUTCOME_UNKNOWN") && error.details["questions"] === undefined;
  return isForModel ? denyCall(`${message} Check whether it happened before you repeat it.`) : stopQuery(message);
}
