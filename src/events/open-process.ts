/**
 * Which processes have written to a store and not closed it: one that is dead did not get to.
 *
 * A process notes itself in the first thing that it writes, and takes the note away when it closes the store. So whoever
 * opens a store learns whether anything was interrupted, whatever it was, at the price of one small record.
 */
import { randomBytes } from "node:crypto";
import { isSavepointError } from "../errors.js";
import { type Commit, type CommitResult, scan, type Store } from "../store/index.js";
import { isCertainlyDead, type ProcessIdentity, thisProcess } from "../util/index.js";
import { ALL_OPEN_PROCESSES, openProcessKey } from "../records/index.js";

/** A process that ended without closing the store. */
export interface CrashedProcess {
  readonly host: string;
  readonly pid: number;
  /** When it first wrote something, in milliseconds since 1970. */
  readonly since: number;
}

/** A run whose process is gone. `sp.recover()` goes on with it. */
export interface InterruptedRun {
  readonly sessionId: string;
  readonly branch: string;
}

export interface LastShutdown {
  /** Have all who had the store open closed it? */
  readonly clean: boolean;
  /** Those who have not, and are dead. Each is told once. */
  readonly processes: readonly CrashedProcess[];
  /** All runs that nobody goes on with; only looked for after a crash. */
  readonly interrupted: readonly InterruptedRun[];
}

interface OpenProcess {
  readonly since: number;
  readonly process: ProcessIdentity;
}

export class ProcessRegistration {
  readonly #store: Store;
  readonly #key = openProcessKey(randomBytes(9).toString("base64url"));
  #written = false;
  #tried = false;

  constructor(store: Store) {
    this.#store = store;
  }

  /** Commits, and notes the process along with the first commit. */
  async commit(commit: Commit): Promise<CommitResult> {
    if (this.#written) return this.#store.commit(commit);
    const note: OpenProcess = { since: Date.now(), process: thisProcess() };
    const puts = [...(commit.puts ?? []), { key: this.#key, value: JSON.stringify(note) }];
    // Before it is there: a second commit need not bring it as well. If this one fails, the next does.
    this.#written = true;
    const tried = this.#tried;
    this.#tried = true;
    try {
      return await this.#store.commit({ ...commit, puts });
    } catch (error) {
      this.#written = false;
      // Then nothing was written.
      if (isSavepointError(error, "BUSY") || isSavepointError(error, "CONFLICT")) this.#tried = tried;
      throw error;
    }
  }

  /** The store is closed in an orderly way. */
  async remove(): Promise<void> {
    // A write that failed may have been made all the same.
    if (this.#tried) await this.#store.commit({ deletes: [this.#key] });
  }
}

/** The processes that died with the store open, and the keys of their notes: once they are told, those are taken away. */
export async function findCrashedProcesses(store: Store): Promise<{ processes: CrashedProcess[]; notes: string[] }> {
  const crashed: CrashedProcess[] = [];
  const deletes: string[] = [];
  for await (const record of scan(store, ALL_OPEN_PROCESSES)) {
    if (!("value" in record)) continue;
    const { since, process } = JSON.parse(record.value) as OpenProcess;
    if (!isDead(process)) continue;
    crashed.push({ host: process.host, pid: process.pid, since });
    deletes.push(record.key);
  }
  return { processes: crashed, notes: deletes };
}

/** No process outlives its machine's restart. */
function isDead(process: ProcessIdentity): boolean {
  const own = thisProcess();
  const restarted = process.host === own.host && process.boot !== undefined && process.boot !== own.boot;
  return restarted || isCertainlyDead(process);
}

/** The same store, whose commits go through a function. */
export function withCommit(store: Store, commit: (commit: Commit) => Promise<CommitResult>): Store {
  const [check, reserve, listen] = [store.check?.bind(store), store.reserve?.bind(store), store.listen?.bind(store)];
  return {
    url: store.url,
    capabilities: store.capabilities,
    get: (keys) => store.get(keys),
    list: (range, options) => store.list(range, options),
    items: (spans) => store.items(spans),
    blob: (hash) => store.blob(hash),
    commit,
    now: () => store.now(),
    itemRefs: (span) => store.itemRefs(span),
    tapes: (range) => store.tapes(range),
    retain: (tape, live, options) => store.retain(tape, live, options),
    heal: (tape, items) => store.heal(tape, items),
    blobs: (options) => store.blobs(options),
    dropBlobs: (hashes, options) => store.dropBlobs(hashes, options),
    compact: () => store.compact(),
    bytes: () => store.bytes(),
    bytesOf: (ranges) => store.bytesOf(ranges),
    close: () => store.close(),
    [Symbol.asyncDispose]: () => store.close(),
    ...(check && { check }),
    ...(reserve && { reserve }),
    ...(listen && { listen }),
    ...(store.texts && { texts: store.texts }),
  };
}
