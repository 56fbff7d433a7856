/** Finding checkpoints by the names that people write: an id or its last eight characters, or a place in a session. */
import { isSavepointError } from "../../errors.js";
import { agentOfHistoryId, ALL_SESSION_NUMBERS, type CheckpointRow, MAIN } from "../../records/index.js";
import type { Context } from "../../context.js";
import { findCheckpoint, SessionReader } from "../../sessions/index.js";
import { scan } from "../../store/index.js";
import { type AnyCheckpointInfo, toAnyInfo } from "./list.js";

/** Length of a shortened id: its last characters, which are random. */
const SHORT_ID_LENGTH = 8;

/**
 * All checkpoints that the name can mean, usually one. Tries an id or `session#seq` first, then the head of a session or of
 * `session@branch`. A name of eight characters is finally compared with the ends of all ids; this reads every checkpoint row of the
 * store.
 */
export async function findByName(context: Context, name: string): Promise<AnyCheckpointInfo[]> {
  const found = await findCheckpoint(context, name);
  if (found) return [await loadAnyInfo(found.reader, found.number, found.row)];
  const at = name.lastIndexOf("@");
  for (const [sessionId, branch] of [[name, MAIN] as const, [name.slice(0, at), name.slice(at + 1)] as const]) {
    const head = sessionId === "" ? undefined : await findHead(new SessionReader(context, sessionId), branch);
    if (head) return [head];
  }
  return name.length === SHORT_ID_LENGTH ? findByIdEnd(context, name) : [];
}

async function findHead(reader: SessionReader, branchName: string): Promise<AnyCheckpointInfo | undefined> {
  if (agentOfHistoryId(reader.sessionId) !== undefined) return undefined;
  const { session, branch } = await reader.heads(branchName);
  const head = branch?.record.head;
  return session && head && loadAnyInfo(reader, session.record.number, head);
}

async function findByIdEnd(context: Context, end: string): Promise<AnyCheckpointInfo[]> {
  const found: AnyCheckpointInfo[] = [];
  for await (const record of scan(context.store, ALL_SESSION_NUMBERS, true)) {
    if (!("value" in record)) continue;
    const reader = new SessionReader(context, record.value);
    try {
      for await (const [number, row] of walkRows(reader)) {
        if (row.id.endsWith(end)) found.push(await loadAnyInfo(reader, number, row));
      }
    } catch (error) {
      // The reader has already emitted `damage` for this session; the other sessions are still searched.
      if (!isSavepointError(error, "DAMAGED")) throw error;
    }
  }
  return found;
}

/** All rows of a session, then those heads of its branches that have no row. For the history of an agent, only the rows. */
async function* walkRows(reader: SessionReader): AsyncGenerator<[number, CheckpointRow]> {
  const session = await reader.session();
  if (!session) return;
  const { number } = session.record;
  const seqs = new Set<number>();
  for await (const row of reader.allRows(number, true)) {
    if ("unreadable" in row) continue;
    seqs.add(row.seq);
    yield [number, row];
  }
  if (agentOfHistoryId(reader.sessionId) !== undefined) return;
  for await (const { record } of reader.branches()) {
    if (record.head && !seqs.has(record.head.seq)) yield [number, record.head];
  }
}

async function loadAnyInfo(reader: SessionReader, number: number, row: CheckpointRow): Promise<AnyCheckpointInfo> {
  const session = await reader.session();
  return toAnyInfo(reader.sessionId, await reader.loadInfo(number, row, session?.record.agent));
}
