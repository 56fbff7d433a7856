/**
 * The runs of this process, from before their branches are claimed until they have ended. A branch has at most one run here:
 * a second caller joins it.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { isSavepointError, SavepointError } from "../../errors.js";
import type { Context } from "../../context.js";
import type { Cursors } from "../../sessions/index.js";
import { decodeJournal, journalKey } from "../../records/index.js";
import type { RunErrorEvent, RunEvent, RunEventBody, RunEventType } from "../../events/index.js";
import { shadowToValue, valueToShadow } from "../../state/index.js";
import type { Agent } from "../agent/index.js";
import { type ClaimOrResult, inputMismatch } from "../starting/index.js";
import { hashText } from "../journal/index.js";
import { Execution, type ExecutionHost } from "../engine/index.js";
import { Leases, type StoreAddress } from "../leases/index.js";
import { type BranchWork, releaseBranch, type TurnRequest } from "../claims/index.js";
import type { OwnerRuns, RunResult } from "../status/index.js";

/** How long a close or a cancel waits for a run that is about to start, in milliseconds. */
export const START_GRACE = 1000;
/** How often the ownership of all runs is checked, in milliseconds. */
const CHECK_INTERVAL = 1000;

/** The branch that a run works on, and the turn that it was started for. */
export interface RunTarget
  extends Pick<BranchWork, "agent" | "reader" | "branch">, Pick<TurnRequest, "input" | "key"> {}

/** A run of this process. */
export interface LiveRun extends RunTarget {
  /** Resolves when the branch is claimed, or there is nothing to do. */
  readonly started: Promise<StartedRun>;
  /** Set when the branch is claimed. */
  execution: Execution | undefined;
}

/** An execution and its future result; or the stored result, if there is nothing to do. */
export type StartedRun =
  | { readonly finished: Promise<RunResult>; readonly execution: Execution }
  | { readonly result: RunResult | undefined };

/** Receives the events of runs before the listeners of the Savepoint do: a worker. */
export interface RunObserver {
  onEvent(event: RunEvent): void;
  onError(event: RunErrorEvent): void;
  /** Returns whether it passes events of this type on, so that they need not be printed. */
  hears(type: RunEventType | "runError"): boolean;
}

export class LiveRuns implements OwnerRuns, ExecutionHost {
  readonly context: Context;
  readonly cursors: Cursors;
  readonly leases: Leases;
  readonly #observer: RunObserver | undefined;
  readonly #runs = new Map<string, LiveRun>();
  #timer: NodeJS.Timeout | undefined;
  #isChecking = false;
  #isClosed = false;

  /**
   * @param lease the length of the leases, in milliseconds
   * @param address how another thread can open the store; `undefined` if it cannot
   * @param observer receives all events of these runs
   */
  constructor(
    context: Context,
    cursors: Cursors,
    lease: number,
    address: StoreAddress | undefined,
    observer?: RunObserver,
  ) {
    this.context = context;
    this.cursors = cursors;
    this.leases = new Leases(context, lease, this, address);
    this.#observer = observer;
  }

  /** The number of runs, including those that are about to start. */
  get size(): number {
    return this.#runs.size;
  }

  /** See {@link ExecutionHost.isWorker}. */
  get isWorker(): boolean {
    return this.#observer !== undefined;
  }

  /** The owner id of their leases. */
  get owner(): string {
    return this.leases.owner;
  }

  has(session: string, branch: string): boolean {
    return this.#runs.has(branchMapKey(session, branch));
  }

  get(session: string, branch: string): LiveRun | undefined {
    return this.#runs.get(branchMapKey(session, branch));
  }

  checkOpen(): void {
    if (!this.#isClosed) return;
    throw new SavepointError("CLOSED", "This Savepoint is closed. Open it again with Savepoint.open().");
  }

  emit(sessionId: string, branch: string, event: RunEventBody): void {
    this.#observer?.onEvent({ ...event, sessionId, branch });
    const { events } = this.context;
    if (!events.has("run") && event.type !== "retry") return;
    events.emit("run", { ...event, sessionId, branch }, this.#observer?.hears(event.type));
  }

  emitError(event: RunErrorEvent): void {
    this.#observer?.onError(event);
    this.context.events.emit("runError", event, this.#observer?.hears("runError"));
  }

  /**
   * Starts a run. It is registered before this call returns, so that calls in the meantime join it.
   *
   * @param claim claims the branch, or finds that there is nothing to do
   */
  start(target: RunTarget, claim: (work: BranchWork) => Promise<ClaimOrResult>): Promise<StartedRun> {
    const run: LiveRun = {
      ...target,
      started: Promise.resolve().then(() => this.#execute(run, claim)),
      execution: undefined,
    };
    run.started.catch(() => {});
    this.#runs.set(keyOf(run), run);
    this.#timer ??= setInterval(() => this.#checkInBackground(), CHECK_INTERVAL).unref();
    return run.started;
  }

  async #execute(run: LiveRun, claim: (work: BranchWork) => Promise<ClaimOrResult>): Promise<StartedRun> {
    const { agent, reader, branch } = run;
    const { leases, cursors } = this;
    try {
      const claimed = await claim({ agent, reader, branch, leases, cursor: cursors.get(reader, branch) });
      if (!("claim" in claimed)) {
        this.#remove(run);
        return claimed;
      }
      if (this.#isClosed) {
        // Too late: another process resumes it.
        await releaseBranch(reader, branch, { self: () => leases.owner, isUnfinished: true });
        this.checkOpen();
      }
      leases.hold();
      const execution = new Execution(this, reader, branch, agent, claimed);
      run.execution = execution;
      const { finished } = execution;
      const end = (error?: unknown): void => {
        this.#remove(run);
        // Otherwise the branch may still be held in the store. The lease stays, so that this does not count as a crash.
        if (!isMaybeHeld(error)) leases.release();
      };
      finished.then(() => end(), end);
      return { finished, execution };
    } catch (error) {
      this.#remove(run);
      throw error;
    }
  }

  #remove(run: LiveRun): void {
    const key = keyOf(run);
    if (this.#runs.get(key) === run) this.#runs.delete(key);
    if (this.#runs.size > 0) return;
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  /** Joins a run of this process. Throws if its agent or its input is another one. */
  async join(run: LiveRun, agent: Agent, { input, key }: Pick<TurnRequest, "input" | "key">): Promise<StartedRun> {
    const { branch } = run;
    const { sessionId } = run.reader;
    if (run.agent.name !== agent.name) {
      throw new SavepointError(
        "AGENT_MISMATCH",
        `Session ${JSON.stringify(sessionId)} is being run by agent ${JSON.stringify(run.agent.name)}, not ${JSON.stringify(agent.name)}.`,
      );
    }
    const started = await run.started;
    const current = run.execution?.run.input ?? (run.input === undefined ? undefined : hashText(run.input));
    const isSame = input === undefined || current === undefined || current === "" || current === hashText(input);
    if (!isSame || (key !== undefined && run.key !== undefined && key !== run.key)) {
      throw inputMismatch(sessionId, branch);
    }
    if (!("finished" in started)) return started;
    // Each caller gets a copy of the state.
    const { registry } = this.context;
    const finished = started.finished.then((result) => {
      return { ...result, state: shadowToValue(valueToShadow(result.state, registry), registry) };
    });
    return { ...started, finished };
  }

  #checkInBackground(): void {
    if (this.#isChecking) return;
    this.#isChecking = true;
    void this.checkOwnership()
      .catch((error: unknown) => {
        const message = "the journals of the runs of this process could not be read";
        this.context.events.emit("backgroundFailure", { message, error });
      })
      .finally(() => (this.#isChecking = false));
  }

  /** Stops the runs that were cancelled, or whose branch another process has claimed. One read for all runs. */
  async checkOwnership(): Promise<void> {
    const running = [...this.#runs.values()].flatMap(({ reader, branch, execution }) =>
      execution ? [{ key: journalKey(reader.sessionId, branch), execution }] : [],
    );
    if (running.length === 0 || this.#isClosed) return;
    const records = await this.context.store.get(running.map(({ key }) => key));
    for (const [index, { execution }] of running.entries()) {
      const record = records[index];
      // The next write reports a damaged record.
      if (record && !("value" in record)) continue;
      execution.checkRecord(record && decodeJournal(record.value));
    }
  }

  /** Stops all runs, so that other processes can resume them immediately. */
  async close(): Promise<void> {
    this.#isClosed = true;
    clearInterval(this.#timer);
    const runs = [...this.#runs.values()];
    // A run that is still being claimed after the grace period is released when it is claimed.
    const started = Promise.all(runs.map((run) => run.started.catch(() => {})));
    await Promise.race([started, sleep(START_GRACE, undefined, { ref: false })]);
    await Promise.all(runs.flatMap(({ execution }) => (execution ? [execution.close()] : [])));
    await this.leases.close();
  }

  /** Lets all runs finish their current step, and releases them. After the grace period they are released as they are. */
  async drain(grace: number): Promise<void> {
    const runs = [...this.#runs.values()];
    const drained = Promise.all(runs.map((run) => run.started.catch(() => {}).then(() => run.execution?.drain())));
    await Promise.race([drained, sleep(grace, undefined, { ref: false })]);
    await this.close();
  }
}

/** The key of a branch in a map of branches of all sessions. */
export function branchMapKey(session: string, branch: string): string {
  return `${session}\t${branch}`;
}

function keyOf({ reader, branch }: RunTarget): string {
  return branchMapKey(reader.sessionId, branch);
}

/** Returns whether a run has ended with an error after which its branch may still be held in the store. */
function isMaybeHeld(error: unknown): boolean {
  return isSavepointError(error, "LEASE_LOST") || isStoreFailure(error);
}

const STORE_FAILURES = ["ACCESS_DENIED", "BUSY", "CLOSED", "IO_FAILED", "STORE_FAILED", "UNAVAILABLE"] as const;

/** Returns whether an error is a failure of the store, which other sessions would get as well. */
export function isStoreFailure(error: unknown): boolean {
  return STORE_FAILURES.some((code) => isSavepointError(error, code));
}
