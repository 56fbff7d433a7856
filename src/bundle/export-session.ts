/**
 * A session as a section of a bundle; or one of its checkpoints, as a session that has only that.
 *
 * It may be changed meanwhile. What its saves and runs hang on is read at one moment; what is newer than that is left out.
 * Where something is missing that went since, the section is begun again.
 */
import {
  annotationCounterKey,
  ANNOTATIONS_TAPE,
  annotationsOf,
  branchesOf,
  branchKey,
  type BranchRecord,
  decodeBranch,
  decodeQueueEntry,
  decodeJournal,
  decodeNumbers,
  decodeRow,
  decodeSession,
  queueEntryKey,
  encodeBranch,
  encodeQueueEntry,
  encodeRow,
  encodeSession,
  journalKey,
  MAIN,
  notesOf,
  type CheckpointRow,
  rowsOf,
  runsOf,
  seqOfRowKey,
  sessionKey,
  type SessionRecord,
  tapeName,
} from "../records/index.js";
import { scan, scanPages, type Store, type StoredRecord } from "../store/index.js";
import { journalRefs, rowRefs, Marks } from "../gc/index.js";
import { sessionDeleted, type SessionReader } from "../sessions/index.js";
import type { BundleLine, SectionStart } from "./format.js";
import { blobLines, itemLines } from "./frames.js";

/** What a session was at one moment. */
interface Seen {
  readonly session: SessionRecord;
  readonly branches: readonly BranchRecord[];
  /** The records of its runs, by their keys without what all of them begin with. */
  readonly runs: ReadonlyMap<string, string>;
  readonly due: ReadonlyMap<string, string>;
  /** What of these could not be read. */
  readonly holes: readonly BundleLine[];
  /** All of it as one text, to tell whether it has changed. */
  readonly text: string;
}

/** Somebody always changes it. */
const MAX_TRIES = 20;

/**
 * @param highest what has a higher number was begun after the export, and is not part of it
 * @param options.only one checkpoint, if not all of them are wanted
 * @param options.required does it fail if the session is deleted meanwhile? Otherwise it is left out
 */
export async function* exportSession(
  reader: SessionReader,
  highest: number,
  blobsWritten: Set<string>,
  { only, required = false }: { readonly only?: CheckpointRow; readonly required?: boolean } = {},
): AsyncGenerator<SectionStart | BundleLine> {
  let seen = await see(reader);
  if (!seen || seen.session.number > highest) return;
  const { number, createdAt } = seen.session;
  yield { begin: "session", id: reader.sessionId, number, createdAt };
  for (let tries = 1; ; tries++) {
    let holes = 0;
    for await (const line of only
      ? oneCheckpoint(reader, seen, only, blobsWritten)
      : wholeSession(reader, seen, blobsWritten)) {
      if ("hole" in line) holes++;
      yield line;
    }
    // What is missing may have gone since; if nothing has changed, it is damage.
    const now: Seen | undefined = await see(reader);
    if (now && now.session.number === number && (holes === 0 || now.text === seen.text || tries === MAX_TRIES)) return;
    yield { again: true };
    if (!now || now.session.number !== number) {
      if (required) throw sessionDeleted(reader.sessionId);
      return;
    }
    seen = now;
  }
}

async function see(reader: SessionReader): Promise<Seen | undefined> {
  const { store } = reader.context;
  const { sessionId } = reader;
  const names: string[] = [];
  for await (const { key } of scan(store, branchesOf(sessionId)))
    names.push(key.slice(branchesOf(sessionId).from.length));
  const runKeys: string[] = [];
  for await (const { key } of scan(store, runsOf(sessionId))) runKeys.push(key);
  const branchKeys = names.map((name) => branchKey(sessionId, name));
  // A session that was enqueued is in the queue, and has no branch until it starts.
  const queued = [...new Set([MAIN, ...names])];
  const dueKeys = queued.map((name) => queueEntryKey(sessionId, name));
  // All at one moment: a journal belongs to the head that it was recorded after.
  const found = await store.get([sessionKey(sessionId), ...branchKeys, ...dueKeys, ...runKeys]);
  const holes: BundleLine[] = [];
  const readable = found.map((record): StoredRecord | undefined => {
    if (record && "unreadable" in record) holes.push({ hole: record.key, reason: record.unreadable });
    return record && "value" in record ? record : undefined;
  });
  const [own, ...others] = readable;
  if (!own) {
    // Reports that it is damaged, if it is.
    await reader.session();
    return undefined;
  }
  const branches = others.slice(0, names.length).flatMap((record) => (record ? [decodeBranch(record.value)] : []));
  const due = new Map<string, string>();
  for (const [index, name] of queued.entries()) {
    const record = others[names.length + index];
    // Whoever runs it here does not run it where it goes.
    if (record) due.set(name, encodeQueueEntry({ ...decodeQueueEntry(record.value), owner: undefined }));
  }
  const runs = new Map<string, string>();
  for (const record of others.slice(names.length + queued.length)) {
    if (record) runs.set(record.key.slice(runsOf(sessionId).from.length), record.value);
  }
  const text = JSON.stringify(readable);
  return { session: decodeSession(own.value), branches, runs, due, holes, text };
}

async function* wholeSession(reader: SessionReader, seen: Seen, written: Set<string>): AsyncGenerator<BundleLine> {
  const { store } = reader.context;
  const { session, branches, runs, due } = seen;
  const { number, nextSeq } = session;
  yield* seen.holes;
  const rows = new Map<number, { readonly value: string; readonly refs: string }>();
  for await (const record of scan(store, rowsOf(number, 0, nextSeq))) {
    if ("value" in record) rows.set(seqOfRowKey(record.key), { value: record.value, refs: record.refs });
    else yield { hole: `checkpoint #${seqOfRowKey(record.key)}`, reason: record.unreadable };
  }
  // The head of a branch that has moved on since may have been pruned; it is still what is exported.
  for (const { head, hidden } of branches) {
    if (head && !hidden && !rows.has(head.seq))
      rows.set(head.seq, { value: encodeRow(head), refs: head.skeleton.refs });
  }
  const holes: BundleLine[] = [];
  const blobs = new Set<string>();
  const marks = new Marks(reader, number, blobs, ({ unreadable }) => {
    holes.push({ hole: "what an item points at", reason: unreadable });
  });
  for (const { name } of branches) {
    const value = runs.get(journalKey(reader.sessionId, name).slice(runsOf(reader.sessionId).from.length));
    const journal = value === undefined ? undefined : decodeJournal(value);
    if (journal?.number !== number) continue;
    await marks.markFrames([journalRefs(journal)]);
  }
  await marks.markFrames(branches.flatMap(({ head }) => (head ? [rowRefs(head)] : [])));
  await marks.markFrames([...rows].map(([seq, { value, refs }]) => rowRefs(decodeRow(seq, value, refs))));
  const attached = await attachedLines(store, number, 0, nextSeq, marks);
  yield* stored(reader, number, marks, blobs, written);
  yield* holes;

  for (const [row, { value, refs }] of rows) yield { row, value, ...(refs !== "" && { refs }) };
  for await (const record of scan(store, notesOf(number, 0, nextSeq))) {
    const { numbers, rest } = decodeNumbers(record.key.slice(1), 2);
    if ("value" in record) yield { note: [numbers[1] as number, rest, record.value] };
    else yield { hole: record.key, reason: record.unreadable };
  }
  yield* attached;
  for (const run of runs) yield { run };
  for (const each of due) yield { due: each };
  for (const branch of branches) {
    const row = branch.head && !branch.hidden ? rows.get(branch.head.seq) : undefined;
    const head = row && branch.head ? decodeRow(branch.head.seq, row.value, row.refs) : branch.head;
    // Nobody runs it where it goes.
    yield { branch: branch.name, value: encodeBranch({ ...branch, held: false, head }) };
  }
  yield { session: encodeSession({ ...session, checkpoints: rows.size }) };
}

/** A session that has one checkpoint, on `main`. Where it stood in a run is left out: what came before is not there. */
async function* oneCheckpoint(
  reader: SessionReader,
  { session }: Seen,
  row: CheckpointRow,
  written: Set<string>,
): AsyncGenerator<BundleLine> {
  const { number } = session;
  const blobs = new Set<string>();
  const holes: BundleLine[] = [];
  const marks = new Marks(reader, number, blobs, ({ unreadable }) => {
    holes.push({ hole: "what an item points at", reason: unreadable });
  });
  await marks.markFrames([rowRefs(row)]);
  const attached = await attachedLines(reader.context.store, number, row.seq, row.seq + 1, marks);
  yield* stored(reader, number, marks, blobs, written);
  yield* holes;
  const tapes = [...marks.tapes()].filter(([tape]) => tape !== ANNOTATIONS_TAPE);
  const last = tapes.find(([tape]) => tape === row.tape)?.[1].at(-1);
  const alone: CheckpointRow = { ...row, branch: MAIN, parent: undefined, grandparent: undefined, run: undefined };
  yield { row: row.seq, value: encodeRow(alone), ...(row.skeleton.refs !== "" && { refs: row.skeleton.refs }) };
  for (const [name, value] of (await reader.notes(number, row.seq, row.seq)).get(row.seq) ?? []) {
    yield { note: [row.seq, name, value] };
  }
  yield* attached;
  const branch: BranchRecord = {
    name: MAIN,
    tape: row.tape,
    nextItem: last ? last.start + last.count : 0,
    epoch: 0,
    held: false,
    hidden: false,
    createdAt: row.createdAt,
    forkedFrom: undefined,
    head: alone,
    headParentId: undefined,
  };
  yield { branch: MAIN, value: encodeBranch(branch) };
  const nextTape = Math.max(session.nextTape, row.tape + 1, ...tapes.map(([tape]) => tape + 1));
  yield { session: encodeSession({ ...session, nextSeq: row.seq + 1, nextTape, checkpoints: 1, policy: undefined }) };
}

/** What is attached to the checkpoints from one seq (included) to another (excluded); marks what that points at. */
async function attachedLines(
  store: Store,
  number: number,
  from: number,
  to: number,
  marks: Marks,
): Promise<BundleLine[]> {
  // The counter first: what is attached later is numbered above it, and so are its items.
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
  const last = [...marks.tapes()].find(([tape]) => tape === ANNOTATIONS_TAPE)?.[1].at(-1);
  const count = counter && "value" in counter ? Number(counter.value) : 0;
  const attachments = String(Math.max(count, last ? last.start + last.count : 0));
  return lines.length === 0 && attachments === "0" ? [] : [...lines, { attachments }];
}

/** The bytes and items that anything points at. */
async function* stored(
  { context }: SessionReader,
  number: number,
  marks: Marks,
  blobs: ReadonlySet<string>,
  written: Set<string>,
): AsyncGenerator<BundleLine> {
  yield* blobLines(context, blobs, written);
  for (const [tape, spans] of marks.tapes()) yield* itemLines(context, tapeName(number, tape), tape, spans);
}
