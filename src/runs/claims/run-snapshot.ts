/** A consistent view of a branch and its run. */
import { SavepointError } from "../../errors.js";
import type { Heads, SessionReader } from "../../sessions/index.js";
import {
  branchKey,
  decodeInbox,
  decodeJournal,
  decodeQueuedInput,
  decodeQueueEntry,
  inboxKey,
  type InboxRecord,
  inputKey,
  journalKey,
  type JournalRecord,
  ownerKey,
  type OwnerRecord,
  type QueueEntry,
  queueEntryKey,
  runKey,
  rowKey,
  type RunRecord,
  sessionKey,
} from "../../records/index.js";
import { decodeRunOfSession, noteDeadOwner, readOwner } from "../status/index.js";
import type { Check, RecordResult } from "../../store/index.js";

/** The records of a branch and its run, read together. A commit with their checks fails if one of them has changed. */
export interface RunSnapshot {
  readonly heads: Heads;
  readonly run: RunRecord | undefined;
  readonly journal: JournalRecord | undefined;
  readonly inbox: InboxRecord | undefined;
  /** The check of the inbox. It is not one of `checks`, because most commits do not depend on the inbox. */
  readonly inboxCheck: Check;
  /** The owner that holds the branch; `undefined` if the branch is free or the record of its owner is missing. */
  readonly owner: OwnerRecord | undefined;
  readonly queueEntry: QueueEntry | undefined;
  /** The row of the checkpoint at which the current step started, if it was read together with the owner. */
  readonly boundary?: RecordResult | undefined;
  /** The checks of all other records, except the session and the branch. */
  readonly checks: readonly Check[];
  /** The store's time at which it was read. */
  readonly now: number;
}

/**
 * Reads a snapshot: one read, and a second one for the owner if the branch is held. Throws `DAMAGED`.
 *
 * @param mayBeOutdated whether to use the cached record of an owner that this process knows to be dead, instead of reading it
 *   again. If the record has changed or was deleted since, a commit with the checks of the snapshot fails
 */
export async function readRunSnapshot(
  reader: SessionReader,
  branch: string,
  mayBeOutdated = false,
): Promise<RunSnapshot> {
  const { store } = reader.context;
  const { sessionId } = reader;
  const keys = {
    session: sessionKey(sessionId),
    branch: branchKey(sessionId, branch),
    run: runKey(sessionId, branch),
    journal: journalKey(sessionId, branch),
    inbox: inboxKey(sessionId, branch),
    queueEntry: queueEntryKey(sessionId, branch),
  };
  const [session, head, runRecord, journalRecord, inboxRecord, entryRecord] = await store.get(Object.values(keys));
  const heads = reader.toHeads(session, head, branch);
  const run = decodeRunOfSession(runRecord, heads, reader.context.registry);
  const journal = decodeIntact(journalRecord, decodeJournal);
  const inbox = decodeIntact(inboxRecord, decodeInbox);
  const checks: Check[] = [checkOf(keys.run, runRecord), checkOf(keys.journal, journalRecord)];
  // A damaged queue entry cannot be checked. The process that resumes the run replaces it.
  if (!entryRecord || "value" in entryRecord) checks.push(checkOf(keys.queueEntry, entryRecord));
  let owner: OwnerRecord | undefined;
  let boundary: RecordResult | undefined;
  if (heads.branch?.record.held && run) {
    const { deadOwners } = reader.context;
    const known = mayBeOutdated ? deadOwners.get(run.owner) : undefined;
    let record: RecordResult | undefined = known;
    if (!known) [record, boundary] = await store.get([ownerKey(run.owner), ...boundaryKeys(heads, journal)]);
    noteDeadOwner(reader.context, run.owner, record);
    owner = readOwner(record);
    // An owner that renews its lease in the meantime must not lose the branch.
    if (!record || "value" in record) checks.push(checkOf(ownerKey(run.owner), record));
  }
  return {
    heads,
    run,
    journal: journal?.number === heads.session?.record.number ? journal : undefined,
    inbox,
    inboxCheck: checkOf(keys.inbox, inboxRecord),
    queueEntry: entryRecord && "value" in entryRecord ? decodeQueueEntry(entryRecord.value) : undefined,
    owner,
    boundary,
    checks,
    now: await store.now(),
  };
}

/** The key of the row at which the current step started, unless that is the head, which the branch's record contains. */
function boundaryKeys({ session, branch }: Heads, journal: JournalRecord | undefined): string[] {
  const head = branch?.record.head?.seq;
  const isStored = session && journal && journal.head === head && journal.boundary !== head;
  return isStored ? [rowKey(session.record.number, journal.boundary)] : [];
}

function checkOf(key: string, record: RecordResult | undefined): Check {
  return { key, value: record && "value" in record ? record.value : undefined };
}

function decodeIntact<T>(record: RecordResult | undefined, decode: (value: string) => T): T | undefined {
  if (!record) return undefined;
  if ("value" in record) return decode(record.value);
  throw new SavepointError(
    "DAMAGED",
    `A record of a run is damaged: ${record.unreadable}. Rewind to an intact checkpoint and run the session from there.`,
  );
}

/** The input of a turn. */
export interface TurnInput {
  /** In its encoded form. */
  readonly input: string;
  readonly key: string | undefined;
  /** Its number in the inbox; `undefined` if it did not come from there. */
  readonly number?: number;
}

/** Reads the oldest input in the inbox of a branch; `undefined` if the inbox is empty. */
export async function readOldestInput(
  { reader, branch }: { readonly reader: SessionReader; readonly branch: string },
  { inbox }: RunSnapshot,
): Promise<TurnInput | undefined> {
  if (!inbox || inbox.first >= inbox.next) return undefined;
  const [record] = await reader.context.store.get([inputKey(reader.sessionId, branch, inbox.first)]);
  if (!record || !("value" in record)) {
    throw new SavepointError(
      "DAMAGED",
      `A queued input of session ${JSON.stringify(reader.sessionId)} is ${record ? `damaged: ${record.unreadable}` : "missing"}. Run \`savepoint verify\` for details.`,
    );
  }
  return { ...decodeQueuedInput(record.value), number: inbox.first };
}
