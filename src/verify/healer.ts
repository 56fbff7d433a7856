/** Repairs damaged data from bundles, and rebuilds records that can be derived from others. */
import { isSavepointError } from "../errors.js";
import {
  type BundleLine,
  type BundleSource,
  type ConversationsStart,
  moveMessages,
  type NamedBlob,
  openBundle,
  type SessionStart,
  readBlob,
  renameInLine,
  toFrame,
} from "../bundle/index.js";
import type { Context } from "../context.js";
import { firstTitlePut, readConversations } from "../conversations/index.js";
import type { Events } from "../events/index.js";
import {
  annotationKey,
  type BranchRecord,
  type CheckpointRow,
  conversationKey,
  conversationNumberKey,
  decodeBranch,
  decodeConversation,
  decodeRow,
  decodeSession,
  encodeConversation,
  encodeRow,
  messageTape,
  noteKey,
  rowKey,
  sessionKey,
  type SessionRecord,
  tapeName,
} from "../records/index.js";
import { SessionReader } from "../sessions/index.js";
import type { Frame } from "../store/index.js";
import { type BundledSession, rebuildRecord, type RecordRepair } from "./derived-records.js";
import { type DamageLocation, type Finding, findingKey } from "./findings.js";

/** The lost data that one section of a bundle contains. Used only after the hash of the section was verified. */
class Replacements {
  readonly items = new Map<string, Map<number, Frame>>();
  readonly blobs = new Map<string, Uint8Array>();
  readonly records = new Map<string, { readonly value: string; readonly refs: string }>();
  /** All rows and branches of the section, not only lost ones. */
  readonly rows = new Map<number, CheckpointRow>();
  readonly branches = new Map<string, BranchRecord>();
  session: SessionRecord | undefined;
  /** The session of the section, with its number in this store; missing in a section of conversations. */
  owner: { readonly id: string; readonly number: number } | undefined;
}

/** Collects the replacements in a line of a section. */
type LineReader = (line: BundleLine) => void;

/** Repairs the damage of one survey. Readable data is never changed. */
export class Healer {
  /** The keys of findings that were repaired, or with `dryRun` could be. */
  readonly healed = new Set<string>();
  /** When the bundle was written, by key, for repaired records that may have changed after that. */
  readonly asOf = new Map<string, number>();
  readonly #context: Context;
  readonly #events: Events;
  readonly #dryRun: boolean;
  readonly #findings: readonly Finding[];
  readonly #lostItems = new Map<string, Set<number>>();
  readonly #lostBlobs = new Set<string>();
  readonly #lostRecords = new Set<string>();
  /** The records of sessions in the bundles, by session id. The first bundle that has a session is used. */
  readonly #bundledSessions = new Map<string, BundledSession>();

  /** @param events receives the failures of reading bundles; the events of `context` may be silenced */
  constructor(context: Context, findings: readonly Finding[], dryRun: boolean, events: Events) {
    this.#context = context;
    this.#findings = findings;
    this.#dryRun = dryRun;
    this.#events = events;
    for (const { location } of findings) {
      if (!location) continue;
      if ("record" in location) this.#lostRecords.add(location.record);
      else if ("blob" in location) this.#lostBlobs.add(location.blob);
      else {
        const { tape, item } = location;
        this.#lostItems.set(tape, (this.#lostItems.get(tape) ?? new Set()).add(item));
      }
    }
  }

  /** Repairs from a bundle. A damaged bundle is used up to the damage. */
  async healFrom(source: BundleSource): Promise<void> {
    try {
      const isOwn = await this.#isFromThisStore(source);
      const { header, sections } = await openBundle(this.#context, source);
      const blobNames = new Map<string, string>();
      for await (const { start, lines } of sections) {
        if (start.begin === "holes") continue;
        const replacements = new Replacements();
        const readLine =
          start.begin === "session"
            ? await this.#readSession(start, replacements)
            : await this.#readConversations(start, replacements, isOwn);
        for await (const line of lines()) {
          // Other sections may reference the blob too.
          if ("blob" in line) this.#addBlob(replacements, readBlob(this.#context, line, blobNames));
          else readLine?.(renameInLine(line, blobNames));
        }
        await this.#apply(replacements, header.createdAt);
      }
    } catch (error) {
      if (!isSavepointError(error, "DAMAGED")) throw error;
      const message = "a bundle is damaged; only the sections before the damage were used for the repair";
      this.#events.emit("backgroundFailure", { message, error });
    }
  }

  /** Rebuilds records that can be derived from others. Repeats this, because some are derived from rebuilt records. */
  async rebuild(): Promise<void> {
    for (let before = -1; this.healed.size > before;) {
      before = this.healed.size;
      for (const key of this.#lostRecords) {
        const [, sessionId = ""] = key.split("\t");
        const bundled = this.#bundledSessions.get(sessionId) ?? { session: undefined, branches: new Map() };
        const repair = await rebuildRecord(this.#context, key, bundled);
        if (!repair) continue;
        await this.#writeRecord(key, repair);
        if (!this.#dryRun) this.#lostRecords.delete(key);
      }
    }
  }

  async #writeRecord(key: string, repair: NonNullable<RecordRepair>): Promise<void> {
    const { store } = this.#context;
    if (!this.#dryRun) {
      const [current] = await store.get([key]);
      // Another process has written the record meanwhile.
      if (current && "value" in current) return;
      await store.commit("put" in repair ? { puts: [repair.put] } : { deletes: [repair.drop] });
    }
    this.#markHealed({ record: key });
  }

  /**
   * Whether the bundle was exported from this store: both have a session with the same id, number and time. A stream
   * can be read only once, so the result for streams is `false`.
   */
  async #isFromThisStore(source: BundleSource): Promise<boolean> {
    if (typeof source !== "string" && !(source instanceof Uint8Array)) return false;
    try {
      for await (const { start } of (await openBundle(this.#context, source)).sections) {
        if (start.begin !== "session") continue;
        const { id, number, createdAt } = start;
        const [stored] = await this.#context.store.get([sessionKey(id)]);
        const session = stored && "value" in stored ? decodeSession(stored.value) : undefined;
        if (session?.number === number && session.createdAt === createdAt) return true;
      }
    } catch (error) {
      // The damage is reported when the bundle is read for the repair.
      if (!isSavepointError(error, "DAMAGED")) throw error;
    }
    return false;
  }

  /** The number that a session of a bundle has in this store; `undefined` if the id belongs to another session here. */
  async #findNumber({ id, number, createdAt }: SessionStart): Promise<number | undefined> {
    const reader = new SessionReader(this.#context, id);
    const stored = await reader.session().catch((error: unknown) => {
      if (isSavepointError(error, "DAMAGED")) return undefined;
      throw error;
    });
    if (stored) return stored.record.createdAt === createdAt ? stored.record.number : undefined;
    const listed = await reader.scanForNumber();
    return listed === undefined || listed === number ? number : undefined;
  }

  async #readSession(start: SessionStart, found: Replacements): Promise<LineReader | undefined> {
    const number = await this.#findNumber(start);
    if (number === undefined) return undefined;
    found.owner = { id: start.id, number };
    return (line) => {
      if ("items" in line) {
        const [tape, first, frames] = line.items;
        this.#addItems(found, tapeName(number, tape), first, frames.map(toFrame));
      } else if ("row" in line) found.rows.set(line.row, decodeRow(line.row, line.value, line.refs ?? ""));
      else if ("note" in line) {
        const [seq, name, value] = line.note;
        this.#addRecord(found, noteKey(number, seq, name), value);
      } else if ("attached" in line) {
        const [seq, name, value, refs] = line.attached;
        this.#addRecord(found, annotationKey(number, seq, name), value, refs);
      } else if ("branch" in line) found.branches.set(line.branch, decodeBranch(line.value));
      else if ("session" in line) found.session = { ...decodeSession(line.session), number };
    };
  }

  async #readConversations(
    start: ConversationsStart,
    found: Replacements,
    isOwn: boolean,
  ): Promise<LineReader | undefined> {
    const numbering = await this.#findNumbering(start, isOwn);
    if (!numbering) return undefined;
    const { renumber, offset, foreign } = numbering;
    return (line) => {
      if ("items" in line) {
        const [number, first] = line.items;
        if (foreign.has(number)) return;
        const target = renumber(number);
        this.#addItems(found, messageTape(target), first, moveMessages(line.items, target));
      } else if ("conversation" in line) {
        const record = decodeConversation(line.value);
        if (foreign.has(record.number)) return;
        const number = renumber(record.number);
        const base = record.base.map((piece) => ({ ...piece, tape: renumber(piece.tape) }));
        const moved = { ...record, number, order: record.order + offset, base };
        this.#addRecord(found, conversationKey(line.conversation), encodeConversation(moved));
        if (line.firstTitle === undefined) return;
        const title = firstTitlePut(line.conversation, number, line.firstTitle);
        this.#addRecord(found, title.key, title.value);
      }
    };
  }

  /**
   * How the conversations of a section are numbered in this store. An import shifts all numbers by the same offset, so
   * one conversation that certainly is the same gives the offset of all. Without such a conversation, the section
   * belongs to another agent or store.
   */
  async #findNumbering(start: ConversationsStart, isOwn: boolean): Promise<ConversationNumbering | undefined> {
    const ids = start.conversations.map(([id]) => id);
    const numbers = new Map<number, number>();
    const foreign = new Set<number>();
    let found: number | undefined;
    for (const [index, stored] of (await readConversations(this.#context, ids)).entries()) {
      const [id, createdAt, number] = start.conversations[index] as [string, number, number];
      if (!stored || "unreadable" in stored) {
        if (!(await this.#isListed(id, number))) continue;
        numbers.set(number, number);
        found = 0;
      } else if (stored.record.createdAt !== createdAt) foreign.add(number);
      else {
        numbers.set(number, stored.record.number);
        found = stored.record.number - number;
      }
    }
    const offset = found ?? (isOwn ? 0 : undefined);
    if (offset === undefined) return undefined;
    return { offset, foreign, renumber: (number) => numbers.get(number) ?? number + offset };
  }

  /** Whether the list of conversations has this conversation under this number. */
  async #isListed(id: string, number: number): Promise<boolean> {
    const [listed] = await this.#context.store.get([conversationNumberKey(number)]);
    return listed !== undefined && "value" in listed && listed.value === id;
  }

  #addItems(found: Replacements, tape: string, first: number, frames: readonly Frame[]): void {
    const lost = this.#lostItems.get(tape);
    if (!lost) return;
    for (const [index, frame] of frames.entries()) {
      if (!lost.has(first + index)) continue;
      found.items.set(tape, (found.items.get(tape) ?? new Map<number, Frame>()).set(first + index, frame));
    }
  }

  #addBlob(found: Replacements, { hash, bytes }: NamedBlob): void {
    if (this.#lostBlobs.has(hash)) found.blobs.set(hash, bytes);
  }

  #addRecord(found: Replacements, key: string, value: string, refs = ""): void {
    if (this.#lostRecords.has(key)) found.records.set(key, { value, refs });
  }

  /** Writes the replacements of a verified section. */
  async #apply(found: Replacements, writtenAt: number): Promise<void> {
    const { store } = this.#context;
    const { owner, session, branches } = found;
    if (owner) {
      if (!this.#bundledSessions.has(owner.id)) this.#bundledSessions.set(owner.id, { session, branches });
      await this.#addLostRows(found, owner.number);
    }
    for (const [tape, items] of found.items) {
      if (!this.#dryRun) await store.heal(tape, items);
      for (const item of items.keys()) {
        this.#lostItems.get(tape)?.delete(item);
        this.#markHealed({ tape, item });
      }
    }
    for (const [hash, bytes] of found.blobs) {
      if (!this.#dryRun) await store.commit({ blobs: [{ hash, bytes }] });
      this.#lostBlobs.delete(hash);
      this.#markHealed({ blob: hash });
    }
    for (const [key, { value, refs }] of found.records) {
      await this.#writeRecord(key, { put: { key, value, refs } });
      // Checkpoints never change. Conversations, labels, pins and annotations do.
      if (!key.startsWith("z")) this.asOf.set(key, writtenAt);
      this.#lostRecords.delete(key);
    }
  }

  /** Adds the rows of the section that are damaged in the store, or missing although other rows have them as parent. */
  async #addLostRows(found: Replacements, number: number): Promise<void> {
    const reader = new SessionReader(this.#context, "");
    const parents = new Set<number>();
    for await (const row of reader.allRows(number, false)) {
      if (!("unreadable" in row) && row.parent !== undefined) parents.add(row.parent);
    }
    for (const [seq, row] of found.rows) {
      const stored = await reader.row(number, seq);
      const isLost = stored ? "unreadable" in stored : parents.has(seq);
      if (!isLost) continue;
      const parent = await this.#findExistingParent(reader, number, row, found.rows);
      const value = encodeRow({ ...row, ...parent });
      found.records.set(rowKey(number, seq), { value, refs: row.skeleton.refs });
    }
  }

  /** The nearest ancestor that still exists. Nearer ones may have been pruned after the bundle was written. */
  async #findExistingParent(
    reader: SessionReader,
    number: number,
    row: CheckpointRow,
    rows: ReadonlyMap<number, CheckpointRow>,
  ): Promise<Pick<CheckpointRow, "parent" | "grandparent">> {
    let { parent } = row;
    while (parent !== undefined && !(await reader.row(number, parent))) parent = rows.get(parent)?.parent;
    return parent === row.parent ? { parent, grandparent: row.grandparent } : { parent, grandparent: undefined };
  }

  #markHealed(location: DamageLocation): void {
    const key = JSON.stringify(location);
    for (const finding of this.#findings) {
      if (finding.location && JSON.stringify(finding.location) === key) this.healed.add(findingKey(finding));
    }
  }
}

/** How the numbers of a bundle's conversations map to those of this store. */
interface ConversationNumbering {
  readonly offset: number;
  /** Numbers of the bundle whose ids belong to other conversations in this store. */
  readonly foreign: ReadonlySet<number>;
  readonly renumber: (number: number) => number;
}
