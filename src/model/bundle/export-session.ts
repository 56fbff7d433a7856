/**
 * A session as a section of a bundle; or one of its checkpoints, as a session that has only that.
 *
 * It may be saved in meanwhile: what is newer than the counters that were read first is left out. Items come first, then the
 * rows that are still there, so that no row comes without what it points at.
 */
import { SavepointError } from "../../errors.js";
import { formatRefs } from "../../state/refs.js";
import { type FoundRecord, scan } from "../../store/scan.js";
import { decodeNumbers, dueOf, notesOf, placeOfDue, rowsOf, runsOf, seqOf, tapeName } from "../keys.js";
import { Marks, readJournals } from "../marks.js";
import {
  type BranchRecord,
  decodeRow,
  encodeBranch,
  encodeRow,
  encodeSession,
  MAIN,
  type Row,
  type SessionRecord,
} from "../records.js";
import type { SessionReader } from "../session-reader.js";
import type { BundleLine, SectionStart } from "./format.js";
import { blobLines, itemLines } from "./frames.js";

/** What a session was when its export began. */
interface Seen {
  readonly session: SessionRecord;
  readonly branches: readonly BranchRecord[];
}

/** @param only one checkpoint, if not all of them are wanted */
export async function* exportSession(
  reader: SessionReader,
  blobsWritten: Set<string>,
  only?: Row,
): AsyncGenerator<SectionStart | BundleLine> {
  const seen = await see(reader);
  if (!seen) return;
  const { session, branches } = seen;
  const { number } = session;
  const head = only ?? (branches.find(({ name }) => name === MAIN) ?? branches[0])?.head;
  yield { begin: "session", id: reader.sessionId, number, createdAt: session.createdAt, head: head?.id };

  const holes: BundleLine[] = [];
  const blobs = new Set<string>();
  const marks = new Marks(reader, number, blobs, ({ unreadable }) => holes.push({ hole: "", reason: unreadable }));
  if (only) await marks.frame(only.skeleton.refs, only.tape);
  else await markAll(reader, seen, marks);
  yield* blobLines(reader.context, blobs, blobsWritten);
  for (const [tape, spans] of marks.tapes()) yield* itemLines(reader.context, tapeName(number, tape), tape, spans);
  yield* holes;

  if (only) yield* onlyCheckpoint(reader, session, only, marks);
  else yield* allRecords(reader, seen);
}

async function see(reader: SessionReader): Promise<Seen | undefined> {
  const session = (await reader.session())?.record;
  if (!session) return undefined;
  const branches: BranchRecord[] = [];
  for await (const { record } of reader.branches()) branches.push(record);
  return { session, branches };
}

async function markAll(reader: SessionReader, { session, branches }: Seen, marks: Marks): Promise<void> {
  const { number } = session;
  for (const { number: of, tape, first, count } of await readJournals(reader)) {
    if (of === number) await marks.frame(formatRefs([{ pieces: [{ tape, start: first, count }] }], tape), tape);
  }
  for (const { head } of branches) if (head) await marks.frame(head.skeleton.refs, head.tape);
  for await (const row of readRows(reader, session)) await marks.frame(row.skeleton.refs, row.tape);
}

async function* readRows(reader: SessionReader, { number, nextSeq }: SessionRecord): AsyncGenerator<Row> {
  for await (const record of scan(reader.context.store, rowsOf(number, 0, nextSeq))) {
    if ("value" in record) yield decodeRow(seqOf(record.key), record.value, record.refs);
  }
}

async function* allRecords(reader: SessionReader, seen: Seen): AsyncGenerator<BundleLine> {
  const { store } = reader.context;
  const { session, branches } = seen;
  const { number, nextSeq } = session;
  const heads = new Map(branches.flatMap(({ head }) => (head ? [[head.seq, head] as const] : [])));
  let checkpoints = 0;
  for await (const record of scan(store, rowsOf(number, 0, nextSeq))) {
    const row = seqOf(record.key);
    if (!("value" in record)) yield { hole: `row ${row}`, reason: record.unreadable };
    else {
      if (heads.has(row)) heads.set(row, decodeRow(row, record.value, record.refs));
      yield { row, value: record.value, ...(record.refs !== "" && { refs: record.refs }) };
      checkpoints++;
    }
  }
  for await (const record of scan(store, notesOf(number, 0, nextSeq))) {
    const { numbers, rest } = decodeNumbers(record.key.slice(1), 2);
    if ("value" in record) yield { note: [numbers[1] as number, rest, record.value] };
    else yield damagedRecord(record);
  }
  for await (const record of scan(store, runsOf(reader.sessionId))) {
    const key = record.key.slice(runsOf(reader.sessionId).from.length);
    yield "value" in record ? { run: [key, record.value] } : damagedRecord(record);
  }
  for await (const record of scan(store, dueOf(reader.sessionId))) {
    yield "value" in record ? { due: [placeOfDue(record.key).branch, record.value] } : damagedRecord(record);
  }
  for (const branch of branches) {
    const head = branch.head && heads.get(branch.head.seq);
    // Nobody runs it where it goes.
    const value = encodeBranch({ ...branch, held: false, ...(head && { head }) });
    yield { branch: branch.name, value };
  }
  yield { session: encodeSession({ ...session, checkpoints }) };
  await checkStillThere(reader, session);
}

/** What was cleared or deleted while it was read would be there in part. */
async function checkStillThere(reader: SessionReader, { number }: SessionRecord): Promise<void> {
  if ((await reader.session())?.record.number === number) return;
  throw new SavepointError(
    "SESSION_DELETED",
    `Session ${JSON.stringify(reader.sessionId)} was deleted while it was exported. Export again.`,
  );
}

/** A session that has one checkpoint, on `main`. Where it stood in a run is left out: what came before is not there. */
async function* onlyCheckpoint(
  reader: SessionReader,
  session: SessionRecord,
  row: Row,
  marks: Marks,
): AsyncGenerator<BundleLine> {
  const { number } = session;
  const alone: Row = { ...row, branch: MAIN, parent: undefined, grandparent: undefined, run: undefined };
  const tapes = [...marks.tapes()];
  const [own] = tapes.filter(([tape]) => tape === row.tape).map(([, spans]) => spans);
  const last = own?.at(-1);
  yield { row: row.seq, value: encodeRow(alone), ...(row.skeleton.refs !== "" && { refs: row.skeleton.refs }) };
  for (const [name, value] of (await reader.notes(number, row.seq, row.seq)).get(row.seq) ?? []) {
    yield { note: [row.seq, name, value] };
  }
  const branch: BranchRecord = {
    name: MAIN,
    tape: row.tape,
    nextItem: last ? last.start + last.count : 0,
    epoch: 0,
    held: false,
    hidden: false,
    createdAt: row.createdAt,
    from: undefined,
    head: alone,
    headParentId: undefined,
  };
  yield { branch: MAIN, value: encodeBranch(branch) };
  const nextTape = Math.max(session.nextTape, row.tape + 1, ...tapes.map(([tape]) => tape + 1));
  yield { session: encodeSession({ ...session, nextSeq: row.seq + 1, nextTape, checkpoints: 1, policy: undefined }) };
}

function damagedRecord({ key, ...record }: Exclude<FoundRecord, { value: string }>): BundleLine {
  return { hole: key, reason: record.unreadable };
}
