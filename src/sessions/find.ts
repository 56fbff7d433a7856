/** Finds sessions and checkpoints, even if the records that lead to them are damaged. */
import { isSavepointError, SavepointError } from "../errors.js";
import { prefixRange, scan, type Store } from "../store/index.js";
import type { Context } from "../context.js";
import {
  agentOfHistoryId,
  ALL_SESSIONS,
  type CheckpointRef,
  type CheckpointRow,
  decodeSession,
  idPrefix,
  MAIN,
  placeOfId,
  sessionKey,
  sessionNumberKey,
  trailingNumberOf,
} from "../records/index.js";
import { type Heads, SessionReader } from "./reader.js";

/** A checkpoint of a known session. */
export interface RowMatch {
  readonly number: number;
  readonly row: CheckpointRow;
  readonly agent: string | undefined;
  /** Whether the checkpoint is a head that has no row of its own. */
  readonly hidden: boolean;
}

/** A checkpoint of any session or agent. */
export interface CheckpointMatch extends Pick<RowMatch, "number" | "row"> {
  readonly reader: SessionReader;
  /** The agent, if this is a checkpoint of a whole agent. */
  readonly agent: string | undefined;
}

/**
 * Finds a checkpoint of one session; `undefined` if there is none. If the record of the session or of the branch is damaged, the
 * checkpoint is still found by id, seq or label, but not by step.
 *
 * @throws `DAMAGED` if one of these records is damaged and the checkpoint is not found
 */
export async function findRow(
  reader: SessionReader,
  readHeads: () => Promise<Heads>,
  ref: CheckpointRef,
): Promise<RowMatch | undefined> {
  try {
    const { session, branch } = await readHeads();
    if (!session) return undefined;
    const { number, agent } = session.record;
    const row = await reader.find(number, ref, branch?.record.head);
    const hidden = branch?.record.hidden === true && row?.seq === branch.record.head?.seq;
    return row && { number, row, agent, hidden };
  } catch (error) {
    if (!isSavepointError(error, "DAMAGED")) throw error;
    const match = await findRowWithoutHeads(reader, ref);
    if (!match) throw error;
    return match;
  }
}

/**
 * Finds a checkpoint by its row alone. Returns `undefined` for a step, because steps are looked up among the ancestors of the
 * head.
 */
async function findRowWithoutHeads(reader: SessionReader, ref: CheckpointRef): Promise<RowMatch | undefined> {
  if (typeof ref === "object" && "step" in ref) return undefined;
  const number = await reader.scanForNumber();
  if (number === undefined) return undefined;
  const row = await reader.find(number, ref, undefined);
  return row && { number, row, agent: undefined, hidden: false };
}

/** Finds a checkpoint of any session or agent by its id, or as `session#seq`; `undefined` if there is none. */
export async function findCheckpoint(context: Context, id: string): Promise<CheckpointMatch | undefined> {
  const number = placeOfId(id)?.number;
  const atPlace = number === undefined ? undefined : await findInSession(context, number, id);
  if (atPlace) return atPlace;
  // An id that the caller chose does not contain the number of its session. The key of its index record ends with that number.
  for (const { key } of await context.store.list(prefixRange(idPrefix(id)), { limit: 16 })) {
    const match = await findInSession(context, trailingNumberOf(key), id);
    if (match) return match;
  }
  const mark = id.lastIndexOf("#");
  const ofSession = mark > 0 ? await readNumber(context, id.slice(0, mark)) : undefined;
  return ofSession === undefined ? undefined : findInSession(context, ofSession, id);
}

/** Finds a checkpoint in the session with a number; `undefined` if there is no such session or checkpoint. */
async function findInSession(context: Context, number: number, id: string): Promise<CheckpointMatch | undefined> {
  const [record] = await context.store.get([sessionNumberKey(number)]);
  if (!record) return undefined;
  const sessionId = "value" in record ? record.value : await findSessionByNumber(context.store, number);
  // The session with this number exists but cannot be identified, so "not found" could be wrong.
  if (sessionId === undefined) {
    const reason = "unreadable" in record ? record.unreadable : "";
    throw new SavepointError(
      "DAMAGED",
      `Checkpoint ${JSON.stringify(id)} cannot be found, because the index of sessions is damaged: ${reason}. Run sp.repair().`,
    );
  }
  const reader = new SessionReader(context, sessionId);
  const agent = agentOfHistoryId(sessionId);
  // The head of an agent's history is the agent's current state. Only the rows of the history are checkpoints.
  const head = agent === undefined ? await readHead(reader) : undefined;
  const row = await reader.find(number, id, head);
  return row && { reader, number, row, agent };
}

/**
 * Reads the head of `main`, which may have no row of its own. Returns `undefined` if its record is damaged, because all other
 * checkpoints can still be found by their rows.
 */
async function readHead(reader: SessionReader): Promise<CheckpointRow | undefined> {
  try {
    return (await reader.heads(MAIN)).branch?.record.head;
  } catch (error) {
    if (isSavepointError(error, "DAMAGED")) return undefined;
    throw error;
  }
}

/** The number of the session with an id; `undefined` if there is no intact record of the session. */
async function readNumber({ store }: Context, session: string): Promise<number | undefined> {
  const [record] = await store.get([sessionKey(session)]);
  return record && "value" in record ? decodeSession(record.value).number : undefined;
}

/**
 * The id of the session with a number; `undefined` if there is none. Scans all sessions if the index record of the number is
 * missing or damaged.
 */
export async function findSessionByNumber(store: Store, number: number): Promise<string | undefined> {
  const [indexed] = await store.get([sessionNumberKey(number)]);
  if (indexed && "value" in indexed) return indexed.value;
  for await (const record of scan(store, ALL_SESSIONS)) {
    const [, id = "", branch] = record.key.split("\t");
    if (branch === undefined && "value" in record && decodeSession(record.value).number === number) return id;
  }
  return undefined;
}
