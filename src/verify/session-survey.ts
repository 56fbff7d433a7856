/** Surveys one session: its records are consistent, and with `deep` all items of its states can be read. */
import { isSavepointError } from "../errors.js";
import { journalRefs, MarkError, Marks, readJournals, rowRefs } from "../gc/index.js";
import {
  agentOfHistoryId,
  agentSessionKey,
  ANNOTATIONS_TAPE,
  annotationsOf,
  branchKey,
  type BranchRecord,
  type CheckpointRow,
  decodeSession,
  encodesPlace,
  idKey,
  labelKey,
  MAIN,
  rowKey,
  sessionKey,
  sessionNumberKey,
  type SessionRecord,
  tapeName,
  tapeNumberOf,
} from "../records/index.js";
import type { SessionReader } from "../sessions/index.js";
import { decodeState } from "../state/index.js";
import { type ItemSpan, scanPages } from "../store/index.js";
import { type Finding, ownerOfSession } from "./findings.js";
import type { SurveyOptions } from "./survey-options.js";
import { findUnreadableItems, type UnreadableItem } from "./unreadable-items.js";

/** Records per read. */
const BATCH_SIZE = 256;

/**
 * Yields the damage of one session, or of the history of an agent.
 *
 * @param blobs receives the hashes of all blobs that its states reference
 */
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
  yield* surveyStructure(reader, number, rows, seqs, branches);

  const sample = options.sample >= 1 ? rows : rows.filter(() => options.random() < options.sample);
  options.counts.checkpoints += sample.length;
  const findings: Finding[] = [];
  const marks = new Marks(reader, number, blobs, ({ unreadable }) => {
    // With `deep`, the damaged items are found one by one below, but not ranges of items that never existed.
    if (!options.deep || unreadable.startsWith("a reference "))
      findings.push(buildFinding(reader, "item", "a referenced item", unreadable));
  });
  await markHeads(reader, number, branches, marks);
  await marks.markFrames(sample.map(rowRefs));
  for await (const page of scanPages(reader.context.store, annotationsOf(number))) {
    await marks.markFrames(
      page.flatMap((record) => ("value" in record ? [{ refs: record.refs, tape: ANNOTATIONS_TAPE }] : [])),
    );
  }
  if (options.deep) {
    const damaged: UnreadableItem[] = [];
    for await (const item of findUnreadableItems(reader.context, spansOf(marks), options, blobs)) damaged.push(item);
    const checkpoints = await findAffected(reader, number, rows, damaged);
    for (const [index, { tape, item, reason }] of damaged.entries()) {
      const finding = buildFinding(reader, "item", `item ${item} of tape ${tapeNumberOf(tape)}`, reason);
      findings.push({ ...finding, checkpoints: checkpoints[index] ?? [], location: { tape, item } });
    }
    if (findings.length === 0)
      for (const { head } of branches) findings.push(...(await surveyState(reader, number, head)));
  }
  yield* findings;
}

/** Decodes the state of a head without its blobs: all its items may be intact, and yet form no state. */
async function surveyState(reader: SessionReader, number: number, head: CheckpointRow | undefined): Promise<Finding[]> {
  if (!head) return [];
  try {
    await decodeState(head.skeleton, head.tape, { ...reader.stateReader(number), blob: async () => new Uint8Array() });
    return [];
  } catch (error) {
    if (!isSavepointError(error, "DAMAGED")) throw error;
    return [{ ...buildFinding(reader, "item", `checkpoint #${head.seq}`, error.message), checkpoints: [head.id] }];
  }
}

function* spansOf(marks: Marks): Generator<ItemSpan> {
  for (const [tape, spans] of marks.tapes()) {
    for (const span of spans) yield { tape: tapeName(marks.number, tape), ...span };
  }
}

/** Records that are missing: of the session, its branches, its heads, and the parents of its checkpoints. */
async function* surveyStructure(
  reader: SessionReader,
  number: number,
  rows: readonly CheckpointRow[],
  seqs: ReadonlySet<number>,
  branches: readonly BranchRecord[],
): AsyncGenerator<Finding> {
  const { store } = reader.context;
  const [own, main] = await store.get([sessionKey(reader.sessionId), branchKey(reader.sessionId, MAIN)]);
  const session = own && "value" in own ? decodeSession(own.value) : undefined;
  // The session was deleted, and created again, after it was listed.
  if (session && session.number !== number) return;
  yield* surveyIndexes(reader, number, session, rows);
  // A session that was deleted after it was listed is not damaged.
  const exists = rows.length > 0 && (await reader.row(number, rows[0]?.seq ?? 0)) !== undefined;
  const owner = describeOwner(reader);
  if (!own && exists) yield missing(reader, owner, "its record is missing", sessionKey(reader.sessionId));
  if (!main && exists) yield missing(reader, owner, "its branch main is missing", branchKey(reader.sessionId, MAIN));
  for (const { name, head, hidden } of branches) {
    if (!head || hidden || seqs.has(head.seq)) continue;
    const reason = `its head, #${head.seq}, is missing`;
    yield missing(reader, `branch ${name}`, reason, rowKey(number, head.seq), [head.id]);
  }
  for (const { id, seq, parent } of rows) {
    if (parent === undefined || seqs.has(parent) || branches.some(({ head }) => head?.seq === parent)) continue;
    const reason = `its parent, #${parent}, is missing`;
    yield missing(reader, `checkpoint #${seq}`, reason, rowKey(number, parent), [id]);
  }
}

/** Missing entries of the indexes by number, agent, checkpoint id and label. */
async function* surveyIndexes(
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
    const currentLabel = notes.get(seq)?.get("label") ?? label;
    if (currentLabel) keys.push(labelKey(number, currentLabel, seq));
  }
  for (let from = 0; from < keys.length; from += BATCH_SIZE) {
    const batch = keys.slice(from, from + BATCH_SIZE);
    for (const [index, found] of (await reader.context.store.get(batch)).entries()) {
      if (!found) yield missing(reader, "an index", "an entry is missing", batch[index] as string);
    }
  }
}

async function readBranches(reader: SessionReader): Promise<BranchRecord[]> {
  const branches: BranchRecord[] = [];
  try {
    for await (const { record } of reader.branches()) branches.push(record);
  } catch (error) {
    // The survey of records reports it.
    if (!isSavepointError(error, "DAMAGED")) throw error;
  }
  return branches;
}

/** Marks the items of heads that have no row, and of journals. */
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
    // The survey of records reports a damaged journal, and a damaged branch.
    if (!(error instanceof MarkError) && !isSavepointError(error, "DAMAGED")) throw error;
  }
}

/** For each item, the ids of the checkpoints that need it. */
async function findAffected(
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
      const isNeeded = marks.liveSpans(tape).some(({ start, count }) => item >= start && item < start + count);
      if (isNeeded) ids[index]?.push(row.id);
    }
  }
  return ids;
}

/** The finding of a record that should exist. @param part what lacks it, in words */
function missing(
  reader: SessionReader,
  part: string,
  reason: string,
  key: string,
  checkpoints: string[] = [],
): Finding {
  return { ...buildFinding(reader, "structure", part, reason), checkpoints, location: { record: key } };
}

function buildFinding(reader: SessionReader, kind: Finding["kind"], part: string, reason: string): Finding {
  const place = `${describeOwner(reader)}: ${part}`;
  return { kind, ...ownerOfSession(reader.sessionId), checkpoints: [], place, reason };
}

function describeOwner({ sessionId }: SessionReader): string {
  const agent = agentOfHistoryId(sessionId);
  return agent === undefined ? `session ${sessionId}` : `agent ${agent}`;
}
