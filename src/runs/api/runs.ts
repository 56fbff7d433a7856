/** The runs of a Savepoint or a worker: starts, joins and recovers them, and delivers inputs, answers and cancels. */
import { setTimeout as sleep } from "node:timers/promises";
import { isSavepointError, SavepointError } from "../../errors.js";
import type { Context } from "../../context.js";
import { describeBranch, SessionReader } from "../../sessions/index.js";
import {
  ALL_OWNERS,
  ALL_QUEUE_ENTRIES,
  checkId,
  decodeOwner,
  decodeQueueEntry,
  ownedBy,
  ownerKey,
  parseQueueEntryKey,
  queueEntryKey,
} from "../../records/index.js";
import type { RunEvent, RunEventOf, RunEventType } from "../../events/index.js";
import { scan, type Store } from "../../store/index.js";
import { invalidArgument, unlessConflict, validateOptions } from "../../util/index.js";
import { type Agent, type OpenRun, type OpenRunOptions, withLimits } from "../agent/index.js";
import { recordAnswer, requestCancel, requeueRun, sendInput } from "../inbox/index.js";
import {
  checkAgent,
  claimOpenTurn,
  claimRun,
  encodeInput,
  enqueue,
  type EnqueueOptions,
  parseAgents,
  parseBranchName,
  parseOpenRunOptions,
  parseRunOptions,
  type RecoverOptions,
  recursiveRun,
  type RunOptions,
  type RunRequest,
  sessionToStartNotFound,
  toResumeRequest,
} from "../starting/index.js";
import { hashText } from "../journal/index.js";
import { currentScope, type Execution } from "../engine/index.js";
import { FinishedOpenRun, LiveOpenRun, OpenAgent } from "../external/index.js";
import { releaseBranch } from "../claims/index.js";
import type { RunResult } from "../status/index.js";
import { isStoreFailure, type LiveRuns, START_GRACE, type StartedRun } from "./live-runs.js";
import { waitForChange } from "./watch.js";

/** The agent of a new session that is opened without one. */
const DEFAULT_AGENT = "agent";

/** Errors with which a session is skipped: another process runs it, or it was deleted or changed in the meantime. */
const SKIPPED: ReadonlySet<string> = new Set([
  "ALREADY_RUNNING",
  "SESSION_DELETED",
  "AGENT_MISMATCH",
  "BRANCH_NOT_FOUND",
]);

/** Errors that end a run although nothing failed: another process has it, the store is closed, or the session was deleted. */
export const EXPECTED_ENDS = ["LEASE_LOST", "CLOSED", "SESSION_DELETED"] as const;

/** A run of this process, returned by `sp.start()` and `sp.recover()`. */
export interface RunHandle<State = unknown, Output = unknown> {
  readonly session: string;
  readonly branch: string;
  /** Resolves when the run has ended or waits. Rejects with errors of Savepoint, such as `LEASE_LOST`. */
  result(): Promise<RunResult<State, Output>>;
  /** Cancels the run: it is halted with this reason. Resolves when it is. */
  cancel(reason?: string): Promise<void>;
  /** Adds a listener for events of the run. Returns the function that removes it. */
  on<Type extends RunEventType>(type: Type, listener: (event: RunEventOf<Type>) => void): () => void;
}

/** Owner records of ended processes are kept for a day, in case a clock was wrong. In milliseconds. */
const KEEP_OWNERS_FOR = 86_400_000;

export class Runs {
  readonly live: LiveRuns;
  readonly #context: Context;

  constructor(live: LiveRuns) {
    this.live = live;
    this.#context = live.context;
  }

  /** Runs a session, and resolves with its result. */
  async run(agent: Agent, options: RunOptions): Promise<RunResult> {
    return (await this.start(agent, options)).result();
  }

  /** Runs a session, and resolves with a handle when its branch is claimed. */
  async start(agent: Agent, options: RunOptions): Promise<RunHandle> {
    const request = parseRunOptions(options, this.#context.registry);
    const limited = withLimits(checkAgent(agent), options.limits);
    const unlisten = request.onEvent ? this.#listen(request, request.onEvent) : () => {};
    try {
      const started = await this.#start(limited, request);
      return this.#handle(request, this.#finish(limited, request, started).finally(unlisten));
    } catch (error) {
      unlisten();
      throw error;
    }
  }

  /** Opens a turn for an external loop. */
  async open(options: OpenRunOptions): Promise<OpenRun> {
    const request = parseOpenRunOptions(options, this.#context.registry);
    const { session, branch } = request;
    this.live.checkOpen();
    const reader = this.#reader(session);
    const owner = request.agent ?? (await reader.heads(branch)).session?.record.agent ?? DEFAULT_AGENT;
    if (this.live.has(session, branch)) throw alreadyOpen(session, branch);
    const agent = new OpenAgent(owner, request.initial, request.receive);
    let finished: FinishedOpenRun | undefined;
    const target = { reader, branch, agent: agent.agent, input: undefined, key: request.key };
    const started = await this.live.start(target, async (work) => {
      const opened = await claimOpenTurn(work, request);
      if ("claim" in opened) return opened;
      finished = await FinishedOpenRun.read(reader, branch, opened.number, opened.finished);
      return { result: finished.finished };
    });
    if (finished) return finished;
    if (!("finished" in started)) throw sessionToStartNotFound(session);
    return LiveOpenRun.create(agent, started.execution);
  }

  /** Recovers all runs of these agents that are interrupted or ready, and returns their handles. */
  async recover(agents: readonly Agent[], options: RecoverOptions = {}): Promise<RunHandle[]> {
    const byName = new Map(parseAgents(agents, "sp.recover").map((agent) => [agent.name, agent]));
    const { store } = this.#context;
    const handles: RunHandle[] = [];
    const now = await store.now();
    await deleteExpiredOwners(store, now);
    for await (const record of scan(store, ALL_QUEUE_ENTRIES)) {
      const { session, branch } = parseQueueEntryKey(record.key);
      if (!("value" in record)) {
        new SessionReader(this.#context, session).reportDamage(undefined, undefined, record.unreadable);
        continue;
      }
      const { agent: name, readyAt, external } = decodeQueueEntry(record.value);
      const agent = byName.get(name);
      const isReady = readyAt !== null && readyAt <= now;
      if (!agent || external || !isReady || this.live.has(session, branch)) continue;
      const handle = await this.#recoverOne(agent, toResumeRequest(session, branch, options));
      if (handle) handles.push(handle);
    }
    return handles;
  }

  async #recoverOne(agent: Agent, request: RunRequest): Promise<RunHandle | undefined> {
    try {
      const started = await this.#start(agent, request);
      if (!("finished" in started)) return undefined;
      return this.#handle(request, this.#finish(agent, request, started));
    } catch (error) {
      if (!(error instanceof SavepointError) || isStoreFailure(error)) throw error;
      // An error of one session does not prevent the recovery of the others.
      if (!SKIPPED.has(error.code)) {
        const message = `session ${JSON.stringify(request.session)} could not be recovered`;
        this.#context.events.emit("backgroundFailure", { message, error });
      }
      return undefined;
    }
  }

  /**
   * Resumes work that a worker has found in the queue.
   *
   * @returns `"nothing"` if there is nothing to do, `"not yet"` if it still waits, `"not mine"` if its agent is not one of
   *   these, `undefined` if another process runs it
   */
  async resumeScheduled(
    agents: ReadonlyMap<string, Agent>,
    session: string,
    branch: string,
  ): Promise<RunHandle | "nothing" | "not yet" | "not mine" | undefined> {
    const [record] = await this.#context.store.get([queueEntryKey(session, branch)]);
    if (!record) return "nothing";
    if (!("value" in record)) {
      throw new SavepointError(
        "DAMAGED",
        `The queue entry of session ${JSON.stringify(session)} is damaged. Run \`savepoint repair\`.`,
      );
    }
    const agent = agents.get(decodeQueueEntry(record.value).agent);
    if (!agent) return "not mine";
    const request = toResumeRequest(session, branch);
    try {
      const started = await this.#start(agent, request);
      // A clock may have been set back since the work was found to be ready.
      if (!("finished" in started)) return started.result?.status === "waiting" ? "not yet" : "nothing";
      return this.#handle(request, this.#finish(agent, request, started));
    } catch (error) {
      if (error instanceof SavepointError && SKIPPED.has(error.code)) return undefined;
      throw error;
    }
  }

  /** Enqueues a new session for a worker. */
  async enqueue(agent: string, options: EnqueueOptions): Promise<boolean> {
    const value: unknown = options;
    if (typeof value !== "object" || value === null) {
      throw invalidArgument("sp.enqueue() needs options with a session id: sp.enqueue(agent, { session, input }).");
    }
    checkId(options.session, "session id");
    if (!("input" in options)) {
      throw invalidArgument("sp.enqueue() needs an input: sp.enqueue(agent, { session, input }).");
    }
    return enqueue(this.#reader(options.session), this.live.cursors.numbers, agent, options);
  }

  /** Queues an input for a session. */
  async send(session: string, input: unknown, options: { key?: string; branch?: string } = {}): Promise<boolean> {
    validateOptions(options, "sp.send");
    const reader = this.#reader(session);
    if (options.key !== undefined) checkId(options.key, "key");
    const encoded = encodeInput(input, this.#context.registry);
    return sendInput(reader, parseBranchName(options.branch), encoded, options.key);
  }

  /** Answers a question of a run. */
  async answer(session: string, value: unknown, options: { question?: string; branch?: string } = {}): Promise<void> {
    validateOptions(options, "sp.answer");
    await recordAnswer(this.#reader(session), parseBranchName(options.branch), value, options.question);
  }

  /** Cancels a run, in whatever process it is. @returns `false` if there was nothing to cancel */
  async cancel(session: string, reason = "cancelled", options: { branch?: string } = {}): Promise<boolean> {
    validateOptions(options, "sp.cancel");
    const branch = parseBranchName(options.branch);
    const live = this.live.get(checkId(session, "session id"), branch);
    if (live) await Promise.race([live.started.catch(() => {}), sleep(START_GRACE, undefined, { ref: false })]);
    if (await live?.execution?.cancel(reason)) return true;
    const reader = this.#reader(session);
    const outcome = await requestCancel(reader, branch, reason, () => this.#selfFor(session, branch));
    // The run may have started in this process since.
    const execution = this.live.get(session, branch)?.execution;
    if (outcome === "requested" && execution) {
      await this.live.checkOwnership();
      await execution.finished.catch(() => {});
    }
    return outcome !== "over";
  }

  /** Schedules an ended or interrupted run for a worker. @returns `false` if it needs none */
  async requeue(session: string, options: { branch?: string } = {}): Promise<boolean> {
    validateOptions(options, "sp.requeue");
    const branch = parseBranchName(options.branch);
    this.live.checkOpen();
    return requeueRun(this.#reader(session), branch, () => this.#selfFor(session, branch));
  }

  /** Releases a branch whose owner has ended. Throws `ALREADY_RUNNING` if it has not. */
  async release(reader: SessionReader, branch: string): Promise<void> {
    await releaseBranch(reader, branch, { self: () => this.#selfFor(reader.sessionId, branch) });
  }

  /** The owner id with which a branch is released; `undefined` if it still runs here. */
  #selfFor(session: string, branch: string): string | undefined {
    return this.live.has(session, branch) ? undefined : this.live.owner;
  }

  /** Joins the run of a branch, or starts one. */
  async #start(agent: Agent, request: RunRequest): Promise<StartedRun> {
    this.live.checkOpen();
    const { session, branch, input, key } = request;
    const scope = currentScope.getStore();
    if (scope?.session === session && scope.branch === branch) throw recursiveRun(session, branch);
    const live = this.live.get(session, branch);
    if (live) return this.live.join(live, agent, request);
    const target = { reader: this.#reader(session), branch, agent, input, key };
    return this.live.start(target, (work) => claimRun(work, request));
  }

  /** Waits for the result: until earlier inputs are completed and, if requested, until the run no longer waits. */
  async #finish(agent: Agent, request: RunRequest, first: StartedRun): Promise<RunResult> {
    const { session, branch } = request;
    // A step is restarted, and an ended run resumed, at most once.
    const again = { ...request, restartStep: false, resume: false };
    for (let started = first; ; started = await this.#start(agent, again)) {
      const result = "finished" in started ? await started.finished : started.result;
      if (!result) throw sessionToStartNotFound(session);
      const isEarlierInput = "finished" in started && !isTurnOf(started.execution, request);
      if (isEarlierInput && result.status === "completed") continue;
      if (!request.wait || result.status !== "waiting") return result;
      await waitForChange(this.#reader(session), branch, result.wakeAt, () => this.live.checkOpen());
    }
  }

  /** Calls a listener with the events of the run of a branch. Returns the function that ends that. */
  #listen(
    { session, branch }: RunRequest,
    listener: (event: RunEvent) => void,
    accepts: (event: RunEvent) => boolean = () => true,
  ): () => void {
    // A function of its own for each call: a caller may pass the same listener to several runs.
    const own = (event: RunEvent): void => listener(event);
    return this.#context.events.on(
      "run",
      own,
      (event) => event.sessionId === session && event.branch === branch && accepts(event),
    );
  }

  #handle(request: RunRequest, finished: Promise<RunResult>): RunHandle {
    const { session, branch } = request;
    let isRequested = false;
    // A caller that does not request the result must not get an unhandled rejection.
    finished.catch((error: unknown) => {
      if (isRequested || EXPECTED_ENDS.some((code) => isSavepointError(error, code))) return;
      const message = `the run of session ${JSON.stringify(session)} has ended with an error, and its result was not requested`;
      this.#context.events.emit("backgroundFailure", { message, error });
    });
    return {
      session,
      branch,
      result: () => {
        isRequested = true;
        return finished;
      },
      cancel: async (reason) => {
        await this.cancel(session, reason, { branch });
        await finished.catch(() => {});
      },
      on: (type, listener) =>
        this.#listen(
          request,
          (event) => listener(event as Parameters<typeof listener>[0]),
          (event) => event.type === type,
        ),
    };
  }

  #reader(session: string): SessionReader {
    return new SessionReader(this.#context, checkId(session, "session id"));
  }
}

/** Returns whether an execution worked on the input of a request, and not on one that was queued before it. */
function isTurnOf(execution: Execution, { input, key }: RunRequest): boolean {
  if (input === undefined || !execution.agent.definition.receive) return true;
  if (key !== undefined) return execution.run.key === key;
  return execution.run.input === "" || execution.run.input === hashText(input);
}

/** Deletes the records of owners that ended long ago and hold no branch. By those that do, their branches are found. */
async function deleteExpiredOwners(store: Store, now: number): Promise<void> {
  for await (const record of scan(store, ALL_OWNERS)) {
    const { key } = record;
    if (!("value" in record) || decodeOwner(record.value).until > now - KEEP_OWNERS_FOR) continue;
    const [held] = await store.list(ownedBy(key.slice(ownerKey("").length)), { limit: 1 });
    // In a conflict the owner is alive after all, or another process has deleted the record.
    if (!held) await unlessConflict(store.commit({ checks: [{ key, value: record.value }], deletes: [key] }));
  }
}

function alreadyOpen(session: string, branch: string): SavepointError {
  return new SavepointError(
    "ALREADY_RUNNING",
    `${describeBranch(session, branch)} is being run by this process. End that run first with complete(), fail() or release(), even if its loop has thrown.`,
    { details: { sessionId: session, branch } },
  );
}
