/** Migrating threads from another saver. */
import { isDeepStrictEqual } from "node:util";
import type { RunnableConfig } from "@langchain/core/runnables";
import type { BaseCheckpointSaver, CheckpointListOptions, CheckpointTuple } from "@langchain/langgraph-checkpoint";
import { SavepointError } from "../../index.js";
import { configOf, type ThreadAddress } from "./address.js";
import { putCheckpoint } from "./put.js";
import { statusOfWrites } from "./status.js";
import type { StoredWrite } from "./stored.js";
import type { Thread } from "./thread.js";
import { Encoder } from "./values.js";
import { encodeWrites, TaskWrites } from "./writes.js";

/** Options of `migrateFrom`. */
export interface MigrateOptions {
  /**
   * Migrate only these threads.
   * @default all threads that the other saver lists
   */
  readonly threads?: readonly string[];
  /** Called after each checkpoint. An error that it throws ends the migration; another call to `migrateFrom` continues it. */
  readonly onProgress?: (progress: MigrateProgress) => void;
}

/** The progress of a migration. */
export interface MigrateProgress {
  readonly threadId: string;
  /** The number of threads that are done. */
  readonly threads: number;
  /** The number of threads to migrate. */
  readonly ofThreads: number;
  /** The number of checkpoints that were copied or already present. */
  readonly checkpoints: number;
}

/** The result of a migration. */
export interface MigrateReport {
  readonly threads: number;
  /** The number of checkpoints that were copied. */
  readonly copied: number;
  /** The number of checkpoints that were already present, from an earlier migration. */
  readonly present: number;
  /** The number of checkpoints that were read back and compared with the originals. All of them are equal. */
  readonly verified: number;
}

/** A checkpoint of the other saver. */
interface Listed {
  readonly address: ThreadAddress;
  readonly id: string;
}

type AnySaver = BaseCheckpointSaver<string | number>;

/** The number of checkpoints per page. Each comes with its complete state. */
const PAGE = 50;

/** Copies threads checkpoint by checkpoint, and compares each copy with its original. Existing checkpoints are only compared. */
export async function migrate(
  saver: AnySaver | BaseCheckpointSaver,
  source: AnySaver,
  threadOf: (id: string) => Thread,
  options: MigrateOptions,
): Promise<MigrateReport> {
  const ids = options.threads ?? (await threadIds(source));
  const report = { threads: 0, copied: 0, present: 0, verified: 0 };
  const reportProgress = (threadId: string): void => {
    const { threads, copied, present } = report;
    options.onProgress?.({ threadId, threads, ofThreads: ids.length, checkpoints: copied + present });
  };
  for (const threadId of ids) {
    const thread = threadOf(threadId);
    for (const { address, id } of await listThread(source, threadId)) {
      const config = configOf(address, id);
      const original = await source.getTuple(config);
      // It was deleted after it was listed.
      if (!original) continue;
      const existing = await saver.getTuple(config);
      if (existing) report.present++;
      else {
        await thread.put(address, () => copyTuple(thread, { address, id }, original));
        report.copied++;
      }
      verify(threadId, original, await saver.getTuple(config));
      report.verified++;
      reportProgress(threadId);
    }
    report.threads++;
    reportProgress(threadId);
  }
  return report;
}

async function copyTuple(thread: Thread, { address, id }: Listed, tuple: CheckpointTuple): Promise<void> {
  const encoder = new Encoder();
  const encode = (value: unknown): unknown => encoder.encode(value);
  const { id: _, ...state } = tuple.checkpoint;
  const writes = new Map<string, [string, unknown][]>();
  for (const [task, channel, value] of tuple.pendingWrites ?? []) {
    writes.set(task, [...(writes.get(task) ?? []), [channel, value]]);
  }
  const stored = [...writes].map(([task, ofTask]) => ({ task, writes: encodeWrites(ofTask, encode) }));
  // The last writes decide the status. Of an answer and a question, the question is the later one.
  const isQuestion = (ofTask: readonly StoredWrite[]): boolean => Boolean(statusOfWrites(ofTask)?.status);
  stored.sort((a, b) => Number(isQuestion(a.writes)) - Number(isQuestion(b.writes)));
  const checkpoint = {
    address,
    id,
    parent: tuple.parentConfig?.configurable?.["checkpoint_id"] as string | undefined,
    state: encode(state) as Parameters<typeof putCheckpoint>[1]["state"],
    metadata: encode(tuple.metadata),
    source: tuple.metadata?.source,
    nodes: [],
    pinned: tuple.metadata?.counters_since_delta_snapshot !== undefined,
    onlyOnHead: false,
    mayDangle: true,
    writes: [],
  };
  await encoder.verifyDecodable();
  await putCheckpoint(thread, checkpoint);
  for (const { task, writes: ofTask } of stored) {
    const writes = new TaskWrites(address, id, task, ofTask);
    await Promise.all([writes.stored, writes.store(thread)]);
  }
}

/** Compares a copy with its original, as LangGraph reads them. */
function verify(thread: string, original: CheckpointTuple, copy: CheckpointTuple | undefined): void {
  if (copy && isDeepStrictEqual(comparable(original), comparable(copy))) return;
  const id = original.checkpoint.id;
  throw new SavepointError(
    "CONFLICT",
    `Checkpoint ${id} of thread ${JSON.stringify(thread)} differs from the one in the other saver, which was not changed. If the thread was used here after an earlier migration, delete it here or exclude it with \`threads\`.`,
    { details: { threadId: thread, checkpointId: id } },
  );
}

/** The encoded content of a tuple, with the writes in an order that does not depend on the saver. */
function comparable({ checkpoint, metadata, parentConfig, pendingWrites = [] }: CheckpointTuple): unknown {
  const parent: unknown = parentConfig?.configurable?.["checkpoint_id"];
  const keyed = pendingWrites.map((write) => [JSON.stringify(write), write] as const);
  const writes = keyed.sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0)).map(([, write]) => write);
  return new Encoder().encode([checkpoint, metadata, parent, writes]);
}

/** The checkpoints of a thread, oldest id first, so that parents are copied before their children. */
async function listThread(source: AnySaver, thread: string): Promise<Listed[]> {
  const listed = await listAll(source, { configurable: { thread_id: thread } });
  return listed.sort((a, b) => (a.id < b.id ? -1 : a.id > b.id ? 1 : 0));
}

async function threadIds(source: AnySaver): Promise<string[]> {
  return [...new Set((await listAll(source, {})).map(({ address }) => address.thread))];
}

/**
 * Everything that a saver lists. It is read in pages, because some savers load all results before they return the first. If
 * a saver does not list by descending id, pages would skip checkpoints, so everything is read in one page.
 */
async function listAll(source: AnySaver, config: RunnableConfig): Promise<Listed[]> {
  const found: Listed[] = [];
  for (let before: string | undefined; ;) {
    const cursor = before === undefined ? {} : { before: { configurable: { checkpoint_id: before } } };
    const page = await readListed(source, config, { limit: PAGE, ...cursor });
    const ids = [...(before === undefined ? [] : [before]), ...page.map(({ id }) => id)];
    if (ids.some((id, index) => index > 0 && id >= (ids[index - 1] as string))) break;
    found.push(...page);
    if (page.length < PAGE) return found;
    before = ids.at(-1);
  }
  return readListed(source, config);
}

async function readListed(
  source: AnySaver,
  config: RunnableConfig,
  options?: CheckpointListOptions,
): Promise<Listed[]> {
  const listed: Listed[] = [];
  for await (const { config: named } of source.list(config, options)) {
    const { thread_id: thread, checkpoint_ns: namespace, checkpoint_id: id } = named.configurable ?? {};
    listed.push({ address: { thread: String(thread), namespace: String(namespace ?? "") }, id: String(id ?? "") });
  }
  return listed;
}
