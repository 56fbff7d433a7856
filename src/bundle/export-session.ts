/**
 * Exports a session as a section of a bundle. Can also export a single checkpoint, as a session that contains only this
 * checkpoint.
 *
 * Other processes may save checkpoints during the export. The branches, runs and queue entries of the session are read from
 * one snapshot, and anything newer is left out. If data is missing because it was removed during the export, the section is
 * exported again.
 */
import { journalRefs, Marks, rowRefs } from "../gc/index.js";
import {
  annotationCounterKey,
  ANNOTATIONS_TAPE,
  annotationsOf,
  branchesOf,
  branchKey,
  type BranchRecord,
  type CheckpointRow,
  decodeBranch,
  decodeJournal,
  decodeNumbers,
  decodeQueueEntry,
  decodeRow,
  decodeSession,
  encodeBranch,
  encodeQueueEntry,
  encodeRow,
  encodeSession,
  journalKey,
  MAIN,
  notesOf,
  queueEntryKey,
  rowsOf,
  runsOf,
  seqOfRowKey,
  sessionKey,
  type SessionRecord,
  tapeName,
} from "../records/index.js";
import { sessionDeleted, type SessionReader } from "../sessions/index.js";
import { scan, scanPages, type Store, type StoredRecord } from "../store/index.js";
import type { BundleLine, SectionLines } from "./format.js";
import { blobLines, exportUnchanged, itemLines, type WrittenBlobs } from "./frames.js";

/** The records of a session at one moment. */
interface SessionSnapshot {
  readonly session: SessionRecord;
  readonly branches: readonly BranchRecord[];
  /** The records of its runs, by their keys without the common prefix. */
  readonly runs: ReadonlyMap<string, string>;
  /** By branch. */
  readonly queueEntries: ReadonlyMap<string, string>;
  /** Records of these kinds that are damaged. */
  readonly holes: readonly BundleLine[];
  /** Differs if any of the records has changed. */
  readonly fingerprint: string;
}

/**
 * Yields the lines of the section of a session; nothing if the session does not exist.
 *
 * @param highest a session with a higher number is newer than the export and left out
 * @param options.only export only this checkpoint
 * @param options.required fail if the session is deleted during the export, instead of leaving it out
 */
export async function* exportSession(
  reader: SessionReader,
  highest: number,
  blobsWritten: WrittenBlobs,
  { only, required = false }: { readonly only?: CheckpointRow; readonly required?: boolean } = {},
): SectionLines {
  const first = await readSnapshot(reader);
  if (!first || first.session.number > highest) return;
  const { number, createdAt } = first.session;
  yield { begin: "session", id: reader.sessionId, number, createdAt };
  const readAgain = async (): Promise<SessionSnapshot | undefined> => {
    const snapshot = await readSnapshot(reader);
    return snapshot?.session.number === number ? snapshot : undefined;
  };
  const exists = yield* exportUnchanged(first, readAgain, (snapshot) =>
    only ? checkpointLines(reader, snapshot, only, blobsWritten) : sessionLines(reader, snapshot, blobsWritten),
  );
  if (!exists && required) throw sessionDeleted(reader.sessionId);
}

async function readSnapshot(reader: SessionReader): Promise<SessionSnapshot | undefined> {
  const { store } = reader.context;
  const { sessionId } = reader;
  const names: string[] = [];
  for await (const { key } of scan(store, branchesOf(sessionId)))
    names.push(key.slice(branchesOf(sessionId).from.length));
  const runKeys: string[] = [];
  for await (const { key } of scan(store, runsOf(sessionId))) runKeys.push(key);
  const branchKeys = names.map((name) => branchKey(sessionId, name));
  // All branches that may have a queue entry: an enqueued session has one for `main`, but no branch before it starts.
  const queued = [...new Set([MAIN, ...names])];
  const entryKeys = queued.map((name) => queueEntryKey(sessionId, name));
  // One call reads all records from one snapshot: a journal is valid only with the head that it was recorded after.
  const found = await store.get([sessionKey(sessionId), ...branchKeys, ...entryKeys, ...runKeys]);
  const holes: BundleLine[] = [];
  const readable = found.map((record): StoredRecord | undefined => {
    if (record && "unreadable" in record) holes.push({ hole: record.key, reason: record.unreadable });
    return record && "value" in record ? record : undefined;
  });
  const [own, ...others] = readable;
  if (!own) {
    // Throws if the record is damaged; returns if it is missing.
    await reader.session();
    return undefined;
  }
  const branches = others.slice(0, names.length).flatMap((record) => (record ? [decodeBranch(record.value)] : []));
  const queueEntries = new Map<string, string>();
  for (const [index, name] of queued.entries()) {
    const record = others[names.length + index];
    // Without the owner: no process runs this session in the store that imports the bundle.
    if (record) queueEntries.set(name, encodeQueueEntry({ ...decodeQueueEntry(record.value), owner: undefined }));
  }
  const runs = new Map<string, string>();
  for (const record of others.slice(names.length + queued.length)) {
    if (record) runs.set(record.key.slice(runsOf(sessionId).from.length), record.value);
  }
  const fingerprint = JSON.stringify(readable);
  return { session: decodeSession(own.value), branches, runs, queueEntries, holes, fingerprint };
}

async function* sessionLines(
  reader: SessionReader,
  snapshot: SessionSnapshot,
  blobsWritten: WrittenBlobs,
): AsyncGenerator<BundleLine> {
  const { store } = reader.context;
  const { session, branches, runs, queueEntries } = snapshot;
  const { number, nextSeq } = session;
  yield* snapshot.holes;
  const rows = new Map<number, { readonly value: string; readonly refs: string }>();
  for await (const record of scan(store, rowsOf(number, 0, nextSeq))) {
    if ("value" in record) rows.set(seqOfRowKey(record.key), { value: record.value, refs: record.refs });
    else yield { hole: `checkpoint #${seqOfRowKey(record.key)}`, reason: record.unreadable };
  }
  // If a branch has moved on, its head in the snapshot may have been pruned since. It is exported all the same.
  for (const { head, hidden } of branches) {
    if (head && !hidden && !rows.has(head.seq))
      rows.set(head.seq, { value: encodeRow(head), refs: head.skeleton.refs });
  }
  const reached = markReached(reader, number);
  const { marks } = reached;
  for (const { name } of branches) {
    const value = runs.get(journalKey(reader.sessionId, name).slice(runsOf(reader.sessionId).from.length));
    const journal = value === undefined ? undefined : decodeJournal(value);
    if (journal?.number !== number) continue;
    await marks.markFrames([journalRefs(journal)]);
  }
  await marks.markFrames(branches.flatMap(({ head }) => (head ? [rowRefs(head)] : [])));
  await marks.markFrames([...rows].map(([seq, { value, refs }]) => rowRefs(decodeRow(seq, value, refs))));
  const annotations = await annotationLines(store, marks, 0, nextSeq);
  yield* reachedLines(reader, reached, blobsWritten);

  for (const [row, { value, refs }] of rows) yield { row, value, ...(refs !== "" && { refs }) };
  for await (const record of scan(store, notesOf(number, 0, nextSeq))) {
    const { numbers, rest } = decodeNumbers(record.key.slice(1), 2);
    if ("value" in record) yield { note: [numbers[1] as number, rest, record.value] };
    else yield { hole: record.key, reason: record.unreadable };
  }
  yield* annotations;
  for (const run of runs) yield { run };
  for (const due of queueEntries) yield { due };
  for (const branch of branches) {
    const row = branch.head && !branch.hidden ? rows.get(branch.head.seq) : undefined;
    const head = row && branch.head ? decodeRow(branch.head.seq, row.value, row.refs) : branch.head;
    // No run holds the branch in the store that imports the bundle.
    yield { branch: branch.name, value: encodeBranch({ ...branch, held: false, head }) };
  }
  yield { session: encodeSession({ ...session, checkpoints: rows.size }) };
}

/**
 * A session with one checkpoint, on `main`. Its position in a run is left out, because the steps before it are not exported. So it is
 * not running or waiting either, as it may have been in its run.
 */
async function* checkpointLines(
  reader: SessionReader,
  { session }: SessionSnapshot,
  row: CheckpointRow,
  blobsWritten: WrittenBlobs,
): AsyncGenerator<BundleLine> {
  const { number } = session;
  const reached = markReached(reader, number);
  const { marks } = reached;
  await marks.markFrames([rowRefs(row)]);
  const annotations = await annotationLines(reader.context.store, marks, row.seq, row.seq + 1);
  yield* reachedLines(reader, reached, blobsWritten);
  const tapes = [...marks.tapes()].filter(([tape]) => tape !== ANNOTATIONS_TAPE);
  const status = row.run && (row.status === "running" || row.status === "waiting") ? "open" : row.status;
  const root: CheckpointRow = {
    ...row,
    status,
    branch: MAIN,
    parent: undefined,
    grandparent: undefined,
    run: undefined,
  };
  yield { row: row.seq, value: encodeRow(root), ...(row.skeleton.refs !== "" && { refs: row.skeleton.refs }) };
  for (const [name, value] of (await reader.notes(number, row.seq, row.seq)).get(row.seq) ?? []) {
    yield { note: [row.seq, name, value] };
  }
  yield* annotations;
  const branch: BranchRecord = {
    name: MAIN,
    tape: row.tape,
    nextItem: endOfTape(marks, row.tape),
    epoch: 0,
    held: false,
    hidden: false,
    createdAt: row.createdAt,
    forkedFrom: undefined,
    head: root,
    headParentId: undefined,
  };
  yield { branch: MAIN, value: encodeBranch(branch) };
  const nextTape = Math.max(session.nextTape, row.tape + 1, ...tapes.map(([tape]) => tape + 1));
  yield { session: encodeSession({ ...session, nextSeq: row.seq + 1, nextTape, checkpoints: 1, policy: undefined }) };
}

/** What the marked frames reach: items, blobs, and references that cannot be followed. */
interface ReachedParts {
  readonly marks: Marks;
  readonly blobs: ReadonlySet<string>;
  readonly holes: readonly BundleLine[];
}

function markReached(reader: SessionReader, number: number): ReachedParts {
  const blobs = new Set<string>();
  const holes: BundleLine[] = [];
  const marks = new Marks(reader, number, blobs, ({ unreadable }) => {
    holes.push({ hole: "a referenced item", reason: unreadable });
  });
  return { marks, blobs, holes };
}

/**
 * Reads the annotations of the checkpoints from one seq (included) to another (excluded), and marks the items that they
 * reference. In the bundle format, an annotation is a line `attached`, and the number of items on their tape is `attachments`.
 */
async function annotationLines(store: Store, marks: Marks, from: number, to: number): Promise<BundleLine[]> {
  const { number } = marks;
  // The counter is read before the annotations: items of annotations that are added later have higher numbers.
  const [counter] = await store.get([annotationCounterKey(number)]);
  const lines: BundleLine[] = [];
  for await (const page of scanPages(store, annotationsOf(number, from, to))) {
    for (const record of page) {
      const { numbers, rest } = decodeNumbers(record.key.slice(1), 2);
      if (!("value" in record)) lines.push({ hole: record.key, reason: record.unreadable });
      else lines.push({ attached: [numbers[1] as number, rest, record.value, record.refs] });
    }
    await marks.markFrames(
      page.flatMap((record) => ("value" in record ? [{ refs: record.refs, tape: ANNOTATIONS_TAPE }] : [])),
    );
  }
  const count = counter && "value" in counter ? Number(counter.value) : 0;
  const attachments = String(Math.max(count, endOfTape(marks, ANNOTATIONS_TAPE)));
  return lines.length === 0 && attachments === "0" ? [] : [...lines, { attachments }];
}

/** One more than the number of the last marked item of a tape; 0 if there is none. */
function endOfTape(marks: Marks, tape: number): number {
  const last = [...marks.tapes()].find(([each]) => each === tape)?.[1].at(-1);
  return last ? last.start + last.count : 0;
}

async function* reachedLines(
  { context }: SessionReader,
  { marks, blobs, holes }: ReachedParts,
  blobsWritten: WrittenBlobs,
): AsyncGenerator<BundleLine> {
  yield* blobLines(context, blobs, blobsWritten);
  for (const [tape, spans] of marks.tapes()) yield* itemLines(context, tapeName(marks.number, tape), tape, spans);
  yield* holes;
}
