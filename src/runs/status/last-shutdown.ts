/** How the store was left by those who had it open before. */
import { isSavepointError } from "../../errors.js";
import { scan } from "../../store/index.js";
import type { Context } from "../../context.js";
import { ALL_QUEUE_ENTRIES, parseQueueEntryKey } from "../../records/index.js";
import { findCrashedProcesses, type InterruptedRun, type LastShutdown } from "../../events/index.js";
import { readBranchStatuses } from "./status.js";
import { SessionReader } from "../../sessions/index.js";

const CLEAN: LastShutdown = { clean: true, processes: [], interrupted: [] };

/** @param tellAgain leave it for the next one as well */
export async function readLastShutdown(context: Context, tellAgain: boolean): Promise<LastShutdown> {
  if (!context.store.capabilities.durable) return CLEAN;
  const { processes, registrations } = await findCrashedProcesses(context.store);
  if (processes.length === 0) return CLEAN;
  const interrupted = await findInterrupted(context);
  if (!tellAgain) await context.store.commit({ deletes: registrations });
  return { clean: false, processes, interrupted };
}

async function findInterrupted(context: Context): Promise<InterruptedRun[]> {
  const interrupted: InterruptedRun[] = [];
  for await (const { key } of scan(context.store, ALL_QUEUE_ENTRIES)) {
    const { session: sessionId, branch } = parseQueueEntryKey(key);
    try {
      const heads = await new SessionReader(context, sessionId).heads(branch);
      const [standing] = await readBranchStatuses(context, [{ sessionId, branch, heads }]);
      if (standing?.status === "interrupted") interrupted.push({ sessionId, branch });
    } catch (error) {
      // It is reported, and cannot be gone on with before it is repaired.
      if (!isSavepointError(error, "DAMAGED")) throw error;
      interrupted.push({ sessionId, branch });
    }
  }
  return interrupted;
}
