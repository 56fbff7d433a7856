/** Bringing threads over from another saver. */
import { isDeepStrictEqual } from "node:util";
import type { RunnableConfig } from "@langchain/core/runnables";
import type { BaseCheckpointSaver, CheckpointTuple } from "@langchain/langgraph-checkpoint";
import { SavepointError } from "../../index.js";
import { putCheckpoint } from "./put.js";
import type { Thread } from "./thread.js";
import { Encoder } from "./values.js";
import { putWrites, toStoredWrites } from "./writes.js";

export interface MigrateOptions {
  /**
   * Only these threads.
   * @default all that the other saver lists
   */
  readonly threads?: readonly string[];
  /** Told after each checkpoint. What it throws ends the migration; it goes on when it is started again. */
  readonly onProgress?: (progress: MigrateProgress) => void;
}

export interface MigrateProgress {
  readonly threadId: string;
  /** Threads that are done. */
  readonly threads: number;
  /** Of how many. */
  readonly ofThreads: number;
  /** Checkpoints that were copied or were there already. */
  readonly checkpoints: number;
}

export interface MigrateReport {
  readonly threads: number;
  /** Checkpoints that were copied. */
  readonly copied: number;
  /** Checkpoints that were there already, from an earlier migration. */
  readonly present: number;
  /** Checkpoints that were read again from here and compared with those of the other saver. All of them are alike. */
  readonly verified: number;
}

/** Where a checkpoint of the other saver is. */
interface Listed {
  readonly namespace: string;
  readonly id: string;
  readonly config: RunnableConfig;
}

type AnySaver = BaseCheckpointSaver<string | number>;

/** Checkpoints that are asked for at once: each comes with its whole state. */
const PAGE = 50;

export async function migrate(
  saver: AnySaver | BaseCheckpointSaver,
  source: AnySaver,
  threadOf: (id: string) => Thread,
  options: MigrateOptions,
): Promise<MigrateReport> {
  const ids = options.threads ?? (await threadIds(source));
  const report = { threads: 0, copied: 0, present: 0, verified: 0 };
  const tell = (threadId: string): void => {
    const { threads, copied, present } = report;
    options.onProgress?.({ threadId, threads, ofThreads: ids.length, checkpoints: copied + present });
  };
  for (const threadId of ids) {
    const thread = threadOf(threadId);
    for (const listed of await listThread(source, threadId)) {
      const original = await source.getTuple(listed.config);
      // Deleted since it was listed.
      if (!original) continue;
      const there = await saver.getTuple(listed.config);
      if (there) report.present++;
      else {
        const place = { thread: threadId, namespace: listed.namespace };
        await thread.put({ place, id: listed.id }, () => copyTuple(thread, listed, original));
        report.copied++;
      }
      verify(threadId, original, await saver.getTuple(listed.config));
      report.verified++;
      tell(threadId);
    }
    report.threads++;
    tell(threadId);
  }
  return report;
}

async function copyTuple(thread: Thread, { namespace, id }: Listed, tuple: CheckpointTuple): Promise<void> {
  const encoder = new Encoder();
  const encode = (value: unknown): unknown => encoder.encode(value);
  const { id: _, ...state } = tuple.checkpoint;
  const place = { thread: thread.id, namespace };
  const writes = new Map<string, [string, unknown][]>();
  for (const [task, channel, value] of tuple.pendingWrites ?? []) {
    writes.set(task, [...(writes.get(task) ?? []), [channel, value]]);
  }
  const stored = [...writes].map(([task, ofTask]) => ({ task, writes: toStoredWrites(ofTask, encode) }));
  const checkpoint = {
    place,
    id,
    parent: tuple.parentConfig?.configurable?.["checkpoint_id"] as string | undefined,
    state: encode(state) as Parameters<typeof putCheckpoint>[1]["state"],
    metadata: encode(tuple.metadata),
    source: tuple.metadata?.source,
    pinned: tuple.metadata?.counters_since_delta_snapshot !== undefined,
    onlyOnHead: false,
    mayDangle: true,
  };
  await encoder.verifyDecodable();
  await putCheckpoint(thread, checkpoint);
  for (const { task, writes: ofTask } of stored) await putWrites(thread, place, id, task, ofTask);
}

/** Are they alike, as far as anything can be told from what LangGraph reads? */
function verify(thread: string, original: CheckpointTuple, copy: CheckpointTuple | undefined): void {
  if (copy && isDeepStrictEqual(comparable(original), comparable(copy))) return;
  const id = original.checkpoint.id;
  throw new SavepointError(
    "CONFLICT",
    `Checkpoint ${id} of thread ${JSON.stringify(thread)} is not what it is in the other saver. Nothing of the other one was changed. If the thread was used here since it was migrated, delete it here or leave it out with \`threads\`.`,
    { details: { threadId: thread, checkpointId: id } },
  );
}

/** What both have to say, in their stored form; writes in an order that does not depend on the saver. */
function comparable({ checkpoint, metadata, parentConfig, pendingWrites = [] }: CheckpointTuple): unknown {
  const parent: unknown = parentConfig?.configurable?.["checkpoint_id"];
  const keyed = pendingWrites.map((write) => [JSON.stringify(write), write] as const);
  const writes = keyed.sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0)).map(([, write]) => write);
  return new Encoder().encode([checkpoint, metadata, parent, writes]);
}

/** The checkpoints of a thread, parents first. */
async function listThread(source: AnySaver, thread: string): Promise<Listed[]> {
  const config = { configurable: { thread_id: thread } };
  const listed = await listAll(source, config, ({ config: { configurable = {} } }) => {
    const { checkpoint_ns: namespace, checkpoint_id: id } = configurable as Record<string, string | undefined>;
    const named = { thread_id: thread, checkpoint_ns: namespace ?? "", checkpoint_id: id };
    return { namespace: namespace ?? "", id: id ?? "", config: { configurable: named } };
  });
  return listed.sort((a, b) => (a.id < b.id ? -1 : a.id > b.id ? 1 : 0));
}

async function threadIds(source: AnySaver): Promise<string[]> {
  const ids = await listAll(source, {}, ({ config }) => ({
    id: String(config.configurable?.["checkpoint_id"]),
    thread: String(config.configurable?.["thread_id"]),
  }));
  return [...new Set(ids.map(({ thread }) => thread))];
}

/**
 * Everything that a saver lists. It is asked for in pages, because some savers read all that they list before they give
 * the first; where it is not listed in the order of ids, pages would leave something out, and all is asked for at once.
 */
async function listAll<T extends { readonly id: string }>(
  source: AnySaver,
  config: RunnableConfig,
  take: (tuple: CheckpointTuple) => T,
): Promise<T[]> {
  const found: T[] = [];
  for (let before: string | undefined; ;) {
    const cursor = before === undefined ? {} : { before: { configurable: { checkpoint_id: before } } };
    const page: T[] = [];
    for await (const tuple of source.list(config, { limit: PAGE, ...cursor })) page.push(take(tuple));
    const ids = [...(before === undefined ? [] : [before]), ...page.map(({ id }) => id)];
    if (ids.some((id, index) => index > 0 && id >= (ids[index - 1] as string))) break;
    found.push(...page);
    if (page.length < PAGE) return found;
    before = ids.at(-1);
  }
  const all: T[] = [];
  for await (const tuple of source.list(config)) all.push(take(tuple));
  return all;
}
