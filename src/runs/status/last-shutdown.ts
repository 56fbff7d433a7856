/** Detects whether earlier processes closed the store, and which runs a crash has interrupted. */
import { isSavepointError } from "../../errors.js";
import { scan } from "../../store/index.js";
import type { Context } from "../../context.js";
import { ALL_QUEUE_ENTRIES, parseQueueEntryKey } from "../../records/index.js";
import { findCrashedProcesses, type InterruptedRun, type LastShutdown } from "../../events/index.js";
import { readBranchStatuses } from "./status.js";
import { SessionReader } from "../../sessions/index.js";

const CLEAN: LastShutdown = { clean: true, processes: [], interrupted: [] };

/**
 * Reports the processes that died without closing the store, and the runs that are interrupted. Each crash is reported once.
 * Without a crash the cost is one range scan of the open processes.
 *
 * @param keepRegistrations do not delete the registrations of the crashed processes, so that the next caller gets the same report
 */
export async function readLastShutdown(context: Context, keepRegistrations: boolean): Promise<LastShutdown> {
  if (!context.store.capabilities.durable) return CLEAN;
  const { processes, registrations } = await findCrashedProcesses(context.store);
  if (processes.length === 0) return CLEAN;
  const interrupted = await findInterrupted(context);
  if (!keepRegistrations) await context.store.commit({ deletes: registrations });
  return { clean: false, processes, interrupted };
}

async function findInterrupted(context: Context): Promise<InterruptedRun[]> {
  const interrupted: InterruptedRun[] = [];
  for await (const { key } of scan(context.store, ALL_QUEUE_ENTRIES)) {
    const { session: sessionId, branch } = parseQueueEntryKey(key);
    try {
      const heads = await new SessionReader(context, sessionId).heads(branch);
      const [status] = await readBranchStatuses(context, [{ sessionId, branch, heads }]);
      if (status?.status === "interrupted") interrupted.push({ sessionId, branch });
    } catch (error) {
      // A damaged session is reported too. It cannot be resumed before it is repaired.
      if (!isSavepointError(error, "DAMAGED")) throw error;
      interrupted.push({ sessionId, branch });
    }
  }
  return interrupted;
}
