/**
 * Records that follow from others, and can be made anew where they are lost.
 *
 * Counters that are made anew are set well above all that is found: what was numbered by them and is gone must not be taken
 * for something new. Gaps do no harm.
 */
import { type Put, scan, type Store } from "../store/index.js";
import type { Context } from "../context.js";
import { readConversations, readMessages, toTitle } from "../conversations/index.js";
import {
  ALL_CONVERSATION_NUMBERS,
  ALL_CONVERSATIONS,
  ALL_SESSION_NUMBERS,
  ANNOTATIONS_TAPE,
  branchesOf,
  type BranchRecord,
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
  trailingNumberOf,
  MAIN,
  messageTape,
  newSessionRecord,
  NEXT_NUMBER_KEY,
  piecesOf,
  type CheckpointRow,
  type SessionRecord,
  slicePieces,
  tapeName,
} from "../records/index.js";
import { SessionReader, findSessionByNumber } from "../sessions/index.js";

/** How far counters are set above what is found. */
const MARGIN = 1_000;
/** Items that are looked for behind the last one that is known. */
const AHEAD = 256;

/** What becomes of a record that is lost: what to write, that it can be done without, or that nobody can tell. */
export type RecordRepair = { readonly put: Put } | { readonly drop: string } | undefined;

/** What a bundle says of a session, where there is one. */
export interface BundledSession {
  readonly session: SessionRecord | undefined;
  readonly branches: ReadonlyMap<string, BranchRecord>;
}

export async function rebuildRecord(context: Context, key: string, remembered: BundledSession): Promise<RecordRepair> {
  const { store } = context;
  const value = (text: string | undefined): RecordRepair =>
    text === undefined ? undefined : { put: { key, value: text } };
  const [kind = "", first = "", second] = key.split("\t");
  if (key === NEXT_NUMBER_KEY) return value(String((await highestNumber(store)) + MARGIN));
  if (kind === "s" && second === undefined) return value(await rebuildSession(context, first, remembered.session));
  if (kind === "s" && second !== undefined) {
    return value(await rebuildBranch(context, first, second, remembered.branches.get(second)));
  }
  switch (key[0]) {
    case "n":
      return value(await findSessionByNumber(store, numberIn(key)));
    case "j":
      return value(await findSessionByNumber(store, trailingNumberOf(key)));
    case "i":
      return value(await seqOfId(context, key));
    case "l":
      return value(String(trailingNumberOf(key)));
    case "k":
      return value(await conversationInOrder(store, key));
    case "c":
      return rebuildConversationPart(context, key);
    case "z":
      return rowOfHead(context, key);
    case "w":
      return isAttachmentCounter(key) ? value(String(await attachedItems(store, numberIn(key)))) : undefined;
    case "x":
    case "y":
      return value("");
    // Whoever it is about writes it again, or is gone.
    case "h":
    case "o":
    case "v":
      return { drop: key };
    default:
      return undefined;
  }
}

const isAttachmentCounter = (key: string): boolean => decodeNumbers(key.slice(1), 1).rest === "";

/** How many items the tape of attached values has, at most. */
async function attachedItems(store: Store, number: number): Promise<number> {
  return (await highestItem(store, tapeName(number, ANNOTATIONS_TAPE), 0)) + MARGIN;
}

const numberIn = (key: string): number => decodeNumbers(key.slice(1), 1).numbers[0] as number;

async function rebuildSession(
  context: Context,
  id: string,
  before: SessionRecord | undefined,
): Promise<string | undefined> {
  const reader = new SessionReader(context, id);
  const number = (await reader.scanForNumber()) ?? before?.number;
  if (number === undefined) return undefined;
  let [nextSeq, nextTape, checkpoints, createdAt] = [before?.nextSeq ?? 0, before?.nextTape ?? 1, 0, Infinity];
  const see = ({ seq, tape }: Pick<CheckpointRow, "seq" | "tape">): void => {
    nextSeq = Math.max(nextSeq, seq + 1);
    nextTape = Math.max(nextTape, tape + 1);
  };
  for await (const row of reader.allRows(number, false)) {
    checkpoints++;
    if ("unreadable" in row) nextSeq = Math.max(nextSeq, row.seq + 1);
    else {
      see(row);
      createdAt = Math.min(createdAt, row.createdAt);
    }
  }
  for (const { head, tape } of await readableBranches(context, id)) see({ seq: head?.seq ?? 0, tape });
  return encodeSession({
    ...newSessionRecord(number, before?.createdAt ?? (createdAt === Infinity ? 0 : createdAt)),
    agent: before?.agent ?? (await agentOfSession(context.store, number)),
    policy: before?.policy,
    nextSeq: nextSeq + MARGIN,
    nextTape: nextTape + MARGIN,
    checkpoints,
  });
}

/** Its head is the newest checkpoint that was saved on it and can be read. */
async function rebuildBranch(
  context: Context,
  id: string,
  name: string,
  before: BranchRecord | undefined,
): Promise<string | undefined> {
  const reader = new SessionReader(context, id);
  const number = await reader.scanForNumber();
  if (number === undefined) return undefined;
  let head: CheckpointRow | undefined;
  let first: CheckpointRow | undefined;
  for await (const row of reader.allRows(number, true)) {
    if ("unreadable" in row || row.branch !== name) continue;
    head ??= row;
    first = row;
  }
  const known = head ?? before?.head;
  const tape = head?.tape ?? before?.tape ?? (name === MAIN ? 0 : undefined);
  if (tape === undefined || (!known && name !== MAIN)) return undefined;
  const parent = known?.parent === undefined ? undefined : await reader.row(number, known.parent);
  const [journal] = await context.store.get([journalKey(id, name)]);
  const epoch = journal && "value" in journal ? decodeJournal(journal.value).epoch : (before?.epoch ?? 0);
  return encodeBranch({
    name,
    tape,
    nextItem: (await highestItem(context.store, tapeName(number, tape), before?.nextItem ?? 0)) + MARGIN,
    epoch: epoch + MARGIN,
    held: false,
    // A head that has a row is shown.
    hidden: head === undefined && (before?.hidden ?? false),
    createdAt: before?.createdAt ?? first?.createdAt ?? known?.createdAt ?? 0,
    forkedFrom: before?.forkedFrom ?? (name === MAIN ? undefined : first?.parent),
    head: known,
    headParentId: parent && !("unreadable" in parent) ? parent.id : undefined,
  });
}

/** A branch's record has its head's row once more. */
async function rowOfHead(context: Context, key: string): Promise<RecordRepair> {
  const [number, seq] = decodeNumbers(key.slice(1), 2).numbers;
  const id = await findSessionByNumber(context.store, number as number);
  for (const { head } of id === undefined ? [] : await readableBranches(context, id)) {
    if (head && head.seq === seq) return { put: { key, value: encodeRow(head), refs: head.skeleton.refs } };
  }
  return undefined;
}

async function readableBranches({ store }: Context, id: string): Promise<BranchRecord[]> {
  const branches: BranchRecord[] = [];
  for await (const record of scan(store, branchesOf(id))) {
    if ("value" in record) branches.push(decodeBranch(record.value));
  }
  return branches;
}

/** One more than the number of the last item that can be found from a number on. */
async function highestItem(store: Store, tape: string, from: number): Promise<number> {
  let next = from;
  for (let start = 0, empty = 0; empty < 4; start += AHEAD) {
    const found = await store.items([{ tape, start, count: AHEAD }]);
    empty = found.every((item) => "unreadable" in item) && start >= from ? empty + 1 : 0;
    for (const [index, item] of found.entries()) {
      if (!("unreadable" in item)) next = Math.max(next, start + index + 1);
    }
  }
  return next;
}

async function highestNumber(store: Store): Promise<number> {
  let highest = 0;
  for (const range of [ALL_SESSION_NUMBERS, ALL_CONVERSATION_NUMBERS]) {
    for await (const { key } of scan(store, range)) highest = Math.max(highest, numberIn(key));
  }
  for await (const [, { number }] of conversationRecords(store)) highest = Math.max(highest, number);
  return highest;
}

async function agentOfSession(store: Store, number: number): Promise<string | undefined> {
  for await (const { key } of scan(store, { from: "j\t", to: "k" })) {
    if (trailingNumberOf(key) === number) return key.split("\t")[1];
  }
  return undefined;
}

async function seqOfId(context: Context, key: string): Promise<string | undefined> {
  const number = trailingNumberOf(key);
  const prefix = key.slice(0, key.lastIndexOf("\t") + 1);
  const reader = new SessionReader(context, "");
  for await (const row of reader.allRows(number, true)) {
    if (!("unreadable" in row) && idPrefix(row.id) === prefix) return String(row.seq);
  }
  return undefined;
}

async function conversationInOrder(store: Store, key: string): Promise<string | undefined> {
  const isList = key.includes("\t");
  const order = isList ? trailingNumberOf(key) : numberIn(key);
  for await (const [id, record] of conversationRecords(store)) {
    if (record.order === order) return isList && record.archived ? `${id}\t` : id;
  }
  return undefined;
}

async function* conversationRecords(store: Store): AsyncGenerator<[id: string, record: ConversationRecord]> {
  for await (const record of scan(store, ALL_CONVERSATIONS)) {
    const [, id = "", part] = record.key.split("\t");
    if (part === undefined && "value" in record) yield [id, decodeConversation(record.value)];
  }
}

/** How many there are can be counted; when the last one came, and what the first one says, can be read from them. */
async function rebuildConversationPart(context: Context, key: string): Promise<RecordRepair> {
  const { store } = context;
  const [, id = "", part = ""] = key.split("\t");
  const number = decodeNumbers(part.slice(1), 1).numbers[0] as number;
  const tape = messageTape(number);
  if (part.startsWith("n")) return { put: { key, value: String(await highestItem(store, tape, 0)) } };
  if (part.startsWith("t")) {
    const title = await firstTitle(context, id);
    return title === undefined ? { drop: key } : { put: { key, value: JSON.stringify(title) } };
  }
  if (!part.startsWith("l")) return undefined;
  const next = await highestItem(store, tape, 0);
  const [last] = next > 0 ? await readMessages(context, [{ tape: number, start: next - 1, count: 1 }]) : [];
  return !last || "unreadable" in last ? { drop: key } : { put: { key, value: String(last.timestamp) } };
}

/** What the first message of a user gives a conversation as its title. */
async function firstTitle(context: Context, id: string): Promise<string | undefined> {
  const [stored] = await readConversations(context, [id]);
  if (!stored || "unreadable" in stored) return undefined;
  const pieces = slicePieces(piecesOf(stored.record, stored.items), 0, AHEAD);
  for (const entry of await readMessages(context, pieces)) {
    const title = !("unreadable" in entry) && entry.role === "user" ? toTitle(entry.text) : undefined;
    if (title !== undefined) return title;
  }
  return undefined;
}
