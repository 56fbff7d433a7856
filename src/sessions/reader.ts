/** Reading the records of a session: its branches, rows, labels and pins. Nothing is cached. */
import { isSavepointError, SavepointError } from "../errors.js";
import type { Piece, StateReader, Unreadable } from "../state/index.js";
import { FIRST_PAGE_SIZE, type RecordResult, nextPageSize, scan, type Store } from "../store/index.js";
import {
  agentOfHistoryId,
  ALL_SESSION_NUMBERS,
  branchesOf,
  branchKey,
  type BranchRecord,
  type CheckpointInfo,
  type CheckpointRef,
  decodeBranch,
  decodeMetadata,
  decodeNumbers,
  decodeRow,
  decodeSession,
  decodeStatusNote,
  expiryOf,
  idKey,
  labelRange,
  MAIN,
  noteKey,
  notesOf,
  placeOfId,
  parseNoteKey,
  type CheckpointRow,
  rowKey,
  rowsOf,
  seqOfRowKey,
  sessionKey,
  type SessionRecord,
  type StatusNote,
  tapeName,
  trailingNumberOf,
} from "../records/index.js";
import type { Context } from "../context.js";
import { describeSession } from "./errors.js";

/** A decoded record and its stored value, which a commit checks. */
export interface LoadedRecord<T> {
  readonly value: string;
  readonly record: T;
}

/** The records of a session and one of its branches; `undefined` for those that do not exist. */
export interface Heads {
  readonly session: LoadedRecord<SessionRecord> | undefined;
  readonly branch: LoadedRecord<BranchRecord> | undefined;
}

/** A row, or the seq of one that cannot be read. */
export type RowResult = CheckpointRow | (Unreadable & { readonly seq: number });

/** Whether a row exists and can be read. */
export function isIntact(row: CheckpointRow | Unreadable | undefined): row is CheckpointRow {
  return row !== undefined && !("unreadable" in row);
}

/** The notes of a checkpoint by name: `label`, `pin` and `status`, set after the save. */
export type Notes = ReadonlyMap<string, string>;

/**
 * Reads one session. Damage of the records that saves depend on throws `DAMAGED`; damage elsewhere is reported and
 * skipped.
 */
export class SessionReader {
  readonly context: Context;
  readonly sessionId: string;

  constructor(context: Context, sessionId: string) {
    this.context = context;
    this.sessionId = sessionId;
  }

  /** The records that every save checks. Throws `DAMAGED` if one is damaged. */
  async heads(branch: string): Promise<Heads> {
    const [session, head] = await this.context.store.get(this.headKeys(branch));
    return this.toHeads(session, head, branch);
  }

  /** The session's own record. */
  async session(): Promise<LoadedRecord<SessionRecord> | undefined> {
    const [session] = await this.context.store.get([sessionKey(this.sessionId)]);
    return this.#decode(session, decodeSession);
  }

  /** The keys of the records that {@link toHeads} decodes. */
  headKeys(branch: string): [string, string] {
    return [sessionKey(this.sessionId), branchKey(this.sessionId, branch)];
  }

  /** Decodes the records of a session and one of its branches. @param name the name of the branch */
  toHeads(session: RecordResult | undefined, branch: RecordResult | undefined, name: string): Heads {
    const heads = { session: this.#decode(session, decodeSession), branch: this.#decode(branch, decodeBranch) };
    // Both records are created and deleted together. Treating a lost record as new would overwrite the session.
    if (heads.branch && !heads.session) this.#damaged("its record is missing");
    const isMainLost = name === MAIN && !heads.branch && (heads.session?.record.checkpoints ?? 0) > 0;
    if (isMainLost) this.#damaged(`the record of its branch "${MAIN}" is missing`);
    return heads;
  }

  /** All branches of the session. */
  async *branches(): AsyncGenerator<LoadedRecord<BranchRecord>> {
    for await (const record of scan(this.context.store, branchesOf(this.sessionId))) {
      const branch = this.#decode(record, decodeBranch);
      if (branch) yield branch;
    }
  }

  /** The rows with these seqs, in their order. */
  async rows(number: number, seqs: readonly number[]): Promise<(CheckpointRow | Unreadable | undefined)[]> {
    const records = await this.context.store.get(seqs.map((seq) => rowKey(number, seq)));
    return records.map((record) => record && this.decodeRow(record));
  }

  /** The row with this seq; `undefined` if there is none. */
  async row(number: number, seq: number): Promise<CheckpointRow | Unreadable | undefined> {
    return (await this.rows(number, [seq]))[0];
  }

  /**
   * `head` and its ancestors, newest first. An unreadable row is returned as such. The lineage continues after the row
   * if its parent is known from its child; otherwise the row ends the lineage.
   */
  async *lineage(number: number, head: CheckpointRow): AsyncGenerator<RowResult> {
    yield head;
    let child = head;
    let page = new Map<number, CheckpointRow | Unreadable>();
    let limit = FIRST_PAGE_SIZE;
    for (let seq = child.parent, next = child.grandparent; seq !== undefined;) {
      if (!page.has(seq)) {
        page = await this.#pageBefore(number, seq, limit);
        limit = nextPageSize(limit);
      }
      const row = page.get(seq);
      // If the child is gone as well, the session was cleared during the read.
      if (!row && !(await this.row(number, child.seq))) return;
      if (isIntact(row)) {
        yield row;
        child = row;
        [seq, next] = [row.parent, row.grandparent];
      } else {
        yield { seq, unreadable: row?.unreadable ?? "it is missing" };
        [seq, next] = [next, undefined];
      }
    }
  }

  /** All rows of the session from a seq on and before another one, by ascending or descending seq. */
  async *allRows(number: number, reverse: boolean, from = 0, to?: number): AsyncGenerator<RowResult> {
    for await (const record of scan(this.context.store, rowsOf(number, from, to), reverse)) {
      const row = this.decodeRow(record);
      yield "unreadable" in row ? { ...row, seq: seqOfRowKey(record.key) } : row;
    }
  }

  /** The row that `ref` refers to; `undefined` if there is none. Throws `DAMAGED` if it is unreadable. */
  async find(number: number, ref: CheckpointRef, head: CheckpointRow | undefined): Promise<CheckpointRow | undefined> {
    // A hidden head has no row.
    if (head && isRefTo(ref, head, this.sessionId)) return head;
    if (typeof ref === "string") return this.#findByName(number, ref);
    if ("seq" in ref) return this.#requireIntact(await this.row(number, ref.seq), ref.seq);
    if ("label" in ref) {
      const [entry] = await this.context.store.list(labelRange(number, ref.label), { limit: 1, reverse: true });
      // The key contains the seq, so a damaged record does not matter.
      return entry && this.find(number, { seq: trailingNumberOf(entry.key) }, head);
    }
    if (!head) return undefined;
    for await (const row of this.lineage(number, head)) {
      if ("unreadable" in row) this.reportDamage(undefined, row.seq, row.unreadable);
      else if (row.step === ref.step) return row;
    }
    return undefined;
  }

  /**
   * Whether there is a checkpoint with this id at the place that the id encodes. Ids of checkpoints at other places
   * have a record that commits check. Returns `undefined`, not a promise, if the id encodes no place of the session.
   */
  isPlacedIdTaken(number: number, id: string): Promise<boolean> | undefined {
    const place = placeOfId(id);
    if (place?.number !== number) return undefined;
    return this.row(number, place.seq).then((row) => row !== undefined && ("unreadable" in row || row.id === id));
  }

  /**
   * The notes of the checkpoints from seq `from` to seq `to`, both inclusive, by seq.
   *
   * @param unreadable called for each checkpoint with an unreadable note
   */
  async notes(
    number: number,
    from: number,
    to: number,
    unreadable: (seq: number) => void = (seq) => {
      this.reportDamage(undefined, seq, "its label, pin or status cannot be read");
    },
  ): Promise<Map<number, Map<string, string>>> {
    const notes = new Map<number, Map<string, string>>();
    for await (const record of scan(this.context.store, notesOf(number, from, to + 1))) {
      const { seq, name } = parseNoteKey(record.key);
      if (!("value" in record)) {
        unreadable(seq);
        continue;
      }
      const ofRow = notes.get(seq) ?? new Map<string, string>();
      notes.set(seq, ofRow.set(name, record.value));
    }
    return notes;
  }

  /** The public info of a row. Notes override the label, the pin and the status of the row. */
  toInfo(row: CheckpointRow, agent: string | undefined, parentId: string | undefined, notes?: Notes): CheckpointInfo {
    const label = notes?.get("label");
    const pin = notes?.get("pin");
    const { status, reason } = statusOfRow(row, notes);
    return {
      id: row.id,
      sessionId: this.sessionId,
      agent,
      branch: row.branch,
      seq: row.seq,
      step: row.step,
      parentId,
      parentSeq: row.parent,
      createdAt: row.createdAt,
      kind: row.kind,
      status,
      reason,
      label: label === undefined ? row.label : label || undefined,
      description: row.description,
      trigger: row.trigger,
      resumeHint: row.resumeHint,
      tasksCompleted: row.tasksCompleted,
      usage: row.usage,
      metadata: decodeMetadata(row.metadata, this.context.registry),
      pinned: pin === undefined ? row.pinned : pin === "1",
      expiresAt: expiryOf(row),
      version: row.version,
      stateBytes: row.stateBytes,
      storedBytes: row.storedBytes,
    };
  }

  /** The info of one row; reads its parent and its notes. */
  async loadInfo(number: number, row: CheckpointRow, agent: string | undefined): Promise<CheckpointInfo> {
    const [parent, notes] = await Promise.all([
      row.parent === undefined ? undefined : this.row(number, row.parent),
      this.notes(number, row.seq, row.seq),
    ]);
    if (parent && !isIntact(parent)) this.reportDamage(row.id, row.seq, `its parent, #${row.parent}, cannot be read`);
    return this.toInfo(row, agent, isIntact(parent) ? parent.id : undefined, notes.get(row.seq));
  }

  /** The reader of the items and blobs that states refer to. */
  stateReader(number: number): StateReader {
    const { store } = this.context;
    return {
      items: (pieces: readonly Piece[]) =>
        store.items(pieces.map(({ tape, start, count }) => ({ tape: tapeName(number, tape), start, count }))),
      blob: (hash) => store.blob(hash),
    };
  }

  /** The session's number, even if its record is damaged. */
  async findNumber(): Promise<number | undefined> {
    const [record] = await this.context.store.get([sessionKey(this.sessionId)]);
    return record && "value" in record ? decodeSession(record.value).number : this.scanForNumber();
  }

  /** The session's number, found by a scan of all numbers. */
  async scanForNumber(): Promise<number | undefined> {
    for await (const record of scan(this.context.store, ALL_SESSION_NUMBERS, true)) {
      if ("value" in record && record.value === this.sessionId) return decodeNumbers(record.key.slice(1), 1).numbers[0];
    }
    return undefined;
  }

  /** Emits a `damage` event for the session, or for the agent that it stores. */
  reportDamage(checkpointId: string | undefined, seq: number | undefined, reason: string): void {
    const agent = agentOfHistoryId(this.sessionId);
    const of = agent === undefined ? { sessionId: this.sessionId } : { sessionId: undefined, agent };
    this.context.events.emit("damage", { ...of, checkpointId, seq, reason });
  }

  async #pageBefore(number: number, seq: number, limit: number): Promise<Map<number, CheckpointRow | Unreadable>> {
    const records = await this.context.store.list(rowsOf(number, 0, seq + 1), { limit, reverse: true });
    return new Map(records.map((record) => [seqOfRowKey(record.key), this.decodeRow(record)]));
  }

  async #findByName(number: number, name: string): Promise<CheckpointRow | undefined> {
    const place = placeOfId(name);
    const placed = place?.number === number ? await this.row(number, place.seq) : undefined;
    if (isIntact(placed) && placed.id === name) return placed;
    const [entry] = await this.context.store.get([idKey(name, number)]);
    if (entry && "value" in entry) return this.find(number, { seq: Number(entry.value) }, undefined);
    if (entry) return this.#searchId(number, name, entry.unreadable);
    // The unreadable row at the place of this id can only be this checkpoint.
    if (place && placed && !isIntact(placed)) return this.#requireIntact(placed, place.seq);
    const prefix = `${this.sessionId}#`;
    const seq = name.startsWith(prefix) ? name.slice(prefix.length) : "";
    return /^\d{1,15}$/.test(seq) ? this.find(number, { seq: Number(seq) }, undefined) : undefined;
  }

  /** Finds a checkpoint by a scan, because the index record of its id is damaged. */
  async #searchId(number: number, id: string, reason: string): Promise<CheckpointRow | undefined> {
    this.reportDamage(id, undefined, reason);
    for await (const row of this.allRows(number, true)) if (isIntact(row) && row.id === id) return row;
    return undefined;
  }

  /** Decodes the record of a row. */
  decodeRow(record: RecordResult): CheckpointRow | Unreadable {
    if (!("value" in record)) return { unreadable: record.unreadable };
    return decodeRow(seqOfRowKey(record.key), record.value, record.refs);
  }

  #requireIntact(row: CheckpointRow | Unreadable | undefined, seq: number): CheckpointRow | undefined {
    if (!row || !("unreadable" in row)) return row;
    this.reportDamage(undefined, seq, row.unreadable);
    throw new SavepointError(
      "DAMAGED",
      `Checkpoint #${seq} of ${describeSession(this.sessionId)} is damaged: ${row.unreadable}. Load another checkpoint.`,
    );
  }

  #decode<T>(record: RecordResult | undefined, decode: (value: string) => T): LoadedRecord<T> | undefined {
    if (!record) return undefined;
    if ("value" in record) return { value: record.value, record: decode(record.value) };
    return this.#damaged(record.unreadable);
  }

  #damaged(reason: string): never {
    this.reportDamage(undefined, undefined, reason);
    throw new SavepointError(
      "DAMAGED",
      `${describeSession(this.sessionId)} is damaged: ${reason}. Run sp.repair(), or load its checkpoints by id.`,
    );
  }
}

/** The heads of `main` of many sessions, in one read; `undefined` for damaged ones, which are reported. */
export async function readMainHeads(store: Store, readers: readonly SessionReader[]): Promise<(Heads | undefined)[]> {
  const records = await store.get(readers.flatMap((reader) => reader.headKeys(MAIN)));
  return readers.map((reader, index) => {
    try {
      return reader.toHeads(records[2 * index], records[2 * index + 1], MAIN);
    } catch (error) {
      if (isSavepointError(error, "DAMAGED")) return undefined;
      throw error;
    }
  });
}

/** The notes of these heads, in their order and in one read. */
export async function readHeadNotes(store: Store, found: readonly (Heads | undefined)[]): Promise<Notes[]> {
  const keys = found.map((heads) => {
    const [number, head] = [heads?.session?.record.number, heads?.branch?.record.head];
    return number === undefined || !head
      ? []
      : ["label", "pin", "status"].map((name) => noteKey(number, head.seq, name));
  });
  const records = keys.length > 0 ? await store.get(keys.flat()) : [];
  let next = 0;
  return keys.map((ofHead) => {
    const notes = new Map<string, string>();
    for (const record of records.slice(next, (next += ofHead.length))) {
      if (record && "value" in record) notes.set(parseNoteKey(record.key).name, record.value);
    }
    return notes;
  });
}

/** The status of a row, or the one that was set after the save. */
function statusOfRow({ status, reason }: CheckpointRow, notes: Notes | undefined): StatusNote {
  const note = notes?.get("status");
  return note === undefined ? { status, reason } : decodeStatusNote(note);
}

function isRefTo(ref: CheckpointRef, row: CheckpointRow, sessionId: string): boolean {
  if (typeof ref === "string") return ref === row.id || ref === `${sessionId}#${row.seq}`;
  return "seq" in ref && ref.seq === row.seq;
}
