/** Heals what was found damaged, as far as it is in a bundle, or follows from the rest. */
import { isSavepointError } from "../errors.js";
import type { Frame } from "../store/index.js";
import {
  type BundleLine,
  type BundleSource,
  type ConversationsStart,
  readBundle,
  type SessionStart,
  toFrame,
  toStream,
} from "../bundle/index.js";
import type { Context } from "../context.js";
import { moveMessage, readConversations, firstTitlePut } from "../conversations/index.js";
import {
  annotationKey,
  type BranchRecord,
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
  type CheckpointRow,
  rowKey,
  sessionKey,
  type SessionRecord,
  tapeName,
} from "../records/index.js";
import type { Events } from "../events/index.js";
import { SessionReader } from "../sessions/index.js";
import { type Finding, findingKey } from "./findings.js";
import { type RecordRepair, rebuildRecord, type BundledSession } from "./derived-records.js";

/** What a section has of what is wanted; it counts once its hash was right. */
interface Offer {
  readonly items: Map<string, Map<number, Frame>>;
  readonly blobs: Map<string, Uint8Array>;
  readonly records: Map<string, { readonly value: string; readonly refs: string }>;
  readonly rows: Map<number, CheckpointRow>;
  readonly branches: Map<string, BranchRecord>;
  /** The session that it is a section of, if it is of one: its id, its number here, and its record. */
  of?: { readonly id: string; readonly number: number };
  session?: SessionRecord;
}

export class Healer {
  /** The keys of findings that are healed, or would be. */
  readonly healed = new Set<string>();
  /** Of records that may have changed since the bundle was made that they were taken from: when that was. */
  readonly asOf = new Map<string, number>();
  readonly #context: Context;
  readonly #events: Events;
  readonly #dryRun: boolean;
  readonly #items = new Map<string, Set<number>>();
  readonly #blobs = new Set<string>();
  readonly #records = new Set<string>();
  /** What bundles say of sessions, by id: the first that says anything. */
  readonly #remembered = new Map<string, BundledSession>();
  readonly #findings: readonly Finding[];
  #madeAt = 0;

  /** @param events who is told that a bundle is damaged */
  constructor(context: Context, findings: readonly Finding[], dryRun: boolean, events: Events) {
    this.#events = events;
    this.#context = context;
    this.#findings = findings;
    this.#dryRun = dryRun;
    for (const { location } of findings) {
      if (!location) continue;
      if ("record" in location) this.#records.add(location.record);
      else if ("blob" in location) this.#blobs.add(location.blob);
      else this.#items.set(location.tape, (this.#items.get(location.tape) ?? new Set()).add(location.item));
    }
  }

  /** Takes what a bundle has. A bundle that is damaged is used up to where it is. */
  async healFrom(source: BundleSource): Promise<void> {
    let section: ((line: BundleLine) => void) | undefined;
    let offer = newOffer();
    const isOurs = await this.#isOurs(source);
    try {
      for await (const event of readBundle(toStream(source))) {
        if ("header" in event) this.#madeAt = event.header.createdAt;
        else if ("start" in event) {
          offer = newOffer();
          const { start } = event;
          if (start.begin === "session") section = await this.#session(start, offer);
          else section = start.begin === "conversations" ? await this.#conversations(start, offer, isOurs) : undefined;
        } else if ("line" in event) {
          if ("again" in event.line) clearOffer(offer);
          else section?.(event.line);
        } else if ("end" in event) await this.#apply(offer);
      }
    } catch (error) {
      if (!isSavepointError(error, "DAMAGED")) throw error;
      const message = "a bundle is damaged, and only what comes before that was used to repair the store";
      this.#events.emit("backgroundFailure", { message, error });
    }
  }

  /** Makes records anew that follow from others; what follows from those that were made, in a further pass. */
  async rebuild(): Promise<void> {
    for (let before = -1; this.healed.size > before;) {
      before = this.healed.size;
      for (const key of this.#records) {
        const [, session = ""] = key.split("\t");
        const remembered = this.#remembered.get(session) ?? { session: undefined, branches: new Map() };
        const rebuilt = await rebuildRecord(this.#context, key, remembered);
        if (!rebuilt) continue;
        await this.#write(key, rebuilt);
        if (!this.#dryRun) this.#records.delete(key);
      }
    }
  }

  async #write(key: string, rebuilt: NonNullable<RecordRepair>): Promise<void> {
    const { store } = this.#context;
    if (!this.#dryRun) {
      const [now] = await store.get([key]);
      // Somebody has written it anew meanwhile.
      if (now && "value" in now) return;
      await store.commit("put" in rebuilt ? { puts: [rebuilt.put] } : { deletes: [rebuilt.drop] });
    }
    this.#note({ record: key });
  }

  /** The number that a session of a bundle has here; `undefined` if it is not the same one. */
  async #numberOf({ id, number, createdAt }: SessionStart): Promise<number | undefined> {
    const reader = new SessionReader(this.#context, id);
    const here = await reader.session().catch((error: unknown) => {
      if (isSavepointError(error, "DAMAGED")) return undefined;
      throw error;
    });
    if (here) return here.record.createdAt === createdAt ? here.record.number : undefined;
    const listed = await reader.scanForNumber();
    return listed === undefined || listed === number ? number : undefined;
  }

  async #session(start: SessionStart, offer: Offer): Promise<((line: BundleLine) => void) | undefined> {
    const number = await this.#numberOf(start);
    if (number === undefined) return undefined;
    offer.of = { id: start.id, number };
    return (line) => {
      if ("items" in line)
        this.#offerItems(offer, tapeName(number, line.items[0]), line.items[1], line.items[2].map(toFrame));
      else if ("blob" in line) this.#offerBlob(offer, line);
      else if ("row" in line) offer.rows.set(line.row, decodeRow(line.row, line.value, line.refs ?? ""));
      else if ("note" in line) {
        const [seq, name, value] = line.note;
        this.#offerRecord(offer, noteKey(number, seq, name), value);
      } else if ("attached" in line) {
        const [seq, name, value, refs] = line.attached;
        this.#offerRecord(offer, annotationKey(number, seq, name), value, refs);
      } else if ("branch" in line) offer.branches.set(line.branch, decodeBranch(line.value));
      else if ("session" in line) offer.session = { ...decodeSession(line.session), number };
    };
  }

  /** Was it made from this store? A session that both have under the same number tells. A stream can be read only once. */
  async #isOurs(source: BundleSource): Promise<boolean> {
    if (typeof source !== "string" && !(source instanceof Uint8Array)) return false;
    try {
      for await (const event of readBundle(toStream(source))) {
        if (!("start" in event) || event.start.begin !== "session") continue;
        const { id, number, createdAt } = event.start;
        const [here] = await this.#context.store.get([sessionKey(id)]);
        const session = here && "value" in here ? decodeSession(here.value) : undefined;
        if (session?.number === number && session.createdAt === createdAt) return true;
      }
    } catch (error) {
      // It is told when it is read for good.
      if (!isSavepointError(error, "DAMAGED")) throw error;
    }
    return false;
  }

  /** Does a list say that this conversation has this number? */
  async #isListed(id: string, number: number): Promise<boolean> {
    const [listed] = await this.#context.store.get([conversationNumberKey(number)]);
    return listed !== undefined && "value" in listed && listed.value === id;
  }

  async #conversations(
    start: ConversationsStart,
    offer: Offer,
    isOurs: boolean,
  ): Promise<((line: BundleLine) => void) | undefined> {
    const numbers = new Map<number, number>();
    const stored = await readConversations(
      this.#context,
      start.conversations.map(([id]) => id),
    );
    // Those that were deleted there have moved as far as those that were not. Without one that is surely the same, it is
    // another agent's, or another store's.
    let shift: number | undefined;
    const others = new Set<number>();
    for (const [index, found] of stored.entries()) {
      const [id, createdAt, number] = start.conversations[index] as [string, number, number];
      if (!found || "unreadable" in found) {
        if (await this.#isListed(id, number)) [shift] = [0, numbers.set(number, number)];
      } else if (found.record.createdAt !== createdAt) others.add(number);
      else {
        numbers.set(number, found.record.number);
        shift = found.record.number - number;
      }
    }
    shift ??= isOurs ? 0 : undefined;
    if (shift === undefined) return undefined;
    const by = shift;
    const here = (number: number): number => numbers.get(number) ?? number + by;
    return (line) => {
      if ("items" in line) {
        const [number, first, frames] = line.items;
        if (others.has(number)) return;
        const moved = frames.map((frame, index) =>
          here(number) === number ? toFrame(frame) : moveMessage(toFrame(frame), { number, seq: first + index }),
        );
        this.#offerItems(offer, messageTape(here(number)), first, moved);
      } else if ("blob" in line) this.#offerBlob(offer, line);
      else if ("conversation" in line) {
        const record = decodeConversation(line.value);
        if (others.has(record.number)) return;
        const base = record.base.map((piece) => ({ ...piece, tape: here(piece.tape) }));
        const moved = { ...record, number: here(record.number), order: record.order + by, base };
        this.#offerRecord(offer, conversationKey(line.conversation), encodeConversation(moved));
        const title =
          line.firstTitle === undefined ? undefined : firstTitlePut(line.conversation, moved.number, line.firstTitle);
        if (title) this.#offerRecord(offer, title.key, title.value);
      }
    };
  }

  #offerItems(offer: Offer, tape: string, first: number, frames: readonly Frame[]): void {
    const wanted = this.#items.get(tape);
    if (!wanted) return;
    for (const [index, frame] of frames.entries()) {
      if (!wanted.has(first + index)) continue;
      offer.items.set(tape, (offer.items.get(tape) ?? new Map<number, Frame>()).set(first + index, frame));
    }
  }

  #offerBlob(offer: Offer, { blob, bytes }: Extract<BundleLine, { blob: string }>): void {
    if (this.#blobs.has(blob)) offer.blobs.set(blob, Buffer.from(bytes, "base64"));
  }

  #offerRecord(offer: Offer, key: string, value: string, refs = ""): void {
    if (this.#records.has(key)) offer.records.set(key, { value, refs });
  }

  async #apply(offer: Offer): Promise<void> {
    const { store } = this.#context;
    const { of, session, branches } = offer;
    if (of) {
      if (!this.#remembered.has(of.id)) this.#remembered.set(of.id, { session, branches });
      await this.#offerRows(offer, of.number);
    }
    for (const [tape, items] of offer.items) {
      if (!this.#dryRun) await store.heal(tape, items);
      for (const item of items.keys()) {
        this.#items.get(tape)?.delete(item);
        this.#note({ tape, item });
      }
    }
    for (const [hash, bytes] of offer.blobs) {
      if (!this.#dryRun) await store.commit({ blobs: [{ hash, bytes }] });
      this.#blobs.delete(hash);
      this.#note({ blob: hash });
    }
    for (const [key, { value, refs }] of offer.records) {
      await this.#write(key, { put: { key, value, refs } });
      // Checkpoints never change; what is said about conversations, labels and pins do.
      if (!key.startsWith("z")) this.asOf.set(key, this.#madeAt);
      this.#records.delete(key);
    }
  }

  /** Rows that are damaged, or that others have as their parent and are gone. */
  async #offerRows(offer: Offer, number: number): Promise<void> {
    const reader = new SessionReader(this.#context, "");
    const missing = new Set<number>();
    for await (const row of reader.allRows(number, false)) {
      if (!("unreadable" in row) && row.parent !== undefined) missing.add(row.parent);
    }
    for (const [seq, row] of offer.rows) {
      const key = rowKey(number, seq);
      const here = await reader.row(number, seq);
      if (here ? !("unreadable" in here) : !missing.has(seq)) continue;
      const parent = await this.#livingParent(reader, number, row, offer.rows);
      offer.records.set(key, { value: encodeRow({ ...row, ...parent }), refs: row.skeleton.refs });
    }
  }

  /** Checkpoints between may have been pruned since the bundle was made. */
  async #livingParent(
    reader: SessionReader,
    number: number,
    row: CheckpointRow,
    rows: ReadonlyMap<number, CheckpointRow>,
  ): Promise<Pick<CheckpointRow, "parent" | "grandparent">> {
    let { parent } = row;
    while (parent !== undefined && !(await reader.row(number, parent))) parent = rows.get(parent)?.parent;
    return parent === row.parent ? { parent, grandparent: row.grandparent } : { parent, grandparent: undefined };
  }

  #note(at: NonNullable<Finding["location"]>): void {
    const wanted = JSON.stringify(at);
    for (const finding of this.#findings) {
      if (finding.location && JSON.stringify(finding.location) === wanted) this.healed.add(findingKey(finding));
    }
  }
}

function newOffer(): Offer {
  return { items: new Map(), blobs: new Map(), records: new Map(), rows: new Map(), branches: new Map() };
}

/** What was offered so far was changed while it was exported. */
function clearOffer({ items, blobs, records, rows, branches }: Offer): void {
  for (const map of [items, blobs, records, rows, branches]) map.clear();
}
