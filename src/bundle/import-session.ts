/** Taking in a session. Its record comes last: before that, nothing leads to what is stored of it. */
import {
  agentOfHistoryId,
  agentSessionKey,
  annotationCounterKey,
  annotationKey,
  branchKey,
  changeQueueEntry,
  checkId,
  decodeQueueEntry,
  decodeJournal,
  decodeRow,
  decodeRun,
  decodeSession,
  encodeJournal,
  encodeRun,
  encodeSession,
  removedConversationKey,
  idKey,
  labelKey,
  movedNumbersKey,
  noteKey,
  sessionNumberKey,
  rowKey,
  runsOf,
  encodesPlace,
  sessionKey,
  type SessionRecord,
  tapeName,
} from "../records/index.js";
import { isSavepointError } from "../errors.js";
import { parseRefs } from "../state/index.js";
import type { Put } from "../store/index.js";
import { invalidArgument } from "../util/index.js";
import type { Context } from "../context.js";
import type { NumberMoves } from "../conversations/index.js";
import { describeSession } from "../sessions/index.js";
import { type BundleHole, describeHole } from "./export.js";
import { damagedBundle, type BundleLine, type SessionStart } from "./format.js";
import {
  checkNumber,
  type ImportState,
  type SectionImport,
  stageBlob,
  stageItems,
  importConflict,
  toFrame,
} from "./section.js";

/** Rows that are written at once. */
const MANY = 500;

export class SessionImport implements SectionImport {
  readonly #context: Context;
  readonly #start: SessionStart;
  readonly #state: ImportState;
  readonly #agent: string | undefined;
  readonly #id: string;
  readonly #number: number;
  #taken = newTaken();
  #skip = false;
  /** Does the last line withdraw all lines before it? This is how a session ends that was deleted during the export. */
  #isWithdrawn = false;

  constructor(context: Context, start: SessionStart, state: ImportState) {
    this.#context = context;
    this.#start = start;
    this.#state = state;
    this.#agent = agentOfHistoryId(start.id);
    if (this.#agent !== undefined && state.as !== undefined) {
      throw invalidArgument("`as` names a session, and the bundle has an agent.");
    }
    this.#id = this.#agent === undefined ? checkId(state.as ?? start.id, "session id") : start.id;
    if (this.#agent !== undefined) checkId(this.#agent, "agent id");
    this.#number = checkNumber(start.number, state) + state.numberOffset;
  }

  async begin(): Promise<void> {
    const { skippedAgents, existing, tally } = this.#state;
    this.#skip = this.#agent !== undefined && skippedAgents.has(this.#agent);
    if (this.#skip) return;
    const [there] = await this.#context.store.get([sessionKey(this.#id)]);
    if (there) {
      const same = "value" in there && decodeSession(there.value).createdAt === this.#start.createdAt;
      if (!same && existing === "fail") throw importConflict(describeSession(this.#id));
      this.#skip = true;
      tally.skipped.push(this.#agent ?? this.#id);
    } else await this.#state.reserveNumber(this.#number);
  }

  discardLines(): void {
    this.#taken = newTaken();
    this.#isWithdrawn = true;
  }

  async addLine(line: BundleLine): Promise<void> {
    this.#isWithdrawn = false;
    const { missingBlobs } = this.#state;
    if ("hole" in line) {
      this.#taken.holes.push({ place: describeHole(describeSession(this.#id), line.hole), reason: line.reason });
      if (typeof line.hole === "string") missingBlobs.add(line.hole);
    } else if ("blob" in line) await stageBlob(this.#context, line.blob, line.bytes);
    if (this.#skip) return;
    if ("items" in line) {
      const [tape, first, frames] = line.items;
      for (const [, refs = ""] of frames) this.#noteBlobs(refs);
      await stageItems(
        this.#context,
        tapeName(this.#number, checkCounter(tape)),
        checkCounter(first),
        frames.map(toFrame),
      );
      this.#taken.items += frames.length;
    } else if ("row" in line) this.#takeRow(line);
    else this.#takeRecord(line);
  }

  async finish(): Promise<void> {
    const { tally, pendingAgents, numberOffset, numbers, missingBlobs } = this.#state;
    const { rows, records, labels, blobs, session, items, holes, checkpoints } = this.#taken;
    tally.holes.push(...holes);
    if (this.#skip || this.#isWithdrawn) return;
    if (!session) throw damagedBundle(`${describeSession(this.#id)} has no record in it`);
    // Rows lead nowhere before the session is there.
    for (let from = 0; from < rows.length; from += MANY) {
      await this.#context.store.commit({ puts: rows.slice(from, from + MANY) });
    }
    for (const [seq, label] of labels) {
      if (label !== "") records.push({ key: labelKey(this.#number, label, seq), value: String(seq) });
    }
    const coming = this.#agent === undefined ? undefined : pendingAgents.get(this.#agent);
    if (coming && this.#agent !== undefined) {
      const moves = movesOf(coming.moves, numberOffset, numbers[1]);
      if (moves.length > 0) records.push({ key: movedNumbersKey(this.#agent), value: JSON.stringify(moves) });
      for (const number of coming.removedConversations)
        records.push({ key: removedConversationKey(this.#agent, number), value: "" });
      records.push(...coming.puts);
    }
    const { agent } = session;
    try {
      await this.#context.store.commit({
        checks: [{ key: sessionKey(this.#id), value: undefined }, ...(coming?.checks ?? [])],
        puts: [
          ...records,
          { key: sessionNumberKey(this.#number), value: this.#id },
          ...(agent === undefined ? [] : [{ key: agentSessionKey(agent, this.#number), value: this.#id }]),
          { key: sessionKey(this.#id), value: encodeSession({ ...session, number: this.#number }) },
        ],
        blobs: [...blobs].filter((hash) => !missingBlobs.has(hash)).map((hash) => ({ hash })),
      });
    } catch (error) {
      if (isSavepointError(error, "CONFLICT")) throw importConflict(describeSession(this.#id), error);
      throw error;
    }
    if (this.#agent === undefined) tally.sessions++;
    tally.checkpoints += checkpoints;
    tally.items += items;
  }

  #takeRow({ row: seq, value, refs = "" }: Extract<BundleLine, { row: number }>): void {
    const { rows, labels } = this.#taken;
    const { id, label } = decodeRow(checkCounter(seq), value, refs);
    this.#noteBlobs(refs);
    rows.push({ key: rowKey(this.#number, seq), value, refs });
    if (!encodesPlace(id, this.#number, seq)) rows.push({ key: idKey(id, this.#number), value: String(seq) });
    if (label !== undefined) labels.set(seq, label);
    this.#taken.checkpoints++;
  }

  #takeRecord(line: BundleLine): void {
    const { records, labels } = this.#taken;
    const put = (key: string, value: string): unknown => records.push({ key, value });
    if ("note" in line) {
      const [seq, name, value] = line.note;
      put(noteKey(this.#number, checkCounter(seq), checkId(name, "name")), value);
      if (name === "label") labels.set(seq, value);
    } else if ("attached" in line) {
      const [seq, name, value, refs] = line.attached;
      this.#noteBlobs(refs);
      records.push({ key: annotationKey(this.#number, checkCounter(seq), checkId(name, "name")), value, refs });
    } else if ("attachments" in line) {
      put(annotationCounterKey(this.#number), String(checkCounter(Number(line.attachments))));
    } else if ("branch" in line) put(branchKey(this.#id, checkId(line.branch, "branch name")), line.value);
    else if ("run" in line) put(runsOf(this.#id).from + checkRunPart(line.run[0]), this.#moveRun(line.run));
    else if ("due" in line) {
      const branch = checkId(line.due[0], "branch name");
      records.push(...changeQueueEntry(this.#id, branch, undefined, decodeQueueEntry(line.due[1])).puts);
    } else if ("session" in line) this.#taken.session = decodeSession(line.session);
  }

  /** A run's records name the session's number. */
  #moveRun([key, value]: readonly [key: string, value: string]): string {
    const { registry } = this.#context;
    const part = key.slice(key.indexOf("\t") + 1);
    if (part === "j") return encodeJournal({ ...decodeJournal(value), number: this.#number });
    if (part === "r") return encodeRun({ ...decodeRun(value, registry), number: this.#number }, registry);
    if (!part.startsWith("t")) return value;
    const [, turn] = JSON.parse(value) as [number, number];
    return JSON.stringify([this.#number, turn]);
  }

  #noteBlobs(refs: string): void {
    if (!refs.includes("#")) return;
    for (const ref of parseRefs(refs, 0)) if ("blob" in ref) this.#taken.blobs.add(ref.blob);
  }
}

/** What was taken of a session so far. */
interface Taken {
  readonly rows: Put[];
  readonly records: Put[];
  /** By seq. */
  readonly labels: Map<number, string>;
  readonly blobs: Set<string>;
  readonly holes: BundleHole[];
  session: SessionRecord | undefined;
  checkpoints: number;
  items: number;
}

function newTaken(): Taken {
  return {
    rows: [],
    records: [],
    labels: new Map(),
    blobs: new Set(),
    holes: [],
    session: undefined,
    checkpoints: 0,
    items: 0,
  };
}

/** How checkpoints of the agent are to be read here: as they were to be read there, and then moved. */
function movesOf(before: NumberMoves, by: number, highest: number): NumberMoves {
  const moved = before.map((move) => ({ upTo: move.upTo, by: move.by + by }));
  return by === 0 ? moved : [...moved, { upTo: highest, by }];
}

/** Numbers within a session are counted from 0 on. */
function checkCounter(number: number): number {
  if (Number.isSafeInteger(number) && number >= 0) return number;
  throw damagedBundle(`${String(number)} is no number of anything`);
}

/** A branch, and a part of what is known about its run. */
function checkRunPart(key: string): string {
  const [branch = "", part = "", ...more] = key.split("\t");
  checkId(branch, "branch name");
  if (more.length > 0 || !/^[jrmt]/.test(part)) throw damagedBundle("a record of a run makes no sense");
  return key;
}
