/** Letting go of a branch without a checkpoint: its run is over, put aside, or somebody else's to go on with. */
import { isSavepointError } from "../errors.js";
import { changeDue, newDue } from "../model/due.js";
import { journalKey, runKey } from "../model/keys.js";
import { encodeJournal, encodeRun, type RunRecord } from "../model/run-records.js";
import { buildCommit } from "../model/session-commit.js";
import type { SessionReader } from "../model/session-reader.js";
import { mayTake, readView } from "./claim.js";

/**
 * Lets go of a branch; takes it from whoever had it, if that one is gone.
 *
 * @param goesOn it is not over, and others are to go on with it
 */
export async function releaseBranch(
  reader: SessionReader,
  branch: string,
  self: string | undefined,
  change: (run: RunRecord) => Partial<RunRecord>,
  goesOn = false,
): Promise<void> {
  const { sessionId } = reader;
  for (;;) {
    const view = await readView(reader, branch);
    const { heads, run, journal } = view;
    const { session, branch: known } = heads;
    if (!session || !known?.record.held) return;
    const parts = mayTake(reader, branch, view, self);
    const epoch = known.record.epoch + 1;
    const puts = [];
    if (journal) {
      puts.push({ key: journalKey(sessionId, branch), value: encodeJournal({ ...journal, epoch, cancel: undefined }) });
    }
    if (run) {
      const head = known.record.head?.seq;
      puts.push({
        key: runKey(sessionId, branch),
        value: encodeRun({ ...run, head, ...change(run) }, reader.context.registry),
      });
    }
    const agent = run?.agent ?? session.record.agent;
    const due =
      goesOn && agent !== undefined
        ? { ...(view.due ?? newDue(agent, 0)), due: view.now, owner: undefined }
        : undefined;
    const dueChange = changeDue(sessionId, branch, view.due, due);
    const built = buildCommit({
      sessionId,
      sessionBefore: session,
      session: session.record,
      branchBefore: known,
      branch: { ...known.record, epoch, held: false },
      rows: [],
      more: {
        ...parts,
        puts: [...puts, ...dueChange.puts],
        ...(dueChange.deletes.length > 0 && { deletes: dueChange.deletes }),
        ...(due && { wakes: [due.agent] }),
      },
    });
    try {
      await reader.context.store.commit(built.commit);
      return;
    } catch (error) {
      if (!isSavepointError(error, "CONFLICT")) throw error;
    }
  }
}
