/**
 * The registration of processes that have a store open, which detects crashes.
 *
 * A process registers itself with its first commit and removes the registration when it closes the store. A
 * registration of a dead process therefore means that the process crashed. The cost is one small record per process.
 */
import { randomBytes } from "node:crypto";
import { isSavepointError } from "../errors.js";
import { type Commit, type CommitResult, overrideStore, scan, type Store } from "../store/index.js";
import { isCertainlyDead, type ProcessIdentity, thisProcess } from "../util/index.js";
import { ALL_OPEN_PROCESSES, openProcessKey } from "../records/index.js";

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
  readonly #key = openProcessKey(randomBytes(9).toString("base64url"));
  #isRegistered = false;
  /** Whether the registration may be stored. A commit that failed may have been written. */
  #mayExist = false;

  constructor(target: Store) {
    this.#target = target;
    this.store = overrideStore(target, { commit: (commit) => this.#commit(commit) });
  }

  /** Removes the registration. Call it before the store is closed. */
  async remove(): Promise<void> {
    if (this.#mayExist) await this.#target.commit({ deletes: [this.#key] });
  }

  #commit(commit: Commit): Promise<CommitResult> {
    return this.#isRegistered ? this.#target.commit(commit) : this.#register(commit);
  }

  /** Commits and registers the process in one commit. */
  async #register(commit: Commit): Promise<CommitResult> {
    const registration: OpenProcess = { since: Date.now(), process: thisProcess() };
    const puts = [...(commit.puts ?? []), { key: this.#key, value: JSON.stringify(registration) }];
    // Set before the commit resolves, so that concurrent commits do not register again.
    this.#isRegistered = true;
    const mayHaveExisted = this.#mayExist;
    this.#mayExist = true;
    try {
      return await this.#target.commit({ ...commit, puts });
    } catch (error) {
      this.#isRegistered = false;
      // After these errors nothing was written.
      if (isSavepointError(error, "BUSY") || isSavepointError(error, "CONFLICT")) this.#mayExist = mayHaveExisted;
      throw error;
    }
  }
}

/** The processes that crashed with the store open, and the keys of their registrations. */
export async function findCrashedProcesses(
  store: Store,
): Promise<{ processes: CrashedProcess[]; registrations: string[] }> {
  const processes: CrashedProcess[] = [];
  const registrations: string[] = [];
  for await (const record of scan(store, ALL_OPEN_PROCESSES)) {
    if (!("value" in record)) continue;
    const { since, process } = JSON.parse(record.value) as OpenProcess;
    if (!isDead(process)) continue;
    processes.push({ host: process.host, pid: process.pid, since });
    registrations.push(record.key);
  }
  return { processes, registrations };
}

/** Whether a process has certainly ended. A restart of the machine ends all its processes. */
function isDead(process: ProcessIdentity): boolean {
  const own = thisProcess();
  const isRestarted = process.host === own.host && process.boot !== undefined && process.boot !== own.boot;
  return isRestarted || isCertainlyDead(process);
}
