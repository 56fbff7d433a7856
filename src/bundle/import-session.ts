/** Importing a session. Its own record is written last: before that, nothing refers to what is staged. */
import { isSavepointError } from "../errors.js";
import type { Context } from "../context.js";
import type { NumberMoves } from "../conversations/index.js";
import {
  agentOfHistoryId,
  agentSessionKey,
  annotationCounterKey,
  annotationKey,
  branchKey,
  changeQueueEntry,
  decodeBranch,
  decodeJournal,
  decodeQueueEntry,
  decodeRow,
  decodeRun,
  decodeSession,
  encodeBranch,
  encodeJournal,
  encodeRun,
  encodeSession,
  encodesPlace,
  idKey,
  labelKey,
  movedNumbersKey,
  noteKey,
  removedConversationKey,
  rowKey,
  runsOf,
  sessionKey,
  sessionNumberKey,
  type SessionRecord,
  tapeName,
} from "../records/index.js";
import { describeSession } from "../sessions/index.js";
import { parseRefs } from "../state/index.js";
import type { Put } from "../store/index.js";
import { invalidArgument } from "../util/index.js";
import { type BundleLine, damagedBundle, type SessionStart } from "./format.js";
import {
  importConflict,
  type ImportState,
  type ItemsLine,
  type PendingAgent,
  renumber,
  type SectionImport,
  stageItems,
  toFrame,
} from "./section.js";

/** Rows per commit. */
const BATCH_SIZE = 500;

/** The lines of a section so far. */
class SessionContent {
  readonly rows: Put[] = [];
  readonly records: Put[] = [];
  /** By seq. */
  readonly labels = new Map<number, string>();
  readonly blobs = new Set<string>();
  session: SessionRecord | undefined;
  checkpoints = 0;
  items = 0;
  hasHaltedRun = false;
}

/** Imports the section of a session, or of the history of an agent. */
export class SessionImport implements SectionImport {
  readonly #context: Context;
  readonly #start: SessionStart;
  readonly #state: ImportState;
  readonly #agent: string | undefined;
  readonly #id: string;
  readonly #number: number;
  readonly #hash: string;
  readonly #content = new SessionContent();
  #skip = false;

  constructor(context: Context, start: SessionStart, hash: string, state: ImportState) {
    this.#context = context;
    this.#start = start;
    this.#hash = hash;
    this.#state = state;
    this.#agent = agentOfHistoryId(start.id);
    if (this.#agent !== undefined && state.as !== undefined) {
      throw invalidArgument("`as` is the id of a session, but the bundle contains an agent.");
    }
    this.#id = state.as ?? start.id;
    this.#number = renumber(start.number, state);
  }

  get owner(): string {
    return describeSession(this.#id);
  }

  async begin(): Promise<void> {
    const { skippedAgents, existing, tally } = this.#state;
    this.#skip = this.#agent !== undefined && skippedAgents.has(this.#agent);
    if (this.#skip) return;
    const [stored] = await this.#context.store.get([sessionKey(this.#id)]);
    if (stored) {
      const same = "value" in stored && decodeSession(stored.value).createdAt === this.#start.createdAt;
      if (!same && existing === "fail") throw importConflict(this.owner);
      this.#skip = true;
      tally.skipped.push(this.#agent ?? this.#id);
    } else await this.#state.staging.reserveNumber(this.#number, this.#hash);
  }

  async addLine(line: BundleLine): Promise<void> {
    if (this.#skip) return;
    if ("items" in line) await this.#stageItems(line.items);
    else if ("row" in line) this.#addRow(line);
    else this.#addRecord(line);
  }

  async finish(): Promise<void> {
    const { tally, pendingAgents, missingBlobs } = this.#state;
    const { rows, records, labels, blobs, session, items, checkpoints } = this.#content;
    if (this.#skip) return;
    if (!session) throw damagedBundle(`${this.owner} has no record in it`);
    // Rows cannot be reached before the record of the session exists.
    for (let from = 0; from < rows.length; from += BATCH_SIZE) {
      await this.#context.store.commit({ puts: rows.slice(from, from + BATCH_SIZE) });
    }
    for (const [seq, label] of labels) {
      if (label !== "") records.push({ key: labelKey(this.#number, label, seq), value: String(seq) });
    }
    const pending = this.#agent === undefined ? undefined : pendingAgents.get(this.#agent);
    const { agent } = session;
    try {
      await this.#context.store.commit({
        checks: [
          { key: sessionKey(this.#id), value: undefined },
          { key: sessionNumberKey(this.#number), value: undefined },
          ...(pending?.checks ?? []),
        ],
        puts: [
          ...records,
          ...(pending ? this.#agentPuts(pending) : []),
          { key: sessionNumberKey(this.#number), value: this.#id },
          ...(agent === undefined ? [] : [{ key: agentSessionKey(agent, this.#number), value: this.#id }]),
          { key: sessionKey(this.#id), value: encodeSession({ ...session, number: this.#number }) },
        ],
        blobs: [...blobs].filter((hash) => !missingBlobs.has(hash)).map((hash) => ({ hash })),
      });
    } catch (error) {
      if (isSavepointError(error, "CONFLICT")) throw importConflict(this.owner, error);
      throw error;
    }
    if (this.#agent === undefined) tally.sessions++;
    if (this.#content.hasHaltedRun) tally.halted.add(this.#id);
    tally.checkpoints += checkpoints;
    tally.items += items;
  }

  /** The conversations of the agent whose history this is: they become visible together with its checkpoints. */
  #agentPuts({ agent, moves: before, removedConversations, puts }: PendingAgent): readonly Put[] {
    const { header, staging } = this.#state;
    const moves = addMove(before, staging.numberOffset, header.numbers[1]);
    return [
      ...(moves.length > 0 ? [{ key: movedNumbersKey(agent), value: JSON.stringify(moves) }] : []),
      ...removedConversations.map((number) => ({ key: removedConversationKey(agent, number), value: "" })),
      ...puts,
    ];
  }

  async #stageItems([tape, first, frames]: ItemsLine["items"]): Promise<void> {
    for (const [, refs = ""] of frames) this.#addBlobs(refs);
    const name = tapeName(this.#number, tape);
    await stageItems(this.#context, name, first, frames.map(toFrame));
    this.#content.items += frames.length;
  }

  #addRow({ row: seq, value, refs = "" }: Extract<BundleLine, { row: number }>): void {
    const { rows, labels } = this.#content;
    const { id, label } = decodeRow(seq, value, refs);
    this.#addBlobs(refs);
    rows.push({ key: rowKey(this.#number, seq), value, refs });
    if (!encodesPlace(id, this.#number, seq)) rows.push({ key: idKey(id, this.#number), value: String(seq) });
    if (label !== undefined) labels.set(seq, label);
    this.#content.checkpoints++;
  }

  #addRecord(line: BundleLine): void {
    const { records, labels } = this.#content;
    if ("note" in line) {
      const [seq, name, value] = line.note;
      records.push({ key: noteKey(this.#number, seq, name), value });
      if (name === "label") labels.set(seq, value);
    } else if ("attached" in line) {
      const [seq, name, value, refs] = line.attached;
      this.#addBlobs(refs);
      records.push({ key: annotationKey(this.#number, seq, name), value, refs });
    } else if ("attachments" in line) {
      records.push({ key: annotationCounterKey(this.#number), value: String(Number(line.attachments)) });
    } else if ("branch" in line) {
      // No run of this store has the branch.
      const branch = { ...decodeBranch(line.value), held: false };
      records.push({ key: branchKey(this.#id, line.branch), value: encodeBranch(branch) });
    } else if ("run" in line) {
      records.push({ key: runsOf(this.#id).from + line.run[0], value: this.#renumberRun(line.run) });
    } else if ("due" in line) {
      // Without a queue entry no worker finds the run, and its session is halted.
      if (this.#state.runs === "halted") {
        this.#content.hasHaltedRun = true;
        return;
      }
      const [branch, value] = line.due;
      const entry = { ...decodeQueueEntry(value), owner: undefined };
      records.push(...changeQueueEntry(this.#id, branch, undefined, entry).puts);
    } else if ("session" in line) this.#content.session = decodeSession(line.session);
  }

  /** The records of a run contain the number of their session. */
  #renumberRun([key, value]: readonly [key: string, value: string]): string {
    const { registry } = this.#context;
    const part = key.slice(key.indexOf("\t") + 1);
    if (part === "j") return encodeJournal({ ...decodeJournal(value), number: this.#number });
    if (part === "r") return encodeRun({ ...decodeRun(value, registry), number: this.#number }, registry);
    if (!part.startsWith("t")) return value;
    const [, turn] = JSON.parse(value) as [number, number];
    return JSON.stringify([this.#number, turn]);
  }

  #addBlobs(refs: string): void {
    if (!refs.includes("#")) return;
    for (const ref of parseRefs(refs, 0)) if ("blob" in ref) this.#content.blobs.add(ref.blob);
  }
}

/** How numbers in checkpoints of the agent are read from now on: moved as they were before, then by this import. */
function addMove(before: NumberMoves, offset: number, highest: number): NumberMoves {
  const moved = before.map((move) => ({ upTo: move.upTo, by: move.by + offset }));
  return offset === 0 ? moved : [...moved, { upTo: highest, by: offset }];
}
