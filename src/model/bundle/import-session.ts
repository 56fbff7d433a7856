/** Taking in a session. Its record comes last: before that, nothing leads to what is stored of it. */
import { isSavepointError } from "../../errors.js";
import { parseRefs } from "../../state/refs.js";
import type { Put } from "../../store/store.js";
import type { Context } from "../context.js";
import { saysItsPlace } from "../ids.js";
import {
  agentOfLine,
  agentSessionKey,
  branchKey,
  deadKey,
  dueKey,
  idKey,
  labelKey,
  noteKey,
  numberKey,
  rowKey,
  runsOf,
  sessionKey,
  tapeName,
} from "../keys.js";
import { decodeRow, decodeSession, encodeSession, type SessionRecord } from "../records.js";
import { decodeJournal, decodeRun, encodeJournal, encodeRun } from "../run-records.js";
import { describeSession } from "../session-errors.js";
import { SessionReader } from "../session-reader.js";
import { type BundleLine, brokenBundle, type SectionStart } from "./format.js";
import { type Section, type SectionOptions, stageBlob, stageItems, taken, toFrame } from "./section.js";

/** Rows that are written at once. */
const MANY = 500;

export class SessionImport implements Section {
  readonly #context: Context;
  readonly #start: Extract<SectionStart, { begin: "session" }>;
  readonly #options: SectionOptions;
  readonly #id: string;
  readonly #number: number;
  readonly #blobs = new Set<string>();
  #rows: Put[] = [];
  readonly #labels = new Map<number, string>();
  readonly #records: Put[] = [];
  #session: SessionRecord | undefined;
  #checkpoints = 0;
  #items = 0;
  #skip = false;

  constructor(context: Context, start: Extract<SectionStart, { begin: "session" }>, options: SectionOptions) {
    this.#context = context;
    this.#start = start;
    this.#options = options;
    this.#id = agentOfLine(start.id) === undefined ? (options.as ?? start.id) : start.id;
    this.#number = start.number + options.shift.by;
  }

  async begin(): Promise<void> {
    const reader = new SessionReader(this.#context, this.#id);
    const there = (await reader.session())?.record;
    if (!there) return;
    const { head, createdAt } = this.#start;
    const same = there.createdAt === createdAt && (head === undefined || (await this.#has(reader, there.number, head)));
    if (!same && this.#options.existing === "fail") throw taken(describeSession(this.#id));
    this.#skip = true;
    this.#options.tally.skipped.push(agentOfLine(this.#id) ?? this.#id);
  }

  async take(line: BundleLine): Promise<void> {
    if ("hole" in line) {
      const place = `${describeSession(this.#id)}: ${String(line.hole)}`;
      this.#options.tally.holes.push({ place, reason: line.reason });
    }
    // Others may need the bytes.
    if ("blob" in line) await stageBlob(this.#context, line.blob, line.bytes);
    if (this.#skip) return;
    if ("items" in line) {
      const [tape, first, frames] = line.items;
      for (const [, refs = ""] of frames) this.#noteBlobs(refs);
      await stageItems(this.#context, tapeName(this.#number, tape), first, frames.map(toFrame));
      this.#items += frames.length;
    } else if ("row" in line) await this.#takeRow(line);
    else this.#takeRecord(line);
  }

  async finish(): Promise<void> {
    const { store } = this.#context;
    if (this.#skip) return;
    const session = this.#session;
    if (!session) throw brokenBundle(`${describeSession(this.#id)} has no record in it`);
    await this.#flushRows();
    for (const [seq, label] of this.#labels) {
      if (label !== "") this.#records.push({ key: labelKey(this.#number, label, seq), value: String(seq) });
    }
    const { agent } = session;
    try {
      await store.commit({
        checks: [{ key: sessionKey(this.#id), value: undefined }],
        puts: [
          ...this.#records,
          { key: numberKey(this.#number), value: this.#id },
          ...(agent === undefined ? [] : [{ key: agentSessionKey(agent, this.#number), value: this.#id }]),
          { key: sessionKey(this.#id), value: encodeSession({ ...session, number: this.#number }) },
        ],
        deletes: [deadKey(this.#number)],
        blobs: [...this.#blobs].map((hash) => ({ hash })),
      });
    } catch (error) {
      if (isSavepointError(error, "CONFLICT")) throw taken(describeSession(this.#id), error);
      throw error;
    }
    const { tally } = this.#options;
    tally.sessions++;
    tally.checkpoints += this.#checkpoints;
    tally.items += this.#items;
  }

  async #has(reader: SessionReader, number: number, id: string): Promise<boolean> {
    const branches: string[] = [];
    for await (const { record } of reader.branches()) if (record.head) branches.push(record.head.id);
    return branches.includes(id) || (await reader.find(number, id, undefined)) !== undefined;
  }

  async #takeRow({ row: seq, value, refs = "" }: Extract<BundleLine, { row: number }>): Promise<void> {
    const { id, label } = decodeRow(seq, value, refs);
    this.#noteBlobs(refs);
    this.#rows.push({ key: rowKey(this.#number, seq), value, refs });
    if (!saysItsPlace(id, this.#number, seq)) this.#rows.push({ key: idKey(id, this.#number), value: String(seq) });
    if (label !== undefined) this.#labels.set(seq, label);
    this.#checkpoints++;
    if (this.#rows.length >= MANY) await this.#flushRows();
  }

  #takeRecord(line: BundleLine): void {
    const put = (key: string, value: string): unknown => this.#records.push({ key, value });
    if ("note" in line) {
      const [seq, name, value] = line.note;
      put(noteKey(this.#number, seq, name), value);
      if (name === "label") this.#labels.set(seq, value);
    } else if ("branch" in line) put(branchKey(this.#id, line.branch), line.value);
    else if ("run" in line) put(runsOf(this.#id).from + line.run[0], this.#moveRun(line.run));
    else if ("due" in line) put(dueKey(this.#id, line.due[0]), line.due[1]);
    else if ("session" in line) this.#session = decodeSession(line.session);
  }

  /** A run's records name the session's number. */
  #moveRun([key, value]: readonly [key: string, value: string]): string {
    const { registry } = this.#context;
    if (key.endsWith("\tj")) return encodeJournal({ ...decodeJournal(value), number: this.#number });
    return key.endsWith("\tr") ? encodeRun({ ...decodeRun(value, registry), number: this.#number }, registry) : value;
  }

  #noteBlobs(refs: string): void {
    if (!refs.includes("#")) return;
    for (const ref of parseRefs(refs, 0)) if ("blob" in ref) this.#blobs.add(ref.blob);
  }

  async #flushRows(): Promise<void> {
    const puts = this.#rows;
    this.#rows = [];
    // Should it never be finished, these are the remains of a session that is not there.
    if (puts.length > 0)
      await this.#context.store.commit({ puts: [...puts, { key: deadKey(this.#number), value: "" }] });
  }
}
