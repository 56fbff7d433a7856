/**
 * Records that can be derived from others, and rebuilt if they are lost.
 *
 * Rebuilt counters are set well above everything that is found: numbers of lost data must not be given to new data. Gaps do no
 * harm.
 */
import type { Context } from "../context.js";
import { newStamp, readConversations, readMessages, toTitle } from "../conversations/index.js";
import {
  ALL_CONVERSATION_NUMBERS,
  ALL_CONVERSATIONS,
  ALL_SESSION_NUMBERS,
  ANNOTATIONS_TAPE,
  branchesOf,
  type BranchRecord,
  type CheckpointRow,
  type ConversationRecord,
  decodeBranch,
  decodeConversation,
  decodeJournal,
  decodeNumbers,
  encodeBranch,
  encodeRow,
  encodeSession,
  idPrefix,
  journalKey,
  MAIN,
  messageTape,
  newSessionRecord,
  encodeBackup,
  NEXT_NUMBER_KEY,
  piecesOf,
  type SessionRecord,
  slicePieces,
  tapeName,
  trailingNumberOf,
} from "../records/index.js";
import { findSessionByNumber, SessionReader } from "../sessions/index.js";
import { type Put, scan, type Store } from "../store/index.js";

/** How far counters are set above the highest number that is found. */
const COUNTER_MARGIN = 1_000;
/** Items per read when the end of a tape is searched. */
const READ_ITEMS = 256;
/** Reads without any item after which the tape is taken to have ended. */
const EMPTY_READS = 4;
/** Messages that are searched for one that gives a conversation its title. */
const TITLE_MESSAGES = 256;

/** How a lost record is repaired: by writing it, or by deleting it because it is not needed; `undefined` if it cannot be. */
export type RecordRepair = { readonly put: Put } | { readonly drop: string } | undefined;

/** The records of a session in a bundle, if there is one. */
export interface BundledSession {
  readonly session: SessionRecord | undefined;
  readonly branches: ReadonlyMap<string, BranchRecord>;
}

/** Derives a lost record from the other records of the store, and from an older version in a bundle. Writes nothing. */
export async function rebuildRecord(context: Context, key: string, bundled: BundledSession): Promise<RecordRepair> {
  const { store } = context;
  const putValue = (value: string | undefined): RecordRepair =>
    value === undefined ? undefined : { put: { key, value } };
  const [kind = "", first = "", second] = key.split("\t");
  if (key === NEXT_NUMBER_KEY) return putValue(String((await highestNumber(store)) + COUNTER_MARGIN));
  if (kind === "s" && second === undefined) return putValue(await rebuildSession(context, first, bundled.session));
  if (kind === "s" && second !== undefined) {
    return putValue(await rebuildBranch(context, first, second, bundled.branches.get(second)));
  }
  // Kinds of records by the first letter of their keys; see records/keys.ts.
  switch (key[0]) {
    case "n":
      return putValue(await findSessionByNumber(store, numberOfKey(key)));
    case "j":
      return putValue(await findSessionByNumber(store, trailingNumberOf(key)));
    case "i":
      return putValue(await findSeqOfId(context, key));
    case "l":
      return putValue(String(trailingNumberOf(key)));
    case "k":
      return putValue(await rebuildConversationListing(store, key));
    case "c":
      return rebuildConversationPart(context, key);
    case "z":
      return rebuildRowOfHead(context, key);
    case "w": {
      // Annotations cannot be derived, their counter can.
      if (decodeNumbers(key.slice(1), 1).rest !== "") return undefined;
      const end = await findTapeEnd(store, tapeName(numberOfKey(key), ANNOTATIONS_TAPE), 0);
      return putValue(String(end + COUNTER_MARGIN));
    }
    case "x":
    case "y":
      return putValue("");
    case "d":
      return second === undefined ? { drop: key } : putValue(newStamp());
    // The path is in the key. The time and the machine are lost, so an erasure reports the backup as one of another machine.
    case "b":
      return putValue(encodeBackup({ createdAt: 0, host: "unknown" }));
    // A process or an import writes its record again, or has ended.
    case "h":
    case "o":
    case "v":
      return { drop: key };
    default:
      return undefined;
  }
}

function numberOfKey(key: string): number {
  return decodeNumbers(key.slice(1), 1).numbers[0] as number;
}

async function rebuildSession(
  context: Context,
  id: string,
  bundled: SessionRecord | undefined,
): Promise<string | undefined> {
  const reader = new SessionReader(context, id);
  const number = (await reader.scanForNumber()) ?? bundled?.number;
  if (number === undefined) return undefined;
  let [nextSeq, nextTape, checkpoints, createdAt] = [bundled?.nextSeq ?? 0, bundled?.nextTape ?? 1, 0, Infinity];
  const skipPast = ({ seq, tape }: Pick<CheckpointRow, "seq" | "tape">): void => {
    nextSeq = Math.max(nextSeq, seq + 1);
    nextTape = Math.max(nextTape, tape + 1);
  };
  for await (const row of reader.allRows(number, false)) {
    checkpoints++;
    if ("unreadable" in row) nextSeq = Math.max(nextSeq, row.seq + 1);
    else {
      skipPast(row);
      createdAt = Math.min(createdAt, row.createdAt);
    }
  }
  for (const { head, tape } of await readIntactBranches(context, id)) skipPast({ seq: head?.seq ?? 0, tape });
  return encodeSession({
    ...newSessionRecord(number, bundled?.createdAt ?? (createdAt === Infinity ? 0 : createdAt)),
    agent: bundled?.agent ?? (await findAgentOfSession(context.store, number)),
    policy: bundled?.policy,
    nextSeq: nextSeq + COUNTER_MARGIN,
    nextTape: nextTape + COUNTER_MARGIN,
    checkpoints,
  });
}

/** The head of a rebuilt branch is the newest readable checkpoint that was saved on it. */
async function rebuildBranch(
  context: Context,
  id: string,
  name: string,
  bundled: BranchRecord | undefined,
): Promise<string | undefined> {
  const reader = new SessionReader(context, id);
  const number = await reader.scanForNumber();
  if (number === undefined) return undefined;
  let newest: CheckpointRow | undefined;
  let oldest: CheckpointRow | undefined;
  for await (const row of reader.allRows(number, true)) {
    if ("unreadable" in row || row.branch !== name) continue;
    newest ??= row;
    oldest = row;
  }
  const head = newest ?? bundled?.head;
  const tape = newest?.tape ?? bundled?.tape ?? (name === MAIN ? 0 : undefined);
  if (tape === undefined || (!head && name !== MAIN)) return undefined;
  const parent = head?.parent === undefined ? undefined : await reader.row(number, head.parent);
  const [journal] = await context.store.get([journalKey(id, name)]);
  const epoch = journal && "value" in journal ? decodeJournal(journal.value).epoch : (bundled?.epoch ?? 0);
  return encodeBranch({
    name,
    tape,
    nextItem: (await findTapeEnd(context.store, tapeName(number, tape), bundled?.nextItem ?? 0)) + COUNTER_MARGIN,
    epoch: epoch + COUNTER_MARGIN,
    held: false,
    // A head that was found among the rows is not hidden.
    hidden: newest === undefined && (bundled?.hidden ?? false),
    createdAt: bundled?.createdAt ?? oldest?.createdAt ?? head?.createdAt ?? 0,
    forkedFrom: bundled?.forkedFrom ?? (name === MAIN ? undefined : oldest?.parent),
    head,
    headParentId: parent && !("unreadable" in parent) ? parent.id : undefined,
  });
}

/** The record of a branch contains a copy of its head's row. */
async function rebuildRowOfHead(context: Context, key: string): Promise<RecordRepair> {
  const [number, seq] = decodeNumbers(key.slice(1), 2).numbers;
  const id = await findSessionByNumber(context.store, number as number);
  for (const { head } of id === undefined ? [] : await readIntactBranches(context, id)) {
    if (head && head.seq === seq) return { put: { key, value: encodeRow(head), refs: head.skeleton.refs } };
  }
  return undefined;
}

async function readIntactBranches({ store }: Context, id: string): Promise<BranchRecord[]> {
  const branches: BranchRecord[] = [];
  for await (const record of scan(store, branchesOf(id))) {
    if ("value" in record) branches.push(decodeBranch(record.value));
  }
  return branches;
}

/** One more than the number of the last readable item of a tape, and at least `minimum`. */
async function findTapeEnd(store: Store, tape: string, minimum: number): Promise<number> {
  let end = minimum;
  for (let start = 0, empty = 0; empty < EMPTY_READS; start += READ_ITEMS) {
    const found = await store.items([{ tape, start, count: READ_ITEMS }]);
    empty = found.every((item) => "unreadable" in item) && start >= minimum ? empty + 1 : 0;
    for (const [index, item] of found.entries()) {
      if (!("unreadable" in item)) end = Math.max(end, start + index + 1);
    }
  }
  return end;
}

async function highestNumber(store: Store): Promise<number> {
  let highest = 0;
  for (const range of [ALL_SESSION_NUMBERS, ALL_CONVERSATION_NUMBERS]) {
    for await (const { key } of scan(store, range)) highest = Math.max(highest, numberOfKey(key));
  }
  for await (const [, { number }] of scanConversations(store)) highest = Math.max(highest, number);
  return highest;
}

async function findAgentOfSession(store: Store, number: number): Promise<string | undefined> {
  for await (const { key } of scan(store, { from: "j\t", to: "k" })) {
    if (trailingNumberOf(key) === number) return key.split("\t")[1];
  }
  return undefined;
}

async function findSeqOfId(context: Context, key: string): Promise<string | undefined> {
  const number = trailingNumberOf(key);
  const prefix = key.slice(0, key.lastIndexOf("\t") + 1);
  const reader = new SessionReader(context, "");
  for await (const row of reader.allRows(number, true)) {
    if (!("unreadable" in row) && idPrefix(row.id) === prefix) return String(row.seq);
  }
  return undefined;
}

/** An entry of the list of all conversations, or of an agent's list, which also marks archived ones with a tab. */
async function rebuildConversationListing(store: Store, key: string): Promise<string | undefined> {
  const isAgentList = key.includes("\t");
  const order = isAgentList ? trailingNumberOf(key) : numberOfKey(key);
  for await (const [id, record] of scanConversations(store)) {
    if (record.order === order) return isAgentList && record.archived ? `${id}\t` : id;
  }
  return undefined;
}

async function* scanConversations(store: Store): AsyncGenerator<[id: string, record: ConversationRecord]> {
  for await (const record of scan(store, ALL_CONVERSATIONS)) {
    const [, id = "", part] = record.key.split("\t");
    if (part === undefined && "value" in record) yield [id, decodeConversation(record.value)];
  }
}

/** The message counter, the title and the time of the last message of a conversation follow from its messages. */
async function rebuildConversationPart(context: Context, key: string): Promise<RecordRepair> {
  const { store } = context;
  const [, id = "", part = ""] = key.split("\t");
  const number = decodeNumbers(part.slice(1), 1).numbers[0] as number;
  const tape = messageTape(number);
  if (part.startsWith("n")) return { put: { key, value: String(await findTapeEnd(store, tape, 0)) } };
  if (part.startsWith("t")) {
    const title = await deriveTitle(context, id);
    return title === undefined ? { drop: key } : { put: { key, value: JSON.stringify(title) } };
  }
  if (!part.startsWith("l")) return undefined;
  const end = await findTapeEnd(store, tape, 0);
  const [last] = end > 0 ? await readMessages(context, [{ tape: number, start: end - 1, count: 1 }]) : [];
  return !last || "unreadable" in last ? { drop: key } : { put: { key, value: String(last.timestamp) } };
}

/** The title that the first message of a user gives to a conversation. */
async function deriveTitle(context: Context, id: string): Promise<string | undefined> {
  const [stored] = await readConversations(context, [id]);
  if (!stored || "unreadable" in stored) return undefined;
  const pieces = slicePieces(piecesOf(stored.record, stored.items), 0, TITLE_MESSAGES);
  for (const entry of await readMessages(context, pieces)) {
    const title = !("unreadable" in entry) && entry.role === "user" ? toTitle(entry.text) : undefined;
    if (title !== undefined) return title;
  }
  return undefined;
}
