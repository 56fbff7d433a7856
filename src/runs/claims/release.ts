/** Releasing a branch without a checkpoint: its run has ended, is quarantined, or is left for another process to resume. */
import { isSavepointError } from "../../errors.js";
import {
  changeQueueEntry,
  encodeJournal,
  encodeRun,
  journalKey,
  newQueueEntry,
  runKey,
  type RunRecord,
} from "../../records/index.js";
import { buildCommit, type SessionReader } from "../../sessions/index.js";
import { checkClaimable, readRunSnapshot, type RunSnapshot } from "./claim.js";
import type { BranchWork } from "./next-input.js";

/** The result of a release. */
export interface Release {
  /** Why the run is halted, if a cancel was pending. */
  readonly cancelled: string | undefined;
}

/** The status of a cancelled run. */
export function cancelledRun(reason: string): { readonly status: "halted"; readonly reason: string } {
  return { status: "halted", reason: `cancelled: ${reason}` };
}

/** Halts a run that was cancelled and whose process is gone; `false` where no cancel is pending. */
export async function finishCancel({ reader, branch, leases }: BranchWork, view: RunSnapshot): Promise<boolean> {
  if (!hasPendingCancel(view)) return false;
  await releaseBranch(
    reader,
    branch,
    () => leases.owner,
    () => ({}),
  );
  return true;
}

/**
 * Was the run cancelled, and not halted yet? Usually its branch is held. An imported branch is not: its run was about to be
 * halted when the bundle was made.
 */
function hasPendingCancel({ heads, journal }: RunSnapshot): boolean {
  const { held, head } = heads.branch?.record ?? {};
  return journal?.cancelReason !== undefined && (held === true || journal.head === head?.seq);
}

/**
 * Releases a branch of the caller or of an owner that is gone; `ALREADY_RUNNING` if the owner is alive. A run with a pending
 * cancel is halted, whatever change the caller requested.
 *
 * @param self returns the caller's own leases; called when the branch has been read
 * @param goesOn the run has not ended: it is scheduled for other processes
 * @returns `undefined` if no run held the branch and no cancel is pending
 */
export async function releaseBranch(
  reader: SessionReader,
  branch: string,
  self: () => string | undefined,
  change: (run: RunRecord) => Partial<RunRecord>,
  goesOn = false,
): Promise<Release | undefined> {
  const { sessionId } = reader;
  for (;;) {
    const view = await readRunSnapshot(reader, branch);
    const { heads, run, journal } = view;
    const { session, branch: known } = heads;
    if (!session || !known || (!known.record.held && !hasPendingCancel(view))) return undefined;
    const parts = checkClaimable(reader, branch, view, self());
    const cancelled = journal?.cancelReason === undefined ? undefined : cancelledRun(journal.cancelReason);
    const epoch = known.record.epoch + 1;
    const puts = [];
    if (journal) {
      puts.push({
        key: journalKey(sessionId, branch),
        value: encodeJournal({ ...journal, epoch, cancelReason: undefined }),
      });
    }
    if (run) {
      const head = known.record.head?.seq;
      puts.push({
        key: runKey(sessionId, branch),
        value: encodeRun({ ...run, head, ...(cancelled ?? change(run)) }, reader.context.registry),
      });
    }
    const agent = run?.agent ?? session.record.agent;
    const due =
      goesOn && !cancelled && agent !== undefined
        ? { ...(view.queueEntry ?? newQueueEntry(agent, 0)), readyAt: view.now, owner: undefined }
        : undefined;
    const dueChange = changeQueueEntry(sessionId, branch, view.queueEntry, due);
    const built = buildCommit({
      sessionId,
      sessionBefore: session,
      session: session.record,
      branchBefore: known,
      branch: { ...known.record, epoch, held: false },
      rows: [],
      extension: {
        ...parts,
        puts: [...puts, ...dueChange.puts],
        ...(dueChange.deletes.length > 0 && { deletes: dueChange.deletes }),
        ...(due && { wakes: [due.agent] }),
      },
    });
    try {
      await reader.context.store.commit(built.commit);
      return { cancelled: cancelled?.reason };
    } catch (error) {
      if (!isSavepointError(error, "CONFLICT")) throw error;
    }
  }
}
