/** Finding checkpoints by what people write: an id, its last eight characters, or a place in a session. */
import { isSavepointError } from "../errors.js";
import { scan } from "../store/index.js";
import { type AgentCheckpointInfo, toAgentCheckpointInfo } from "../agents/index.js";
import {
  agentOfHistoryId,
  ALL_SESSION_NUMBERS,
  type CheckpointInfo,
  MAIN,
  type CheckpointRow,
} from "../records/index.js";
import type { Context } from "../context.js";
import { findCheckpoint, SessionReader } from "../sessions/index.js";

type AnyInfo = CheckpointInfo | AgentCheckpointInfo;

/** As many characters of an id as people write: those that differ by chance. */
const SHORT = 8;

/**
 * All that the name may mean, which is mostly one. An id and `session#seq` come first, then the head of a session or of
 * `session@branch`; only then are the ends of all ids looked at, which reads every row of the store.
 */
export async function findByName(context: Context, name: string): Promise<AnyInfo[]> {
  const found = await findCheckpoint(context, name);
  if (found) return [await toInfo(found.reader, found.number, found.row)];
  const mark = name.lastIndexOf("@");
  for (const [session, branch] of [[name, MAIN] as const, [name.slice(0, mark), name.slice(mark + 1)] as const]) {
    const head = session === "" ? undefined : await headOf(new SessionReader(context, session), branch);
    if (head) return [head];
  }
  return name.length === SHORT ? findByEnd(context, name) : [];
}

async function headOf(reader: SessionReader, name: string): Promise<AnyInfo | undefined> {
  if (agentOfHistoryId(reader.sessionId) !== undefined) return undefined;
  const { session, branch } = await reader.heads(name);
  const head = branch?.record.head;
  return session && head && toInfo(reader, session.record.number, head);
}

async function findByEnd(context: Context, end: string): Promise<AnyInfo[]> {
  const found: AnyInfo[] = [];
  for await (const record of scan(context.store, ALL_SESSION_NUMBERS, true)) {
    if (!("value" in record)) continue;
    const reader = new SessionReader(context, record.value);
    try {
      for await (const [number, row] of rowsOf(reader)) {
        if (row.id.endsWith(end)) found.push(await toInfo(reader, number, row));
      }
    } catch (error) {
      // That session is told by its event; the others can be looked through.
      if (!isSavepointError(error, "DAMAGED")) throw error;
    }
  }
  return found;
}

/** All rows of a session, and the heads that have none. */
async function* rowsOf(reader: SessionReader): AsyncGenerator<[number, CheckpointRow]> {
  const session = await reader.session();
  if (!session) return;
  const { number } = session.record;
  const seen = new Set<number>();
  for await (const row of reader.allRows(number, true)) {
    if ("unreadable" in row) continue;
    seen.add(row.seq);
    yield [number, row];
  }
  if (agentOfHistoryId(reader.sessionId) !== undefined) return;
  for await (const { record } of reader.branches()) {
    if (record.head && !seen.has(record.head.seq)) yield [number, record.head];
  }
}

async function toInfo(reader: SessionReader, number: number, row: CheckpointRow): Promise<AnyInfo> {
  const session = await reader.session();
  const info = await reader.loadInfo(number, row, session?.record.agent);
  const agent = agentOfHistoryId(reader.sessionId);
  if (agent === undefined) return info;
  return toAgentCheckpointInfo(agent, info, (info.metadata as { own?: Record<string, unknown> }).own ?? {});
}
