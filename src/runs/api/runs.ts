/** The runs of a process: starts them, joins them, recovers those that others left, and passes on what is said to them. */
import { setTimeout as sleep } from "node:timers/promises";
import { isSavepointError, SavepointError } from "../../errors.js";
import type { Context } from "../../context.js";
import { type Cursors, describeBranch, SessionReader } from "../../sessions/index.js";
import {
  ALL_QUEUE_ENTRIES,
  ALL_OWNERS,
  checkId,
  decodeQueueEntry,
  decodeJournal,
  decodeOwner,
  queueEntryKey,
  journalKey,
  MAIN,
  ownedBy,
  ownerKey,
  parseQueueEntryKey,
} from "../../records/index.js";
import type { RunEvent, RunEventBody } from "../../events/index.js";
import { valueToShadow, shadowToValue } from "../../state/index.js";
import { scan } from "../../store/index.js";
import { type Agent, type OpenRun, type OpenRunOptions, withLimits } from "../agent/index.js";
import { sendInput, recordAnswer, requestCancel } from "../inbox/index.js";
import {
  claimRun,
  type ClaimOrResult,
  checkAgent,
  enqueue,
  type EnqueueOptions,
  recursiveRun,
  inputMismatch,
  sessionToStartNotFound,
  claimOpenTurn,
  type RecoverOptions,
  type TurnRequirements,
  type RunOptions,
  parseAgents,
  parseBranchName,
  encodeInput,
  parseOpenRunOptions,
  parseRunOptions,
  type RunRequest,
} from "../starting/index.js";
import { hashText } from "../journal/index.js";
import { Execution, currentScope } from "../engine/index.js";
import { createHandle, type RunHandle } from "./handle.js";
import { isStoreFailure, Leases, type StoreAddress } from "../leases/index.js";
import { endedError, FinishedOpenRun, LiveOpenRun, OpenAgent } from "../external/index.js";
import { releaseBranch, type BranchWork } from "../claims/index.js";
import type { RunResult } from "../status/index.js";
import { waitForChange } from "./watch.js";

/** How long runs that are about to begin are waited for when the store is closed, in milliseconds. */
const GRACE = 1000;
/** How often runs look whether they may go on, in milliseconds. */
const LOOK_EVERY = 1000;
/** Records of processes that ended are kept for a day, in case their clock was wrong. */
const FORGET_OWNER_AFTER = 86_400_000;

/** A run of this process, from before it is claimed. */
interface Live {
  readonly agent: string;
  readonly input: string | undefined;
  readonly key: string | undefined;
  readonly started: Promise<Started>;
  execution: Execution | undefined;
}

/** A run that is under way, or how it stands where there is nothing to do. */
type Started =
  | { readonly finished: Promise<RunResult>; readonly execution: Execution }
  | { readonly result: RunResult | undefined };

export class Runs {
  readonly #context: Context;
  readonly #cursors: Cursors;
  readonly #leases: Leases;
  readonly #onEvent: ((event: RunEvent) => void) | undefined;
  readonly #live = new Map<string, Live>();
  #looking: NodeJS.Timeout | undefined;
  #isLooking = false;
  #closed = false;

  /**
   * @param reopening how another thread can open the store, if it can
   * @param onEvent told what happens in these runs
   */
  constructor(
    context: Context,
    cursors: Cursors,
    lease: number,
    reopening: StoreAddress | undefined,
    onEvent?: (event: RunEvent) => void,
  ) {
    this.#context = context;
    this.#cursors = cursors;
    const live = this.#live;
    const runs = { has: (session: string, branch: string) => live.has(branchMapKey(session, branch)) };
    this.#leases = new Leases(context, lease, runs, reopening);
    this.#onEvent = onEvent;
  }

  /** How many there are. */
  get size(): number {
    return this.#live.size;
  }

  /** The leases that these runs have. */
  get owner(): string {
    return this.#leases.owner;
  }

  has(session: string, branch: string): boolean {
    return this.#live.has(branchMapKey(session, branch));
  }

  async run(given: Agent, options: RunOptions): Promise<RunResult> {
    const wanted = parseRunOptions(options);
    const agent = withLimits(checkAgent(given), wanted.limits);
    const unlisten = this.#listen(wanted);
    try {
      return await this.#finish(agent, wanted, await this.#start(agent, wanted));
    } finally {
      unlisten();
    }
  }

  async start(given: Agent, options: RunOptions): Promise<RunHandle> {
    const wanted = parseRunOptions(options);
    const agent = withLimits(checkAgent(given), wanted.limits);
    const unlisten = this.#listen(wanted);
    try {
      const started = await this.#start(agent, wanted);
      const finished = this.#finish(agent, wanted, started).finally(unlisten);
      return this.#handle(wanted.session, wanted.branch ?? MAIN, finished);
    } catch (error) {
      unlisten();
      throw error;
    }
  }

  /** Holds a run open for a loop outside. */
  async open(options: OpenRunOptions): Promise<OpenRun> {
    const { session, branch, agent: named, turn, abandon, initial } = parseOpenRunOptions(options);
    this.#checkOpen();
    const reader = this.#reader(session);
    const owner = named ?? (await reader.heads(branch)).session?.record.agent ?? DEFAULT_AGENT;
    if (this.#live.has(branchMapKey(session, branch))) throw openAlready(session, branch);
    const outside = new OpenAgent(owner, initial);
    let finished: FinishedOpenRun | undefined;
    const started = await this.#begin(reader, branch, outside.agent, { input: undefined, key: turn }, async (work) => {
      const opened = await claimOpenTurn(work, { turn, abandon });
      if ("claim" in opened) return opened;
      finished = await FinishedOpenRun.read(reader, branch, opened.number, opened.finished);
      return { result: finished.finished };
    });
    if (finished) return finished;
    if (!("finished" in started)) throw sessionToStartNotFound(session);
    // It may end before its step is called.
    const ended = started.finished.then((result) => {
      throw endedError(result);
    });
    return new LiveOpenRun(await Promise.race([outside.stepStarted, ended]), started.execution);
  }

  /** Tells whoever wants to know what happens in a run. Returns the function that ends that. */
  #listen({ session, branch = MAIN, onEvent }: RunRequest): () => void {
    if (!onEvent) return () => {};
    return this.#context.events.on("run", (event) => {
      if (event.sessionId === session && event.branch === branch) onEvent(event);
    });
  }

  /** How it ends: after inputs that were left before this one, and after waiting, if that is wanted. */
  async #finish(agent: Agent, wanted: RunRequest, first: Started): Promise<RunResult> {
    const { session, branch = MAIN } = wanted;
    const reader = this.#reader(session);
    // Begun anew, or taken up again, once.
    const again = { ...wanted, restartStep: false, resume: false };
    for (let started = first; ; started = await this.#start(agent, again)) {
      const result = "finished" in started ? await started.finished : started.result;
      if (!result) throw sessionToStartNotFound(session);
      const another = "finished" in started && !isTurnOf(started.execution, wanted, reader);
      if (another && result.status === "completed") continue;
      if (!wanted.wait || result.status !== "waiting") return result;
      await waitForChange(this.#context, reader, branch, result.wakeAt, () => this.#checkOpen());
    }
  }

  /** Takes what is interrupted or due, and starts it. */
  async recover(agents: readonly Agent[], options: RecoverOptions = {}): Promise<RunHandle[]> {
    const byName = new Map(parseAgents(agents, "sp.recover").map((agent) => [agent.name, agent]));
    const handles: RunHandle[] = [];
    const now = await this.#context.store.now();
    await this.#forgetOwners(now);
    for await (const record of scan(this.#context.store, ALL_QUEUE_ENTRIES)) {
      const { session, branch } = parseQueueEntryKey(record.key);
      if (!("value" in record)) {
        new SessionReader(this.#context, session).reportDamage(undefined, undefined, record.unreadable);
        continue;
      }
      const { agent: name, readyAt, external } = decodeQueueEntry(record.value);
      const agent = byName.get(name);
      if (!agent || external || readyAt === null || readyAt > now || this.#live.has(branchMapKey(session, branch)))
        continue;
      const handle = await this.#recoverOne(agent, session, branch, options);
      if (handle) handles.push(handle);
    }
    return handles;
  }

  /**
   * Goes on with what somebody has found to be due; `"nothing"` where there is nothing to do, `"not yet"` where it still
   * waits, `"not mine"` where it is of an agent that is not among these, `undefined` where somebody else does it.
   */
  async resumeScheduled(
    agents: ReadonlyMap<string, Agent>,
    session: string,
    branch: string,
  ): Promise<RunHandle | "nothing" | "not yet" | "not mine" | undefined> {
    const [record] = await this.#context.store.get([queueEntryKey(session, branch)]);
    if (!record) return "nothing";
    if (!("value" in record)) {
      throw new SavepointError("DAMAGED", `When session ${JSON.stringify(session)} is due is damaged.`);
    }
    const agent = agents.get(decodeQueueEntry(record.value).agent);
    if (!agent) return "not mine";
    const wanted: RunRequest = { session, branch, input: undefined };
    try {
      const started = await this.#start(agent, wanted);
      // Clocks may be set back: who was found to be awake may be asleep by now.
      if (!("finished" in started)) return started.result?.status === "waiting" ? "not yet" : "nothing";
      return this.#handle(session, branch, this.#finish(agent, wanted, started));
    } catch (error) {
      if (error instanceof SavepointError && SKIPPED.has(error.code)) return undefined;
      throw error;
    }
  }

  /** Leaves a session for whoever has time for it. */
  async enqueue(agent: string, { session, input, runAt, priority }: EnqueueOptions): Promise<boolean> {
    const reader = this.#reader(session);
    const task = { agent: checkId(agent, "name of an agent"), input: encodeInput(input, reader), runAt, priority };
    return enqueue(reader, this.#cursors.numbers, task);
  }

  async #recoverOne(
    agent: Agent,
    session: string,
    branch: string,
    options: RecoverOptions,
  ): Promise<RunHandle | undefined> {
    const wanted: RunRequest = { session, branch, input: undefined, ...options };
    try {
      const started = await this.#start(agent, wanted);
      if (!("finished" in started)) return undefined;
      return this.#handle(session, branch, this.#finish(agent, wanted, started));
    } catch (error) {
      if (!(error instanceof SavepointError) || isStoreFailure(error)) throw error;
      // The others are to go on all the same.
      if (!SKIPPED.has(error.code)) {
        const message = `session ${JSON.stringify(session)} could not be recovered`;
        this.#context.events.emit("backgroundFailure", { message, error });
      }
      return undefined;
    }
  }

  async send(session: string, input: unknown, options: { key?: string; branch?: string } = {}): Promise<boolean> {
    const reader = this.#reader(session);
    if (options.key !== undefined) checkId(options.key, "key");
    return sendInput(reader, parseBranchName(options.branch), encodeInput(input, reader), options.key);
  }

  async answer(session: string, value: unknown, options: { question?: string; branch?: string } = {}): Promise<void> {
    await recordAnswer(this.#reader(session), parseBranchName(options.branch), value, options.question);
  }

  /** @returns whether there was something to stop */
  async cancel(session: string, reason = "cancelled", options: { branch?: string } = {}): Promise<boolean> {
    const branch = parseBranchName(options.branch);
    const id = branchMapKey(session, branch);
    const live = this.#live.get(id);
    if (live) await Promise.race([live.started.catch(() => {}), sleep(GRACE, undefined, { ref: false })]);
    if (await live?.execution?.cancel(reason)) return true;
    const outcome = await requestCancel(this.#reader(session), branch, reason, () => this.#selfFor(id));
    // It has been started here since.
    const execution = this.#live.get(id)?.execution;
    if (outcome === "requested" && execution) {
      await this.#look();
      await execution.finished.catch(() => {});
    }
    return outcome !== "over";
  }

  /** Takes a branch from a run whose lease is over; `ALREADY_RUNNING` if it is not. */
  async release(reader: SessionReader, branch: string): Promise<void> {
    await releaseBranch(
      reader,
      branch,
      () => this.#selfFor(branchMapKey(reader.sessionId, branch)),
      () => ({}),
    );
  }

  /** The owner in whose name a branch is released: one that still runs here is not released. */
  #selfFor(id: string): string | undefined {
    return this.#live.has(id) ? undefined : this.#leases.owner;
  }

  /** Stops what runs here, so that others can go on with it at once. */
  async close(): Promise<void> {
    this.#closed = true;
    clearInterval(this.#looking);
    const live = [...this.#live.values()];
    // Who is still thinking about how to begin has not begun.
    const begun = Promise.all(live.map(({ started }) => started.catch(() => {})));
    await Promise.race([begun, sleep(GRACE, undefined, { ref: false })]);
    await Promise.all(live.flatMap(({ execution }) => (execution ? [execution.close()] : [])));
    await this.#leases.close();
  }

  /**
   * Begins nothing more, lets what runs here come to the end of a step, and hands it back; what takes longer than that is
   * handed back as it is.
   */
  async drain(grace: number): Promise<void> {
    const live = [...this.#live.values()];
    const over = Promise.all(live.map((each) => each.started.catch(() => {}).then(() => each.execution?.drain())));
    await Promise.race([over, sleep(grace, undefined, { ref: false })]);
    await this.close();
  }

  /** Joins the run of a branch, or begins one. */
  async #start(agent: Agent, wanted: RunRequest): Promise<Started> {
    this.#checkOpen();
    checkAgent(agent);
    const { session, key } = wanted;
    const branch = parseBranchName(wanted.branch);
    const from = currentScope.getStore();
    if (from?.session === session && from.branch === branch) throw recursiveRun(session, branch);
    const reader = this.#reader(session);
    if (key !== undefined) checkId(key, "key");
    const input = wanted.input && encodeInput(wanted.input.value, reader);
    const live = this.#live.get(branchMapKey(session, branch));
    if (live) return this.#join(live, agent, session, branch, input, key);
    const { restartStep = false, resume = false } = wanted;
    const request: TurnRequirements = { input, key, restartStep, resume };
    return this.#begin(reader, branch, agent, request, (work) => claimRun(work, request));
  }

  async #join(
    live: Live,
    agent: Agent,
    session: string,
    branch: string,
    input: string | undefined,
    key: string | undefined,
  ): Promise<Started> {
    if (live.agent !== agent.name) {
      throw new SavepointError(
        "AGENT_MISMATCH",
        `Session ${JSON.stringify(session)} is being run by agent ${JSON.stringify(live.agent)}, not ${JSON.stringify(agent.name)}.`,
      );
    }
    const started = await live.started;
    const known = live.execution?.run.input ?? (live.input === undefined ? undefined : hashText(live.input));
    const same = input === undefined || known === undefined || known === "" || known === hashText(input);
    if (!same || (key !== undefined && live.key !== undefined && key !== live.key)) {
      throw inputMismatch(session, branch);
    }
    if (!("finished" in started)) return started;
    // Each caller gets a state of its own.
    const finished = started.finished.then((result) => ({ ...result, state: this.#copy(result.state) }));
    return { ...started, finished };
  }

  #copy(state: unknown): unknown {
    const { registry } = this.#context;
    return shadowToValue(valueToShadow(state, registry), registry);
  }

  #begin(
    reader: SessionReader,
    branch: string,
    agent: Agent,
    { input, key }: Pick<TurnRequirements, "input" | "key">,
    take: (work: BranchWork) => Promise<ClaimOrResult>,
  ): Promise<Started> {
    const id = branchMapKey(reader.sessionId, branch);
    const forget = (): void => {
      if (this.#live.get(id) === live) this.#live.delete(id);
      if (this.#live.size === 0) clearInterval(this.#looking);
      if (this.#live.size === 0) this.#looking = undefined;
    };
    const work = async (): Promise<Started> => {
      let finished: Promise<RunResult> | undefined;
      try {
        const cursor = this.#cursors.get(reader, branch);
        const begun = await take({ agent, reader, branch, leases: this.#leases, cursor });
        if (!("claim" in begun)) return begun;
        if (this.#closed) {
          // Too late: others go on with it.
          await releaseBranch(
            reader,
            branch,
            () => this.#leases.owner,
            () => ({}),
            true,
          );
          this.#checkOpen();
        }
        this.#leases.hold();
        live.execution = new Execution(
          {
            cursors: this.#cursors,
            leases: this.#leases,
            emit: (of, name, event) => this.#emit(of.sessionId, name, event),
          },
          reader,
          branch,
          agent,
          begun.claim,
        );
        const over = (): void => {
          forget();
          this.#leases.release();
        };
        const { execution } = live;
        ({ finished } = execution);
        finished.then(over, (error: unknown) => {
          // Others have it now, or will. That this process is there they see by its lease: nobody has died over it.
          if (isLeft(error)) forget();
          else over();
        });
        return { finished, execution };
      } finally {
        if (!finished) forget();
      }
    };
    // A turn later, when it is known under its name: whoever comes meanwhile joins it.
    const live: Live = { agent: agent.name, input, key, started: Promise.resolve().then(work), execution: undefined };
    live.started.catch(() => {});
    this.#live.set(id, live);
    this.#looking ??= setInterval(() => this.#lookAround(), LOOK_EVERY).unref();
    return live.started;
  }

  /** Looks after what runs here, unless it is still at it. */
  #lookAround(): void {
    const report = (error: unknown): void =>
      this.#context.events.emit("backgroundFailure", { message: "runs could not be looked after", error });
    if (this.#isLooking) return;
    this.#isLooking = true;
    void this.#look()
      .catch(report)
      .finally(() => (this.#isLooking = false));
  }

  /** Has somebody taken over what runs here, or wants it stopped? */
  async #look(): Promise<void> {
    const running = [...this.#live].filter(([, { execution }]) => execution);
    const keys = running.map(([id]) => {
      const [session = "", branch = ""] = id.split("\t");
      return journalKey(session, branch);
    });
    if (keys.length === 0 || this.#closed) return;
    const records = await this.#context.store.get(keys);
    for (const [index, [, { execution }]] of running.entries()) {
      const record = records[index];
      // A damaged one is told by the next write.
      if (record && !("value" in record)) continue;
      execution?.checkRecord(record && decodeJournal(record.value));
    }
  }

  async #forgetOwners(now: number): Promise<void> {
    for await (const record of scan(this.#context.store, ALL_OWNERS)) {
      const { key } = record;
      if (!("value" in record) || decodeOwner(record.value).until > now - FORGET_OWNER_AFTER) continue;
      // By it others find what was left.
      const [left] = await this.#context.store.list(ownedBy(key.slice(ownerKey("").length)), { limit: 1 });
      if (left) continue;
      try {
        await this.#context.store.commit({ checks: [{ key, value: record.value }], deletes: [key] });
      } catch (error) {
        // It lives after all, or another process was faster.
        if (!isSavepointError(error, "CONFLICT")) throw error;
      }
    }
  }

  #handle(session: string, branch: string, finished: Promise<RunResult>): RunHandle {
    return createHandle(session, branch, finished, {
      cancel: (reason) => this.cancel(session, reason, { branch }),
      listen: (listener: (event: RunEvent) => void) => this.#context.events.on("run", listener),
    });
  }

  #emit(sessionId: string, branch: string, event: RunEventBody): void {
    this.#onEvent?.({ ...event, sessionId, branch });
    if (!this.#context.events.has("run")) return;
    this.#context.events.emit("run", { ...event, sessionId, branch });
  }

  #reader(session: string): SessionReader {
    return new SessionReader(this.#context, checkId(session, "session id"));
  }

  #checkOpen(): void {
    if (!this.#closed) return;
    throw new SavepointError("CLOSED", "This Savepoint is closed. Open it again with Savepoint.open().");
  }
}

/** Whose a session is that is opened without saying so. */
const DEFAULT_AGENT = "agent";

function openAlready(session: string, branch: string): SavepointError {
  return new SavepointError(
    "ALREADY_RUNNING",
    `${describeBranch(session, branch)} is being run by this very process. End that run first: complete(), fail() or release() it, also where its loop has thrown.`,
    { details: { sessionId: session, branch } },
  );
}

/** What recovering steps over: somebody else has it, or it is gone. */
const SKIPPED: ReadonlySet<string> = new Set([
  "ALREADY_RUNNING",
  "SESSION_DELETED",
  "AGENT_MISMATCH",
  "BRANCH_NOT_FOUND",
]);

/** Has a run ended that this process may not have let go of? */
function isLeft(error: unknown): boolean {
  return isSavepointError(error, "LEASE_LOST") || isStoreFailure(error);
}

/** Names a branch among those that are worked on. */
export function branchMapKey(session: string, branch: string): string {
  return `${session}\t${branch}`;
}

/** Was it this input that was worked on, and not one that was left before it? */
function isTurnOf(execution: Execution, { input, key }: RunRequest, reader: SessionReader): boolean {
  if (!input || !execution.agent.definition.receive) return true;
  if (key !== undefined) return execution.run.key === key;
  return execution.run.input === "" || execution.run.input === hashText(encodeInput(input.value, reader));
}
