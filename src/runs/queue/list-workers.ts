/** The owners of leases, with the runs that each of them holds. */
import type { Context } from "../../context.js";
import {
  ALL_OWNERS,
  ALL_QUEUE_ENTRIES,
  CLEAN_SHUTDOWN,
  decodeQueueEntry,
  ownerKey,
  parseQueueEntryKey,
} from "../../records/index.js";
import { scan } from "../../store/index.js";
import { isAlive, readOwner } from "../status/index.js";

/** An owner of leases: a process that runs sessions, or one worker in it. */
export interface WorkerInfo {
  /** The id of the owner: each worker has one, and each `Savepoint` that runs sessions itself. */
  readonly owner: string;
  readonly host: string;
  readonly pid: number;
  /** Whether its leases are valid: they have not expired, and its process is not known to be dead. */
  readonly alive: boolean;
  /**
   * When its leases expire unless they are renewed, in milliseconds since 1970 by the store's clock; `undefined` if it was shut
   * down cleanly and could not release every run.
   */
  readonly leaseUntil: number | undefined;
  /** The runs that it holds. Those of an owner that is not alive are resumed by another worker, or by `sp.recover()`. */
  readonly runs: readonly { readonly sessionId: string; readonly branch: string; readonly agent: string }[];
}

/** Lists all owners, those that are alive first. Reads every queue entry. */
export async function* listWorkers({ store }: Context): AsyncGenerator<WorkerInfo> {
  const runsByOwner = new Map<string, WorkerInfo["runs"][number][]>();
  for await (const record of scan(store, ALL_QUEUE_ENTRIES)) {
    if (!("value" in record)) continue;
    const { owner, agent } = decodeQueueEntry(record.value);
    if (owner === undefined) continue;
    const { session: sessionId, branch } = parseQueueEntryKey(record.key);
    const runs = runsByOwner.get(owner) ?? [];
    runsByOwner.set(owner, runs);
    runs.push({ sessionId, branch, agent });
  }
  const now = await store.now();
  const workers: WorkerInfo[] = [];
  for await (const record of scan(store, ALL_OWNERS)) {
    // A damaged record counts as missing: an owner that is alive renews it.
    const lease = readOwner(record);
    if (!lease) continue;
    const owner = record.key.slice(ownerKey("").length);
    const { host, pid } = lease.process;
    const leaseUntil = lease.until === CLEAN_SHUTDOWN ? undefined : lease.until;
    workers.push({ owner, host, pid, alive: isAlive(lease, now), leaseUntil, runs: runsByOwner.get(owner) ?? [] });
  }
  // An owner that is gone and holds nothing is of no interest: its record is deleted later.
  yield* workers.filter(({ alive }) => alive);
  yield* workers.filter(({ alive, runs }) => !alive && runs.length > 0);
}
