/** Finding a checkpoint by its id alone, whatever it is a checkpoint of. */
import { isSavepointError, SavepointError } from "../errors.js";
import { findSessionByNumber } from "./find-session.js";
import { prefixRange } from "../store/index.js";
import type { Context } from "../context.js";
import {
  agentOfHistoryId,
  decodeSession,
  idPrefix,
  trailingNumberOf,
  MAIN,
  sessionNumberKey,
  placeOfId,
  type CheckpointRow,
  sessionKey,
} from "../records/index.js";
import { SessionReader } from "./reader.js";

export interface CheckpointMatch {
  readonly reader: SessionReader;
  readonly number: number;
  readonly row: CheckpointRow;
  /** The agent that it is a checkpoint of, if it is none of a session. */
  readonly agent: string | undefined;
}

/** By id, or as `session#seq`. */
export async function findCheckpoint(context: Context, id: string): Promise<CheckpointMatch | undefined> {
  const number = placeOfId(id)?.number;
  const placed = number === undefined ? undefined : await findIn(context, number, id);
  if (placed) return placed;
  // An id that a caller chose is known by a record, whose key ends with the number of its session.
  for (const { key } of await context.store.list(prefixRange(idPrefix(id)), { limit: 16 })) {
    const found = await findIn(context, trailingNumberOf(key), id);
    if (found) return found;
  }
  const mark = id.lastIndexOf("#");
  const named = mark > 0 ? await numberOf(context, id.slice(0, mark)) : undefined;
  return named === undefined ? undefined : findIn(context, named, id);
}

async function findIn(context: Context, number: number, id: string): Promise<CheckpointMatch | undefined> {
  const [record] = await context.store.get([sessionNumberKey(number)]);
  if (!record) return undefined;
  const sessionId = "value" in record ? record.value : await findSessionByNumber(context.store, number);
  // Nobody can tell whose it is: that is not the same as that there is none.
  if (sessionId === undefined) throw damagedPlace(id, "unreadable" in record ? record.unreadable : "");
  const reader = new SessionReader(context, sessionId);
  const agent = agentOfHistoryId(sessionId);
  // The head of an agent's line is the agent itself; only rows are checkpoints of it.
  const head = agent === undefined ? await readHead(reader) : undefined;
  const row = await reader.find(number, id, head);
  return row && { reader, number, row, agent };
}

/** The head of `main`, which may have no row. Where that is damaged, checkpoints are found by their rows all the same. */
async function readHead(reader: SessionReader): Promise<CheckpointRow | undefined> {
  try {
    return (await reader.heads(MAIN)).branch?.record.head;
  } catch (error) {
    if (isSavepointError(error, "DAMAGED")) return undefined;
    throw error;
  }
}

async function numberOf({ store }: Context, session: string): Promise<number | undefined> {
  const [record] = await store.get([sessionKey(session)]);
  return record && "value" in record ? decodeSession(record.value).number : undefined;
}

function damagedPlace(id: string, reason: string): SavepointError<"DAMAGED"> {
  return new SavepointError(
    "DAMAGED",
    `Checkpoint ${JSON.stringify(id)} cannot be looked for: ${reason}. sp.repair() may bring back what is missing.`,
  );
}
