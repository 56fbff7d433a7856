/** Listing checkpoints, those with the highest ids first. Rows are read as the list is walked, and states where they are given. */
import { isDeepStrictEqual } from "node:util";
import type { RunnableConfig } from "@langchain/core/runnables";
import type { CheckpointListOptions, CheckpointTuple } from "@langchain/langgraph-checkpoint";
import { isSavepointError, type Savepoint, SavepointError, type Session } from "../../index.js";
import { checkThreadId, storedId } from "./address.js";
import {
  decodeMetadata,
  type ThreadCheckpoint,
  replacementIn,
  type ThreadState,
  toThreadCheckpoint,
} from "./stored.js";
import { toTuple } from "./tuples.js";

/** What is to be listed. */
export interface ListQuery {
  readonly thread: string | undefined;
  readonly namespace: string | undefined;
  readonly id: string | undefined;
  /** Only those with lower ids. */
  readonly before: string | undefined;
  readonly filter: Readonly<Record<string, unknown>>;
  readonly limit: number;
}

export function parseListQuery(config: RunnableConfig, options: CheckpointListOptions = {}): ListQuery {
  const { thread_id: thread, checkpoint_ns: namespace, checkpoint_id: id } = config.configurable ?? {};
  const { limit = Number.POSITIVE_INFINITY, before, filter = {} } = options;
  if (limit !== Number.POSITIVE_INFINITY && (!Number.isSafeInteger(limit) || limit < 0)) {
    throw new SavepointError(
      "INVALID_ARGUMENT",
      `A list of ${String(limit)} checkpoints makes no sense. Give a whole number.`,
    );
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

/** @param threads the ids of all threads */
export async function* listTuples(
  sp: Savepoint,
  wanted: ListQuery,
  threads: () => AsyncIterable<string>,
): AsyncGenerator<CheckpointTuple> {
  let left = wanted.limit;
  if (left <= 0) return;
  for await (const { session, found } of wanted.thread === undefined
    ? walkThreads(sp, wanted, threads())
    : walkThread(sp, wanted, wanted.thread)) {
    if (!(await passes(session, found, wanted.filter))) continue;
    const tuple = await readTuple(session, found);
    if (!tuple) continue;
    yield tuple;
    if (--left <= 0) return;
  }
}

interface Listed {
  readonly session: Session<ThreadState>;
  readonly found: ThreadCheckpoint;
}

/** Many threads as one list: of their next checkpoints, always the one with the highest id. */
async function* walkThreads(sp: Savepoint, wanted: ListQuery, threads: AsyncIterable<string>): AsyncGenerator<Listed> {
  const lines: { next: Listed; rest: AsyncGenerator<Listed> }[] = [];
  const add = async (rest: AsyncGenerator<Listed>): Promise<void> => {
    const { done, value } = await rest.next();
    if (done) return;
    const at = lines.findIndex(({ next }) => next.found.id < value.found.id);
    lines.splice(at === -1 ? lines.length : at, 0, { next: value, rest });
  };
  for await (const thread of threads) await add(walkThread(sp, wanted, thread));
  for (let first = lines.shift(); first; first = lines.shift()) {
    yield first.next;
    await add(first.rest);
  }
}

/**
 * The checkpoints of a thread that are wanted. They come in the order in which they were put, which is that of their ids,
 * but for those that came late: each of these waits until the others with higher ids have been given.
 */
async function* walkThread(sp: Savepoint, wanted: ListQuery, thread: string): AsyncGenerator<Listed> {
  const session = sp.session<ThreadState>(thread);
  const late: ThreadCheckpoint[] = [];
  const lateAbove = function* (id: string): Generator<Listed> {
    for (let first = late[0]; first && first.id > id; first = late[0]) {
      late.shift();
      yield { session, found: first };
    }
  };
  for await (const info of session.history({ allBranches: true })) {
    const found = toThreadCheckpoint(info);
    if (!found) continue;
    const { namespace, id, before } = wanted;
    if (namespace !== undefined && found.place.namespace !== namespace) continue;
    if (id !== undefined && found.id !== id) continue;
    if (before !== undefined && found.id >= before) continue;
    if (found.late) {
      const at = late.findIndex((other) => other.id < found.id);
      late.splice(at === -1 ? late.length : at, 0, found);
      continue;
    }
    yield* lateAbove(found.id);
    yield { session, found };
  }
  yield* lateAbove("");
}

async function passes(
  session: Session<ThreadState>,
  found: ThreadCheckpoint,
  filter: ListQuery["filter"],
): Promise<boolean> {
  const fields = Object.entries(filter);
  if (fields.length === 0) return true;
  const replaced = replacementIn((await session.annotations(found.seq)).get(found.seq));
  const metadata = (await decodeMetadata(replaced ? replaced.metadata : found.metadata)) as Record<string, unknown>;
  return fields.every(([key, value]) => isDeepStrictEqual(metadata[key], value));
}

/** `undefined` where it is gone by now, or damaged: that is told by the event `damage`, and the others are still good. */
async function readTuple(
  session: Session<ThreadState>,
  { place, id }: ThreadCheckpoint,
): Promise<CheckpointTuple | undefined> {
  try {
    const saved = await session.load(storedId(place, id));
    return saved && (await toTuple(session, saved));
  } catch (error) {
    if (isSavepointError(error, "DAMAGED")) return undefined;
    throw error;
  }
}
