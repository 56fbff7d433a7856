/** Releasing a branch without a checkpoint: its run has ended, is quarantined, or is left for another process to resume. */
import {
  changeQueueEntry,
  encodeJournal,
  encodeRun,
  endStream,
  journalKey,
  newQueueEntry,
  runKey,
  type RunRecord,
} from "../../records/index.js";
import { buildCommit, type SessionReader } from "../../sessions/index.js";
import { retryOnConflict } from "../../util/index.js";
import type { BranchWork } from "./claim.js";
import { checkClaimable } from "./claimable.js";
import { readRunSnapshot, type RunSnapshot } from "./run-snapshot.js";

/** The result of a release. */
export interface Release {
  /** The reason with which the run was halted, if a cancel was pending. */
  readonly cancelled: string | undefined;
}

export interface ReleaseOptions {
  /** Returns the owner id of the caller; called when the branch has been read. */
  readonly self: () => string | undefined;
  /** Changes to the record of the run. */
  readonly change?: Partial<RunRecord>;
  /** Whether the run has not ended. It is then scheduled for other processes. @default false */
  readonly isUnfinished?: boolean;
}

/** The status of a cancelled run. */
export function cancelledRun(reason: string): { readonly status: "halted"; readonly reason: string } {
  return { status: "halted", reason: `cancelled: ${reason}` };
}

/**
 * Returns whether the run was cancelled and is not halted yet. Usually its branch is held. An imported branch is not: its run
 * was about to be halted when the bundle was exported.
 */
export function hasPendingCancel({ heads, journal }: RunSnapshot): boolean {
  const { held, head } = heads.branch?.record ?? {};
  return journal?.cancelReason !== undefined && (held === true || journal.head === head?.seq);
}

/** Halts a run with a pending cancel whose process has ended. Throws `ALREADY_RUNNING` if it has not. */
export async function finishCancel({ reader, branch, leases }: BranchWork): Promise<void> {
  await releaseBranch(reader, branch, { self: () => leases.owner });
}

/**
 * Releases a branch of the caller, or of an owner whose lease has ended. Throws `ALREADY_RUNNING` if its owner is alive. A run
 * with a pending cancel is halted, whatever change the caller requested.
 *
 * @returns `undefined` if no run held the branch and no cancel is pending
 */
export async function releaseBranch(
  reader: SessionReader,
  branch: string,
  { self, change = {}, isUnfinished = false }: ReleaseOptions,
): Promise<Release | undefined> {
  const { sessionId, context } = reader;
  return retryOnConflict(async () => {
    const snapshot = await readRunSnapshot(reader, branch);
    const { run, journal, queueEntry, now } = snapshot;
    const { session, branch: branchBefore } = snapshot.heads;
    if (!session || !branchBefore || (!branchBefore.record.held && !hasPendingCancel(snapshot))) return undefined;
    const parts = checkClaimable(reader, branch, snapshot, self());
    const cancelled = journal?.cancelReason === undefined ? undefined : cancelledRun(journal.cancelReason);
    const epoch = branchBefore.record.epoch + 1;
    const puts = [];
    if (journal) {
      const status = cancelled?.status ?? change.status;
      const hasEnded = status === "halted" || status === "failed" || status === "completed";
      const stream = hasEnded ? endStream(journal) : journal.stream;
      const released = encodeJournal({ ...journal, epoch, cancelReason: undefined, stream });
      puts.push({ key: journalKey(sessionId, branch), value: released });
    }
    if (run) {
      const released = { ...run, head: branchBefore.record.head?.seq, ...(cancelled ?? change) };
      puts.push({ key: runKey(sessionId, branch), value: encodeRun(released, context.registry) });
    }
    const agent = run?.agent ?? session.record.agent;
    const scheduled =
      isUnfinished && !cancelled && agent !== undefined
        ? { ...(queueEntry ?? newQueueEntry(agent, 0)), readyAt: now, owner: undefined }
        : undefined;
    const entryChange = changeQueueEntry(sessionId, branch, queueEntry, scheduled);
    const built = buildCommit({
      sessionId,
      sessionBefore: session,
      session: session.record,
      branchBefore,
      branch: { ...branchBefore.record, epoch, held: false },
      rows: [],
      extension: {
        ...parts,
        puts: [...puts, ...entryChange.puts],
        deletes: entryChange.deletes,
        wakes: scheduled ? [scheduled.agent] : [],
      },
    });
    await context.store.commit(built.commit);
    return { cancelled: cancelled?.reason };
  });
}
