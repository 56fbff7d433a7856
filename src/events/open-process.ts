/**
 * The registration of processes that have a store open, which detects crashes.
 *
 * A process registers itself with its first commit and removes the registration when it closes the store, or, if the store can
 * write synchronously, when it exits without a run in progress. A registration of a dead process therefore means that the
 * process crashed. The cost is one small record per process.
 *
 * Opening a store writes nothing: the process that has reported a crash deletes the registration with its first commit, or when
 * it removes its own. If it crashes before that, the next process reports both.
 */
import { randomBytes } from "node:crypto";
import { isSavepointError, type SavepointErrorCode } from "../errors.js";
import { type Commit, type CommitResult, overrideStore, type RecordResult, type Store } from "../store/index.js";
import { describeProcess, isCertainlyDead, type ProcessIdentity, thisProcess } from "../util/index.js";
import { openProcessKey } from "../records/index.js";

/** A process that ended without closing the store. */
export interface CrashedProcess {
  readonly host: string;
  readonly pid: number;
  /** When the process first wrote to the store, in milliseconds since 1970. */
  readonly since: number;
}

/** A run whose process crashed. `sp.recover()` resumes it. */
export interface InterruptedRun {
  readonly sessionId: string;
  readonly branch: string;
}

/** How the store was closed by the processes that had it open before. */
export interface LastShutdown {
  /** Whether every process that ended closed the store. */
  readonly clean: boolean;
  /** The processes that crashed. Each is reported once. */
  readonly processes: readonly CrashedProcess[];
  /** All interrupted runs; empty after a clean shutdown. */
  readonly interrupted: readonly InterruptedRun[];
}

interface OpenProcess {
  readonly since: number;
  readonly process: ProcessIdentity;
}

/** The registration of this process in one store. */
export class ProcessRegistration {
  /** The store to use. The first commit to it registers the process. */
  readonly store: Store;
  readonly #target: Store;
  /** The key of the registration. */
  readonly key = openProcessKey(randomBytes(9).toString("base64url"));
  #isRegistered = false;
  /** Whether the registration may be stored. A commit that failed may have been written. */
  #mayExist = false;
  /** The registrations of crashed processes, until they are deleted. */
  #reported: readonly string[] = [];

  /** Whether no run of this process is in progress. Until it is set, a process that does not close the store counts as crashed. */
  isIdle: () => boolean = () => false;

  constructor(target: Store) {
    this.#target = target;
    this.store = overrideStore(target, { commit: (commit) => this.#commit(commit) });
  }

  /** Deletes the registrations of crashed processes that were reported: with the first commit, or when this one is removed. */
  deleteReported(registrations: readonly string[]): void {
    this.#reported = registrations;
    if (registrations.length > 0) watchExit(this);
  }

  /** Removes the registration. Call it before the store is closed. */
  async remove(): Promise<void> {
    openRegistrations.delete(this);
    const deletes = [...(this.#mayExist ? [this.key] : []), ...this.#reported];
    if (deletes.length > 0) await this.#target.commit({ deletes });
  }

  /** Removes the registration of a process that exits and has not closed the store. */
  removeAtExit(): void {
    try {
      if (this.isIdle()) this.#target.commitAtExit?.({ deletes: [this.key, ...this.#reported] });
    } catch {
      // The registration stays: the next process that opens the store reports a crash.
    }
  }

  #commit(commit: Commit): Promise<CommitResult> {
    return this.#isRegistered ? this.#target.commit(commit) : this.#register(commit);
  }

  /** Commits and registers the process in one commit. */
  async #register(commit: Commit): Promise<CommitResult> {
    const registration: OpenProcess = { since: Date.now(), process: thisProcess() };
    const puts = [...(commit.puts ?? []), { key: this.key, value: JSON.stringify(registration) }];
    const deletes = [...(commit.deletes ?? []), ...this.#reported];
    // Set before the commit resolves, so that concurrent commits do not register again.
    this.#isRegistered = true;
    const mayHaveExisted = this.#mayExist;
    this.#mayExist = true;
    watchExit(this);
    try {
      const result = await this.#target.commit({ ...commit, puts, deletes });
      this.#reported = [];
      return result;
    } catch (error) {
      this.#isRegistered = false;
      // After these errors nothing was written.
      if (["BUSY", "CONFLICT", "KEY_REQUIRED"].some((code) => isSavepointError(error, code as SavepointErrorCode)))
        this.#mayExist = mayHaveExisted;
      throw error;
    }
  }
}

/** The registrations to remove when this process exits. */
const openRegistrations = new Set<ProcessRegistration>();
let isWatching = false;
let hasThrown = false;

/** Removes the registration when this process exits. A process that an uncaught error ends has crashed. */
function watchExit(registration: ProcessRegistration): void {
  openRegistrations.add(registration);
  if (isWatching) return;
  isWatching = true;
  process.on("uncaughtExceptionMonitor", () => (hasThrown = true));
  process.on("exit", (code) => {
    if (hasThrown && code !== 0) return;
    for (const each of openRegistrations) each.removeAtExit();
  });
}

/**
 * Finds the processes that crashed with the store open, and the keys of their registrations.
 *
 * @param pages the registrations of all open processes
 */
export async function findCrashedProcesses(
  pages: AsyncIterable<readonly RecordResult[]>,
): Promise<{ processes: CrashedProcess[]; registrations: string[] }> {
  const processes: CrashedProcess[] = [];
  const registrations: string[] = [];
  for await (const page of pages) {
    for (const record of page) {
      if (!("value" in record)) continue;
      const { since, process } = JSON.parse(record.value) as OpenProcess;
      if (!isDead(process)) continue;
      processes.push({ host: process.host, pid: process.pid, since });
      registrations.push(record.key);
    }
  }
  return { processes, registrations };
}

/** Describes another process that may have the store open; `undefined` if there is none. @param own the key of the own registration */
export async function findOtherProcess(
  pages: AsyncIterable<readonly RecordResult[]>,
  own: string | undefined,
): Promise<string | undefined> {
  for await (const page of pages) {
    for (const record of page) {
      if (record.key === own) continue;
      if (!("value" in record)) return "a process whose registration is damaged";
      const { process } = JSON.parse(record.value) as OpenProcess;
      if (!isDead(process)) return describeProcess(process);
    }
  }
  return undefined;
}

/** Whether a process has certainly ended. A restart of the machine ends all its processes. */
function isDead(process: ProcessIdentity): boolean {
  const own = thisProcess();
  const isRestarted = process.host === own.host && process.boot !== undefined && process.boot !== own.boot;
  return isRestarted || isCertainlyDead(process);
}
