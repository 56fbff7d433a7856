/** Removing all checkpoints of a session, and removing sessions. */
import { isSavepointError } from "../errors.js";
import { scan } from "../store/index.js";
import type { Context } from "../context.js";
import {
  agentSessionKey,
  ALL_GARBAGE,
  annotationCounterKey,
  annotationsOf,
  branchesOf,
  branchKey,
  type BranchRecord,
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
  sessionRetentionKey,
  tapeName,
  tapesOf,
} from "../records/index.js";
import { buildPolicyRemoval } from "../policies/index.js";
import type { Heads, LoadedRecord } from "./reader.js";
import { SessionReader } from "./reader.js";

/** Removes all checkpoints and all branches but an empty `main`, in one commit. Returns how many checkpoints. */
export async function clearSession(reader: SessionReader, bind: (heads: Heads) => void): Promise<number> {
  const { store } = reader.context;
  for (;;) {
    const heads = await reader.heads(MAIN);
    bind(heads);
    if (!heads.session) return 0;
    const { number } = heads.session.record;
    const branches: LoadedRecord<BranchRecord>[] = [];
    for await (const branch of reader.branches()) branches.push(branch);
    const rows: CheckpointRow[] = [];
    let count = 0;
    for await (const row of reader.allRows(number, false)) {
      count++;
      if (!("unreadable" in row)) rows.push(row);
    }
    const main = branches.find(({ record }) => record.name === MAIN)?.record;
    const key = (branch: LoadedRecord<BranchRecord>): string => branchKey(reader.sessionId, branch.record.name);
    try {
      await store.commit({
        checks: [
          { key: sessionKey(reader.sessionId), value: heads.session.value },
          ...branches.map((branch) => ({ key: key(branch), value: branch.value })),
        ],
        deletes: [
          rowsOf(number),
          notesOf(number),
          annotationsOf(number),
          labelsOf(number),
          runsOf(reader.sessionId),
          queueEntriesOf(reader.sessionId),
          ...idKeys(rows, number),
          ...branches.map(key),
        ],
        puts: [
          {
            key: sessionKey(reader.sessionId),
            value: encodeSession({ ...heads.session.record, checkpoints: 0, earliestExpiry: undefined }),
          },
          ...(main
            ? [
                {
                  key: branchKey(reader.sessionId, MAIN),
                  value: encodeBranch({
                    ...main,
                    held: false,
                    hidden: false,
                    head: undefined,
                    headParentId: undefined,
                  }),
                },
              ]
            : []),
        ],
      });
    } catch (error) {
      // Somebody saved meanwhile: that checkpoint is to go as well.
      if (isSavepointError(error, "CONFLICT")) continue;
      throw error;
    }
    for (const { record } of branches) {
      await store.retain(tapeName(number, record.tape), [], { below: record.nextItem });
    }
    return count;
  }
}

/**
 * Deletes a session for good. One small commit makes it unreachable and its handles useless; what it leaves behind is
 * freed afterwards, and by the next collection should this process die before that.
 *
 * @param forget told as soon as it is gone
 */
export async function deleteSession(reader: SessionReader, forget: () => void): Promise<boolean> {
  const { store } = reader.context;
  for (;;) {
    const [record] = await store.get([sessionKey(reader.sessionId)]);
    if (!record) return false;
    // A damaged record can be deleted too; its number is then found the long way.
    const whole = "value" in record ? record : undefined;
    const session = whole && decodeSession(whole.value);
    const number = session ? session.number : await reader.scanForNumber();
    const remains = number === undefined ? [] : [{ key: garbageKey(number), value: "" }];
    const policy = await buildPolicyRemoval(store, [sessionRetentionKey(reader.sessionId)]);
    try {
      await store.commit({
        checks: [whole ? { key: record.key, value: whole.value } : { key: record.key, exists: true }],
        deletes: [
          record.key,
          branchesOf(reader.sessionId),
          runsOf(reader.sessionId),
          queueEntriesOf(reader.sessionId),
          ...policy.deletes,
          ...(number === undefined ? [] : [sessionNumberKey(number)]),
          ...(session?.agent === undefined ? [] : [agentSessionKey(session.agent, session.number)]),
        ],
        puts: [...remains, ...policy.puts],
      });
    } catch (error) {
      if (isSavepointError(error, "CONFLICT")) continue;
      throw error;
    }
    forget();
    if (number !== undefined) await freeGarbage(reader.context, number);
    return true;
  }
}

/** Frees what deleted sessions left behind, also those of processes that died over it. Returns their number. */
export async function freeAllGarbage(context: Context): Promise<number> {
  let freed = 0;
  for await (const record of scan(context.store, ALL_GARBAGE)) {
    const [number] = decodeNumbers(record.key.slice(1), 1).numbers;
    await freeGarbage(context, number as number);
    freed++;
  }
  return freed;
}

/** Frees all that is named after a number: rows and tapes. */
export async function freeGarbage(context: Context, number: number): Promise<void> {
  const { store } = context;
  const reader = new SessionReader(context, "");
  for (;;) {
    const page = await store.list(rowsOf(number), { limit: 500 });
    if (page.length === 0) break;
    const rows = await reader.rows(
      number,
      page.map((record) => seqOfRowKey(record.key)),
    );
    const whole = rows.filter((row): row is CheckpointRow => row !== undefined && !("unreadable" in row));
    await store.commit({ deletes: [...idKeys(whole, number), ...page.map((record) => record.key)] });
  }
  await store.commit({
    deletes: [notesOf(number), annotationCounterKey(number), annotationsOf(number), labelsOf(number)],
  });
  for (const tape of await store.tapes(tapesOf(number))) {
    await store.retain(tape, [], { below: Number.MAX_SAFE_INTEGER });
  }
  await store.commit({ deletes: [garbageKey(number)] });
}

/** The records that find these rows by their ids, where there are such records. */
function idKeys(rows: readonly CheckpointRow[], number: number): string[] {
  return rows.map((row) => idKey(row.id, number));
}
