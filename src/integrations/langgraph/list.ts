/** Listing checkpoints, highest id first. Rows are read while the list is consumed; states only for the results. */
import type { RunnableConfig } from "@langchain/core/runnables";
import type { CheckpointListOptions, CheckpointTuple } from "@langchain/langgraph-checkpoint";
import { isSavepointError, type Savepoint, type Session } from "../../index.js";
import { checkThreadId, storedId } from "./address.js";
import { invalidArgument } from "./errors.js";
import {
  asIntegration,
  decodeMetadata,
  matchesFilter,
  type ThreadCheckpoint,
  replacementIn,
  type ThreadState,
  toThreadCheckpoint,
} from "./stored.js";
import { toTuple } from "./tuples.js";

/** Parsed arguments of `list`. */
export interface ListQuery {
  readonly thread: string | undefined;
  readonly namespace: string | undefined;
  readonly id: string | undefined;
  /** Only checkpoints with lower ids. */
  readonly before: string | undefined;
  readonly filter: Readonly<Record<string, unknown>>;
  readonly limit: number;
}

export function parseListQuery(config: RunnableConfig, options: CheckpointListOptions = {}): ListQuery {
  const { thread_id: thread, checkpoint_ns: namespace, checkpoint_id: id } = config.configurable ?? {};
  const { limit = Number.POSITIVE_INFINITY, before, filter = {} } = options;
  if (limit !== Number.POSITIVE_INFINITY && (!Number.isSafeInteger(limit) || limit < 0)) {
    throw invalidArgument(`\`limit\` must be a non-negative integer, got ${String(limit)}.`);
  }
  return {
    thread: thread === undefined || thread === null ? undefined : checkThreadId(thread),
    namespace: namespace as string | undefined,
    id: id as string | undefined,
    before: before?.configurable?.["checkpoint_id"] as string | undefined,
    filter: Object.fromEntries(
      Object.entries(filter as Record<string, unknown>).filter(([, value]) => value !== undefined),
    ),
    limit,
  };
}

/** @param threads returns the ids of all threads */
export async function* listTuples(
  sp: Savepoint,
  query: ListQuery,
  threads: () => AsyncIterable<string>,
): AsyncGenerator<CheckpointTuple> {
  let left = query.limit;
  if (left <= 0) return;
  const sharing = {};
  for await (const { session, entry } of query.thread === undefined
    ? walkThreads(sp, query, threads())
    : walkThread(sp, query, query.thread)) {
    if (!(await matchesQuery(session, entry, query))) continue;
    const tuple = await readTuple(session, entry, sharing);
    if (!tuple) continue;
    yield tuple;
    if (--left <= 0) return;
  }
}

interface Listed {
  readonly session: Session<ThreadState>;
  readonly entry: ThreadCheckpoint;
}

/** Merges the lists of many threads: returns the highest id of their next checkpoints each time. */
async function* walkThreads(sp: Savepoint, query: ListQuery, threads: AsyncIterable<string>): AsyncGenerator<Listed> {
  const lines: { next: Listed; rest: AsyncGenerator<Listed> }[] = [];
  const add = async (rest: AsyncGenerator<Listed>): Promise<void> => {
    const { done, value } = await rest.next();
    if (done) return;
    const at = lines.findIndex(({ next }) => next.entry.id < value.entry.id);
    lines.splice(at === -1 ? lines.length : at, 0, { next: value, rest });
  };
  for await (const thread of threads) await add(walkThread(sp, query, thread));
  for (let first = lines.shift(); first; first = lines.shift()) {
    yield first.next;
    await add(first.rest);
  }
}

/**
 * The checkpoints of a thread that match the query. They are read in the order of saving, newest first, which is the order
 * of their ids except for late ones: each of these is held back until all higher ids have been returned.
 */
async function* walkThread(sp: Savepoint, query: ListQuery, thread: string): AsyncGenerator<Listed> {
  const session = sp.session<ThreadState>(thread);
  const late: ThreadCheckpoint[] = [];
  const lateAbove = function* (id: string): Generator<Listed> {
    for (let first = late[0]; first && first.id > id; first = late[0]) {
      late.shift();
      yield { session, entry: first };
    }
  };
  for await (const info of session.history({ allBranches: true })) {
    const entry = toThreadCheckpoint(info);
    if (!entry) continue;
    const { namespace, id, before } = query;
    if (namespace !== undefined && entry.address.namespace !== namespace) continue;
    if (id !== undefined && entry.id !== id) continue;
    if (before !== undefined && entry.id >= before) continue;
    if (entry.late) {
      const at = late.findIndex((other) => other.id < entry.id);
      late.splice(at === -1 ? late.length : at, 0, entry);
      continue;
    }
    yield* lateAbove(entry.id);
    yield { session, entry };
  }
  yield* lateAbove("");
}

async function matchesQuery(
  session: Session<ThreadState>,
  entry: ThreadCheckpoint,
  { filter }: ListQuery,
): Promise<boolean> {
  if (Object.keys(filter).length === 0) return true;
  const { metadata } = replacementIn((await session.annotations(entry.seq)).get(entry.seq)) ?? entry;
  return matchesFilter(await decodeMetadata(metadata), filter);
}

/**
 * Loads a checkpoint; returns `undefined` if it was removed or is damaged. Damage is reported by the `damage` event and does not
 * end the list.
 *
 * @param sharing the same object for a whole list, whose checkpoints share most of their values
 */
async function readTuple(
  session: Session<ThreadState>,
  { address, id }: ThreadCheckpoint,
  sharing: object,
): Promise<CheckpointTuple | undefined> {
  try {
    const saved = await session.load(storedId(address, id), asIntegration({}, { sharing }));
    return saved && (await toTuple(session, saved));
  } catch (error) {
    if (isSavepointError(error, "DAMAGED")) return undefined;
    throw error;
  }
}
