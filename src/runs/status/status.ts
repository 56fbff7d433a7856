/** The status of the work on a branch: read from the record of its run and the lease of the process that runs it. */
import { SavepointError } from "../../errors.js";
import type { ClassRegistry } from "../../state/index.js";
import type { RecordResult } from "../../store/index.js";
import {
  type CheckpointStatus,
  decodeQueueEntry,
  decodeStatusNote,
  decodeOwner,
  decodeRun,
  noteKey,
  queueEntryKey,
  ownerKey,
  type OwnerRecord,
  runKey,
  type RunError,
  type RunRecord,
  type Status,
  type StatusNote,
} from "../../records/index.js";
import type { Context } from "../../context.js";
import { hasEndedHere } from "./local-owners.js";
import { isCertainlyDead } from "../../util/index.js";
import type { Heads } from "../../sessions/index.js";

/** The status of the work on a branch, and the reason for it. */
export interface BranchStatus {
  readonly status: Status;
  readonly reason: string | undefined;
  readonly run: RunRecord | undefined;
  /** The error that ended the run; `undefined` if no error did. */
  readonly error?: RunError | undefined;
}

/** A branch whose status is read, with its session and branch records. */
export interface BranchStatusQuery {
  readonly sessionId: string;
  readonly branch: string;
  readonly heads: Heads;
}

/** The status of a branch whose run record is damaged. Resuming it reports the damage. */
const DAMAGED: BranchStatus = { status: "interrupted", reason: "the record of its run is damaged", run: undefined };

/** Reads the statuses of several branches, in their order, in at most two reads. */
export async function readBranchStatuses(
  context: Context,
  branches: readonly BranchStatusQuery[],
): Promise<BranchStatus[]> {
  const { store, registry } = context;
  if (branches.length === 0) return [];
  const keys = [runKey, queueEntryKey].flatMap((toKey) =>
    branches.map(({ sessionId, branch }) => toKey(sessionId, branch)),
  );
  const noteKeys = branches.map(({ heads }) => statusNoteKey(heads));
  const found = await store.get([...keys, ...noteKeys.filter((key) => key !== undefined)]);
  const notes = new Map(found.slice(keys.length).flatMap((record) => (record ? [[record.key, record] as const] : [])));
  const damaged = new Set<number>();
  const runs = branches.map(({ heads }, index) => {
    const record = found[index];
    if (record && "unreadable" in record) damaged.add(index);
    return damaged.has(index) ? undefined : decodeRunOfSession(record, heads, registry);
  });
  const held = [...new Set(branches.flatMap(({ heads }, at) => (heads.branch?.record.held && runs[at]?.owner) || []))];
  const owners = new Map<string, OwnerRecord | undefined>();
  const records = held.length > 0 ? await store.get(held.map(ownerKey)) : [];
  for (const [index, owner] of held.entries()) owners.set(owner, readOwner(records[index]));
  // Leases expire by the store's clock.
  const now = held.length > 0 ? await store.now() : 0;
  return branches.map(({ heads, sessionId, branch }, index) => {
    if (damaged.has(index)) return DAMAGED;
    const run = runs[index];
    const isOwnerAlive = run !== undefined && isRunning(run, owners.get(run.owner), { sessionId, branch }, now);
    const note = notes.get(noteKeys[index] ?? "");
    const noted = note && "value" in note ? decodeStatusNote(note.value) : undefined;
    return decideBranchStatus(heads, run, isOwnerAlive, isQueued(found[branches.length + index]), noted);
  });
}

/** The key of the status that was set for the head after it was saved; `undefined` if a run saved the head. */
function statusNoteKey({ session, branch }: Heads): string | undefined {
  const head = branch?.record.head;
  return session && head && !head.run ? noteKey(session.record.number, head.seq, "status") : undefined;
}

/** Returns whether a queue entry schedules the work. A damaged one counts: `recover` reports it. */
export function isQueued(record: RecordResult | undefined): boolean {
  return record !== undefined && (!("value" in record) || decodeQueueEntry(record.value).readyAt !== null);
}

/**
 * Decides the status of the work on a branch. This is the only place that does.
 *
 * It is `interrupted` exactly if `recover` resumes it: its process has died, or has released it unfinished. Unfinished work
 * without a queue entry is `halted`: a rewind, a fork or an import has moved the branch there, and it has not been run since.
 *
 * @param isQueued whether a queue entry schedules it
 * @param noted the status that was set for the head after it was saved
 */
export function decideBranchStatus(
  heads: Heads,
  run: RunRecord | undefined,
  isOwnerAlive: boolean,
  isQueued: boolean,
  noted: StatusNote | undefined,
): BranchStatus {
  const { head, held } = heads.branch?.record ?? {};
  if (run && held) return { status: isOwnerAlive ? "running" : "interrupted", reason: undefined, run };
  const { status, isCurrent } = decideWorkStatus(heads, run);
  if (isCurrent && status === "queued" && !isQueued) {
    return { status: "halted", reason: "the session was imported, and was not run since", run };
  }
  if (isCurrent && status !== "running") return { status, reason: run?.reason, run, error: run?.error };
  // A checkpoint that the caller saved has the status that the caller passed.
  if (!head?.run && noted) return { ...noted, run };
  if (!head?.run) return { status: head?.status ?? "open", reason: head?.reason, run };
  if (status !== "running") return { status, reason: head.reason, run };
  if (isQueued) return { status: "interrupted", reason: undefined, run };
  const reason = `the branch was moved to checkpoint #${head.seq} or was imported, and has not been run since`;
  return { status: "halted", reason, run };
}

/** The trigger of the checkpoint of a run whose step has thrown. */
export const STEP_ERROR = "error";

/** The stored status of the work on a branch. */
export interface WorkStatus {
  readonly status: CheckpointStatus;
  /** Whether the record of the run refers to the current head. */
  readonly isCurrent: boolean;
  /** Whether an error that the agent's code causes has ended the run. It is then resumed when it is run again. */
  readonly isCodeError: boolean;
}

/** Decides the stored status of the work on a branch. */
export function decideWorkStatus({ branch }: Heads, run: RunRecord | undefined): WorkStatus {
  const { head, held } = branch?.record ?? {};
  if (run && held) return { status: "running", isCurrent: true, isCodeError: false };
  if (run && run.head === head?.seq) {
    return { status: run.status, isCurrent: true, isCodeError: run.code !== undefined };
  }
  const status = head?.status ?? "open";
  // A run can continue from a checkpoint that was saved by hand. The next run of this branch determines again what it waits for.
  const canContinue = status === "open" || status === "waiting" || status === "queued";
  return {
    status: canContinue ? "running" : status,
    isCurrent: false,
    isCodeError: head?.run !== undefined && head.trigger === STEP_ERROR,
  };
}

/** Decodes the run record of a branch; `undefined` if it belongs to a deleted session of the same name. */
export function decodeRunOfSession(
  record: RecordResult | undefined,
  heads: Heads,
  registry: ClassRegistry,
): RunRecord | undefined {
  if (!record) return undefined;
  if (!("value" in record)) {
    throw new SavepointError(
      "DAMAGED",
      `The record of a run is damaged: ${record.unreadable}. Its checkpoints are intact.`,
    );
  }
  const run = decodeRun(record.value, registry);
  return run.number === heads.session?.record.number ? run : undefined;
}

/** Decodes the record of an owner. A damaged one counts as missing: an owner that is alive renews its record. */
export function readOwner(record: RecordResult | undefined): OwnerRecord | undefined {
  return record && "value" in record ? decodeOwner(record.value) : undefined;
}

/** Remembers the record of an owner if its process is certainly dead, because only `recover` changes it then. */
export function noteDeadOwner({ deadOwners }: Context, owner: string, record: RecordResult | undefined): void {
  if (record && "value" in record && isCertainlyDead(decodeOwner(record.value).process)) deadOwners.set(owner, record);
}

/** Returns whether the owner of a run that holds its branch still runs it. */
export function isRunning(
  { owner }: RunRecord,
  record: OwnerRecord | undefined,
  { sessionId, branch }: Pick<BranchStatusQuery, "sessionId" | "branch">,
  now: number,
): boolean {
  return isAlive(record, now) && !hasEndedHere(owner, sessionId, branch);
}

/** Returns whether the leases of an owner are valid: they have not expired, and its process is not known to be dead. */
export function isAlive(owner: OwnerRecord | undefined, now: number): boolean {
  return owner !== undefined && owner.until > now && !isCertainlyDead(owner.process);
}
