/** Looks at one session: whether its records fit together, and, closely, whether its states can be read. */
import { isSavepointError } from "../errors.js";
import { type ItemSpan, scanPages } from "../store/index.js";
import { journalRefs, rowRefs, Marks, readJournals, MarkError } from "../gc/index.js";
import {
  agentOfHistoryId,
  agentSessionKey,
  ANNOTATIONS_TAPE,
  annotationsOf,
  branchKey,
  type BranchRecord,
  decodeSession,
  idKey,
  labelKey,
  MAIN,
  sessionNumberKey,
  type CheckpointRow,
  rowKey,
  encodesPlace,
  sessionKey,
  type SessionRecord,
  tapeName,
  tapeNumberOf,
} from "../records/index.js";
import type { SessionReader } from "../sessions/index.js";
import type { Finding } from "./findings.js";
import { findUnreadableItems, type SurveyOptions, type UnreadableItem } from "./survey-types.js";

/** Records that are read at once. */
const MANY = 256;

/** @param blobs gets the hashes of all bytes that its states have */
export async function* surveySession(
  reader: SessionReader,
  number: number,
  options: SurveyOptions,
  blobs: Set<string>,
): AsyncGenerator<Finding> {
  const rows: CheckpointRow[] = [];
  const seqs = new Set<number>();
  for await (const row of reader.allRows(number, false)) {
    seqs.add(row.seq);
    if (!("unreadable" in row)) rows.push(row);
  }
  const branches = await readBranches(reader);
  yield* structure(reader, number, rows, seqs, branches);

  const seen = options.sample >= 1 ? rows : rows.filter(() => options.random() < options.sample);
  options.counts.checkpoints += seen.length;
  const findings: Finding[] = [];
  const marks = new Marks(reader, number, blobs, ({ unreadable }) => {
    // A closer look finds the items themselves.
    if (!options.deep) findings.push(problem(reader, "item", "what items point at", unreadable));
  });
  await markHeads(reader, number, branches, marks);
  await marks.markFrames(seen.map(rowRefs));
  for await (const page of scanPages(reader.context.store, annotationsOf(number))) {
    await marks.markFrames(
      page.flatMap((record) => ("value" in record ? [{ refs: record.refs, tape: ANNOTATIONS_TAPE }] : [])),
    );
  }
  if (options.deep) {
    const damaged: UnreadableItem[] = [];
    for await (const item of findUnreadableItems(reader.context, spansOf(marks), options, blobs)) damaged.push(item);
    const checkpoints = await affected(reader, number, rows, damaged);
    for (const [index, { tape, item, reason }] of damaged.entries()) {
      const found = problem(reader, "item", `item ${item} of tape ${tapeNumberOf(tape)}`, reason);
      findings.push({ ...found, checkpoints: checkpoints[index] ?? [], location: { tape, item } });
    }
  }
  yield* findings;
}

/** All that is marked. */
function* spansOf(marks: Marks): Generator<ItemSpan> {
  for (const [tape, spans] of marks.tapes()) {
    for (const span of spans) yield { tape: tapeName(marks.number, tape), ...span };
  }
}

async function* structure(
  reader: SessionReader,
  number: number,
  rows: readonly CheckpointRow[],
  seqs: ReadonlySet<number>,
  branches: readonly BranchRecord[],
): AsyncGenerator<Finding> {
  const { store } = reader.context;
  const [own, main] = await store.get([sessionKey(reader.sessionId), branchKey(reader.sessionId, MAIN)]);
  // It was deleted, and begun anew, since it was listed.
  const session = own && "value" in own ? decodeSession(own.value) : undefined;
  if (session && session.number !== number) return;
  yield* lists(reader, number, session, rows);
  // What was deleted since it was listed is not damaged.
  const isThere = rows.length > 0 && (await reader.row(number, rows[0]?.seq ?? 0)) !== undefined;
  if (!own && isThere) yield missing(reader, sessionKey(reader.sessionId), "its record is missing");
  if (!main && isThere) yield missing(reader, branchKey(reader.sessionId, MAIN), "its branch main is missing");
  for (const { name, head, hidden } of branches) {
    if (!head || hidden || seqs.has(head.seq)) continue;
    const reason = `its newest checkpoint, #${head.seq}, is missing`;
    const found = problem(reader, "structure", `branch ${name}`, reason);
    yield { ...found, checkpoints: [head.id], location: { record: rowKey(number, head.seq) } };
  }
  for (const { id, seq, parent } of rows) {
    if (parent === undefined || seqs.has(parent) || branches.some(({ head }) => head?.seq === parent)) continue;
    const place = `checkpoint #${seq}`;
    const found = problem(reader, "structure", place, `its parent, #${parent}, is missing`);
    yield { ...found, checkpoints: [id], location: { record: rowKey(number, parent) } };
  }
}

/** The records that lead to a session and to its checkpoints. */
async function* lists(
  reader: SessionReader,
  number: number,
  session: SessionRecord | undefined,
  rows: readonly CheckpointRow[],
): AsyncGenerator<Finding> {
  const keys = session ? [sessionNumberKey(number)] : [];
  if (session?.agent !== undefined) keys.push(agentSessionKey(session.agent, number));
  const notes = await reader.notes(number, 0, session?.nextSeq ?? 0);
  for (const { id, seq, label } of rows) {
    if (!encodesPlace(id, number, seq)) keys.push(idKey(id, number));
    const now = notes.get(seq)?.get("label") ?? label;
    if (now) keys.push(labelKey(number, now, seq));
  }
  for (let from = 0; from < keys.length; from += MANY) {
    const some = keys.slice(from, from + MANY);
    for (const [index, found] of (await reader.context.store.get(some)).entries()) {
      if (!found)
        yield {
          ...problem(reader, "structure", "a list", "a record is missing"),
          location: { record: some[index] as string },
        };
    }
  }
}

async function readBranches(reader: SessionReader): Promise<BranchRecord[]> {
  const branches: BranchRecord[] = [];
  try {
    for await (const { record } of reader.branches()) branches.push(record);
  } catch (error) {
    // It is among the records that cannot be read.
    if (!isSavepointError(error, "DAMAGED")) throw error;
  }
  return branches;
}

/** What heads without rows and journals point at. */
async function markHeads(
  reader: SessionReader,
  number: number,
  branches: readonly BranchRecord[],
  marks: Marks,
): Promise<void> {
  await marks.markFrames(branches.flatMap(({ head }) => (head ? [rowRefs(head)] : [])));
  try {
    const journals = await readJournals(reader);
    await marks.markFrames(journals.filter((journal) => journal.number === number).map(journalRefs));
  } catch (error) {
    // A journal, or the branch that it belongs to, is among the records that cannot be read.
    if (!(error instanceof MarkError) && !isSavepointError(error, "DAMAGED")) throw error;
  }
}

/** The checkpoints that need each of these items. */
async function affected(
  reader: SessionReader,
  number: number,
  rows: readonly CheckpointRow[],
  items: readonly UnreadableItem[],
): Promise<string[][]> {
  const ids = items.map((): string[] => []);
  if (items.length === 0) return ids;
  for (const row of rows) {
    const marks = new Marks(reader, number, new Set(), () => {});
    await marks.markFrames([rowRefs(row)]);
    for (const [index, { tape, item }] of items.entries()) {
      if (marks.liveSpans(tape).some(({ start, count }) => item >= start && item < start + count))
        ids[index]?.push(row.id);
    }
  }
  return ids;
}

function missing(reader: SessionReader, key: string, reason: string): Finding {
  return { ...problem(reader, "structure", describe(reader), reason), location: { record: key } };
}

function problem(reader: SessionReader, kind: Finding["kind"], place: string, reason: string): Finding {
  const agent = agentOfHistoryId(reader.sessionId);
  const of = agent === undefined ? { sessionId: reader.sessionId } : { agent };
  return { kind, ...of, checkpoints: [], place: `${describe(reader)}: ${place}`, reason };
}

function describe({ sessionId }: SessionReader): string {
  const agent = agentOfHistoryId(sessionId);
  return agent === undefined ? `session ${sessionId}` : `agent ${agent}`;
}
