/**
 * Garbage collection: frees the items and blobs that no checkpoint reaches. It reads rows and refs, never the states of
 * sessions; conversations are collected by collect-conversations.ts.
 *
 * Three orders make it safe while other processes save:
 *
 * - Tapes are listed before branches. The first items of a tape are committed with the record of its branch, so a listed
 *   tape without a branch no longer has a writer.
 * - Item counters are read before rows. Items that are written later are numbered above them, and are not touched.
 * - Rows are read in the order of their seqs. A save refers only to what its parent reaches; so if the parent's row is
 *   removed before it is read, the child's row is read after it.
 *
 * If anything that may refer to items is damaged, nothing is freed.
 */
import { setImmediate as nextTurn } from "node:timers/promises";
import { isSavepointError } from "../errors.js";
import { type Freed, type RecordResult, scan, scanPages, type StoredRecord } from "../store/index.js";
import { releaseAbandonedImports } from "./abandoned-imports.js";
import { freeAllGarbage, SessionReader } from "../sessions/index.js";
import { addFreed, collectConversations, listAgentsWithConversations } from "./collect-conversations.js";
import type { Context } from "../context.js";
import {
  agentHistoryId,
  ALL_SESSION_NUMBERS,
  annotationCounterKey,
  ANNOTATIONS_TAPE,
  annotationsOf,
  decodeNumbers,
  decodeRow,
  rowsOf,
  seqOfRowKey,
  streamTape,
  tapeName,
  tapesOf,
} from "../records/index.js";
import { journalRefs, MarkError, rowRefs, Marks, readJournals } from "./marks.js";

/** What a garbage collection has freed. */
export interface CollectReport {
  /** How many deleted sessions and conversations were freed. */
  readonly sessions: number;
  readonly items: number;
  readonly blobs: number;
  /** Bytes of the freed items and blobs. The file itself may shrink later, or only with `compact()`. */
  readonly bytes: number;
  /** `false` if something that may refer to items or blobs is damaged: then its items and all blobs were kept. */
  readonly complete: boolean;
}

/** A blob must be unused for this long before it is freed: a save in progress may refer to it without its bytes. */
const BLOB_AGE = 3_600_000;

/** How to collect. */
export interface CollectOptions {
  /** Called after each session. An error that it throws stops the collection there. */
  readonly onProgress?: (progress: { readonly sessions: number }) => void;
}

/**
 * Collects the garbage of a store.
 *
 * @param options.repack also rewrite chunks that contain live items and garbage
 * @param options.recentBlobs also free blobs that were used within the last hour. A save in progress that expects one fails
 */
export async function collectGarbage(
  context: Context,
  options: CollectOptions & { readonly repack: boolean; readonly recentBlobs?: boolean },
): Promise<CollectReport> {
  const { store } = context;
  const unusedSince = (await store.now()) - (options.recentBlobs ? 0 : BLOB_AGE);
  await releaseAbandonedImports(context);
  const sessions = await freeAllGarbage(context);
  const blobs = new Set<string>();
  let freed: Freed = { items: 0, bytes: 0 };
  let complete = true;
  let done = 0;
  const add = (result: Freed | undefined): void => {
    if (result) freed = addFreed(freed, result);
    else complete = false;
  };
  for await (const { reader, number } of allSessions(context)) {
    // A local store answers without a turn of the event loop; saves must be able to run in between.
    await nextTurn();
    add(reader && (await collectSession(reader, number, blobs, options.repack)));
    options.onProgress?.({ sessions: ++done });
  }
  for (const agent of await listAgentsWithConversations(context)) {
    add(await collectAgent(context, agent, blobs, options.repack));
  }
  const dropped = complete ? await dropBlobs(context, blobs, unusedSince) : { items: 0, bytes: 0 };
  return { sessions, items: freed.items, blobs: dropped.items, bytes: freed.bytes + dropped.bytes, complete };
}

/** Collects the conversations of an agent; `undefined` if it is not known what is needed, then nothing was freed. */
async function collectAgent(
  context: Context,
  agent: string,
  blobs: Set<string>,
  repack: boolean,
): Promise<Freed | undefined> {
  try {
    return await collectConversations(context, agent, blobs, repack);
  } catch (error) {
    if (!(error instanceof MarkError) && !isSavepointError(error, "DAMAGED")) throw error;
    const reason = `no messages of its conversations were freed: ${error.message}`;
    new SessionReader(context, agentHistoryId(agent)).reportDamage(undefined, undefined, reason);
    return undefined;
  }
}

interface ListedSession {
  /** `undefined` if the id of the session cannot be read: then its branches, and so their counters, cannot be found. */
  readonly reader: SessionReader | undefined;
  readonly number: number;
}

async function* allSessions(context: Context): AsyncGenerator<ListedSession> {
  for await (const record of scan(context.store, ALL_SESSION_NUMBERS)) {
    const number = decodeNumbers(record.key.slice(1), 1).numbers[0] as number;
    if ("value" in record) yield { reader: new SessionReader(context, record.value), number };
    else {
      const reason = `nothing was freed from session number ${number}: ${record.unreadable}`;
      new SessionReader(context, "").reportDamage(undefined, undefined, reason);
      yield { reader: undefined, number };
    }
  }
}

/**
 * Frees the items of a session that no checkpoint reaches; `undefined` if something is damaged, then nothing was freed.
 */
export async function collectSession(
  reader: SessionReader,
  number: number,
  blobs: Set<string>,
  repack: boolean,
): Promise<Freed | undefined> {
  const { store } = reader.context;
  const tapes = await store.tapes(tapesOf(number));
  const counters = new Map<string, number>();
  const marks = new Marks(reader, number, blobs);
  try {
    // Journals before heads: entries that a journal no longer has by then are reached from the head that was saved after
    // them.
    for (const journal of await readJournals(reader)) {
      if (journal.number !== number) continue;
      counters.set(tapeName(number, journal.tape), journal.first + journal.count);
      counters.set(
        tapeName(number, streamTape(journal.tape)),
        (journal.stream?.first ?? 0) + (journal.stream?.count ?? 0),
      );
      await marks.markFrames([journalRefs(journal)]);
    }
    for await (const { record } of reader.branches()) {
      counters.set(tapeName(number, record.tape), record.nextItem);
      // A hidden head has no row.
      if (record.hidden && record.head) await marks.markFrames([rowRefs(record.head)]);
    }
    const [counter] = await store.get([annotationCounterKey(number)]);
    if (counter && !("value" in counter)) throw new MarkError(counter);
    counters.set(tapeName(number, ANNOTATIONS_TAPE), Number(counter?.value ?? 0));
    for await (const page of scanPages(store, annotationsOf(number))) {
      await marks.markFrames(page.map(requireReadable).map(({ refs }) => ({ refs, tape: ANNOTATIONS_TAPE })));
    }
    for await (const page of scanPages(store, rowsOf(number))) {
      await marks.markFrames(
        page.map(requireReadable).map(({ key, value, refs }) => rowRefs(decodeRow(seqOfRowKey(key), value, refs))),
      );
    }
  } catch (error) {
    if (!(error instanceof MarkError) && !isSavepointError(error, "DAMAGED")) throw error;
    const reason = error instanceof MarkError ? error.damage.unreadable : error.message;
    reader.reportDamage(undefined, undefined, `nothing was freed: ${reason}`);
    return undefined;
  }
  let freed: Freed = { items: 0, bytes: 0 };
  for (const tape of tapes) {
    const below = counters.get(tape) ?? Number.MAX_SAFE_INTEGER;
    freed = addFreed(freed, await store.retain(tape, marks.liveSpans(tape), { below, repack }));
  }
  return freed;
}

function requireReadable(record: RecordResult): StoredRecord {
  if (!("value" in record)) throw new MarkError(record);
  return record;
}

async function dropBlobs({ store }: Context, live: ReadonlySet<string>, unusedSince: number): Promise<Freed> {
  let freed: Freed = { items: 0, bytes: 0 };
  for (let after = ""; ;) {
    const hashes = await store.blobs({ after, limit: 500 });
    const last = hashes.at(-1);
    if (last === undefined) return freed;
    const unused = hashes.filter((hash) => !live.has(hash));
    freed = addFreed(freed, await store.dropBlobs(unused, { unusedSince }));
    after = last;
  }
}
