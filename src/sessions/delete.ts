/** Clearing and deleting sessions. */
import { type Commit, scan } from "../store/index.js";
import { retryOnConflict, toArray } from "../util/index.js";
import type { Context } from "../context.js";
import {
  agentSessionKey,
  ALL_GARBAGE,
  annotationCounterKey,
  annotationsOf,
  branchesOf,
  branchKey,
  type BranchRecord,
  dataKeyOf,
  garbageKey,
  decodeNumbers,
  decodeSession,
  queueEntriesOf,
  encodeBranch,
  encodeSession,
  idKey,
  labelsOf,
  MAIN,
  notesOf,
  sessionNumberKey,
  type CheckpointRow,
  rowsOf,
  runsOf,
  seqOfRowKey,
  sessionKey,
  type SessionRecord,
  sessionRetentionKey,
  tapeName,
  tapesOf,
} from "../records/index.js";
import { buildPolicyRemoval } from "../policies/index.js";
import { type Heads, isIntact, type LoadedRecord, SessionReader } from "./reader.js";

/**
 * Removes all checkpoints and all branches except an empty `main`, in one commit.
 *
 * @param bind called with the current heads before each attempt; throws if the caller must not clear them
 * @returns the number of removed checkpoints
 */
export async function clearSession(reader: SessionReader, bind: (heads: Heads) => void): Promise<number> {
  const { store } = reader.context;
  // After a conflict, the checkpoint of the other writer is removed too.
  const { removed, tapes } = await retryOnConflict(async () => {
    const heads = await reader.heads(MAIN);
    bind(heads);
    if (!heads.session) return { removed: 0, tapes: [] };
    const { number } = heads.session.record;
    const branches = await toArray(reader.branches());
    const rows = await toArray(reader.allRows(number, false));
    await store.commit(buildClear(reader.sessionId, heads.session, branches, rows.filter(isIntact)));
    const tapes = branches.map(({ record }) => ({ name: tapeName(number, record.tape), end: record.nextItem }));
    return { removed: rows.length, tapes };
  });
  for (const { name, end } of tapes) await store.retain(name, [], { below: end });
  return removed;
}

function buildClear(
  sessionId: string,
  session: LoadedRecord<SessionRecord>,
  branches: readonly LoadedRecord<BranchRecord>[],
  rows: readonly CheckpointRow[],
): Commit {
  const { number } = session.record;
  const keyOf = ({ record }: LoadedRecord<BranchRecord>): string => branchKey(sessionId, record.name);
  const main = branches.find(({ record }) => record.name === MAIN)?.record;
  const emptyMain = main && { ...main, held: false, hidden: false, head: undefined, headParentId: undefined };
  const emptySession = { ...session.record, checkpoints: 0, earliestExpiry: undefined };
  return {
    checks: [
      { key: sessionKey(sessionId), value: session.value },
      ...branches.map((branch) => ({ key: keyOf(branch), value: branch.value })),
    ],
    deletes: [
      rowsOf(number),
      notesOf(number),
      annotationsOf(number),
      labelsOf(number),
      runsOf(sessionId),
      queueEntriesOf(sessionId),
      ...idKeys(rows, number),
      ...branches.map(keyOf),
    ],
    puts: [
      { key: sessionKey(sessionId), value: encodeSession(emptySession) },
      ...(emptyMain ? [{ key: branchKey(sessionId, MAIN), value: encodeBranch(emptyMain) }] : []),
    ],
  };
}

/**
 * Deletes a session permanently. One small commit makes it unreachable and fails all further writes of its handles; its
 * data is freed afterwards, or by the next garbage collection if this process ends before that.
 *
 * @param forget called as soon as the session is unreachable
 * @returns whether the session existed
 */
export async function deleteSession(reader: SessionReader, forget: () => void): Promise<boolean> {
  const { context, sessionId } = reader;
  const { store } = context;
  const deleted = await retryOnConflict(async () => {
    const [record] = await store.get([sessionKey(sessionId)]);
    if (!record) return undefined;
    // A damaged record can be deleted too; then the number is found by a scan.
    const value = "value" in record ? record.value : undefined;
    const session = value === undefined ? undefined : decodeSession(value);
    const number = session ? session.number : await reader.scanForNumber();
    const policy = await buildPolicyRemoval(store, [sessionRetentionKey(sessionId)]);
    await store.commit({
      checks: [value === undefined ? { key: record.key, exists: true } : { key: record.key, value }],
      deletes: [
        record.key,
        branchesOf(sessionId),
        runsOf(sessionId),
        queueEntriesOf(sessionId),
        ...policy.deletes,
        ...(number === undefined ? [] : [sessionNumberKey(number)]),
        ...(session?.agent === undefined ? [] : [agentSessionKey(session.agent, session.number)]),
      ],
      puts: [...(number === undefined ? [] : [{ key: garbageKey(number), value: "" }]), ...policy.puts],
    });
    return { number };
  });
  if (!deleted) return false;
  forget();
  if (deleted.number !== undefined) await freeGarbage(context, deleted.number);
  return true;
}

/** Frees the data of all deleted sessions, including those whose process ended before it was done. Returns their number. */
export async function freeAllGarbage(context: Context): Promise<number> {
  let freed = 0;
  for await (const record of scan(context.store, ALL_GARBAGE)) {
    const [number] = decodeNumbers(record.key.slice(1), 1).numbers;
    await freeGarbage(context, number as number);
    freed++;
  }
  return freed;
}

/** Frees everything that is stored under the number of a deleted session: rows, notes, annotations and tapes. */
export async function freeGarbage(context: Context, number: number): Promise<void> {
  const { store } = context;
  const reader = new SessionReader(context, "");
  for (;;) {
    const page = await store.list(rowsOf(number), { limit: 500 });
    if (page.length === 0) break;
    const keys = page.map(({ key }) => key);
    const rows = await reader.rows(number, keys.map(seqOfRowKey));
    await store.commit({ deletes: [...idKeys(rows.filter(isIntact), number), ...keys] });
  }
  await store.commit({
    deletes: [notesOf(number), annotationCounterKey(number), annotationsOf(number), labelsOf(number)],
  });
  for (const tape of await store.tapes(tapesOf(number))) {
    await store.retain(tape, [], { below: Number.MAX_SAFE_INTEGER });
  }
  await store.commit({ deletes: [garbageKey(number), dataKeyOf(number)] });
}

/** The keys of the id index for these rows. Rows with a generated id have no such record; deleting it does nothing. */
function idKeys(rows: readonly CheckpointRow[], number: number): string[] {
  return rows.map((row) => idKey(row.id, number));
}
