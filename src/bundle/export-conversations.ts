/** Exports the conversations of an agent as a section of a bundle, with messages that only checkpoints still reference. */
import type { AgentState } from "../agents/index.js";
import type { Context } from "../context.js";
import {
  decodeConversationListing,
  decodeSnapshot,
  piecesOfSnapshot,
  readConversations,
  readNumberMoves,
  type StoredConversation,
} from "../conversations/index.js";
import { findLiveMessages, markPieces } from "../gc/index.js";
import {
  agentHistoryId,
  conversationsOf,
  decodeSession,
  messageTape,
  piecesOf,
  removedConversationsOf,
  sessionKey,
  trailingNumberOf,
} from "../records/index.js";
import { parseRefs } from "../state/index.js";
import { scan } from "../store/index.js";
import type { IntervalSet } from "../util/index.js";
import type { BundleFrame, BundleLine, SectionLines, SectionStart } from "./format.js";
import { blobLines, exportUnchanged, itemLines, type WrittenBlobs } from "./frames.js";

/**
 * Yields the lines of a section with all conversations of an agent or, if `agent` is `undefined`, those that belong to no
 * agent. Other processes may write to them during the export. If data is missing and the conversations have changed, the
 * section is exported again.
 *
 * @param highest conversations with a higher number are newer than the export and left out
 */
export async function* exportConversations(
  context: Context,
  agent: string | undefined,
  highest: number,
  blobsWritten: WrittenBlobs,
): SectionLines {
  const readNow = (): Promise<AgentConversationsSnapshot> => readSnapshot(context, agent, highest);
  const first = await readNow();
  yield await buildStart(context, agent, first.intact);
  const announced = new Set(first.intact.map(({ id }) => id));
  yield* exportUnchanged(first, readNow, (snapshot) => sectionLines(context, agent, snapshot, announced, blobsWritten));
}

/** @param announced the ids that the start of the section has named; others cannot be added later */
async function* sectionLines(
  context: Context,
  agent: string | undefined,
  { intact, holes }: AgentConversationsSnapshot,
  announced: ReadonlySet<string>,
  blobsWritten: WrittenBlobs,
): AsyncGenerator<BundleLine> {
  const removed: number[] = [];
  if (agent !== undefined) {
    for await (const { key } of scan(context.store, removedConversationsOf(agent))) removed.push(trailingNumberOf(key));
  }
  const live = await findLiveMessages(context, agent ?? "");
  for (const { record, items } of intact) markPieces(live, piecesOf(record, items));
  yield* messageLines(context, live, blobsWritten);
  yield* holes;
  for (const { id, value, items, lastMessageAt, firstTitle } of intact) {
    if (!announced.has(id)) continue;
    yield { conversation: id, value, count: items, lastMessageAt, ...(firstTitle !== undefined && { firstTitle }) };
  }
  for (const number of removed) yield { gone: number };
}

/** The messages that a checkpoint of an agent references, by the number of their conversation. */
export function messagesOfState(agent: string, { conversations }: AgentState): Map<number, IntervalSet> {
  const live = new Map<number, IntervalSet>();
  for (const snapshot of conversations.values()) markPieces(live, piecesOfSnapshot(decodeSnapshot(snapshot, agent)));
  return live;
}

/** The messages of one checkpoint of an agent, as removed conversations: restoring the checkpoint creates them again. */
export async function* exportMessages(
  context: Context,
  agent: string,
  live: ReadonlyMap<number, IntervalSet>,
  blobsWritten: WrittenBlobs,
): SectionLines {
  yield await buildStart(context, agent, []);
  yield* messageLines(context, live, blobsWritten);
  for (const number of live.keys()) yield { gone: number };
}

async function buildStart(
  context: Context,
  agent: string | undefined,
  intact: readonly StoredConversation[],
): Promise<SectionStart> {
  const conversations = intact.map(({ id, record }) => [id, record.createdAt, record.number] as const);
  if (agent === undefined) return { begin: "conversations", moves: [], conversations };
  const [session] = await context.store.get([sessionKey(agentHistoryId(agent))]);
  const created = session && "value" in session ? { agentCreatedAt: decodeSession(session.value).createdAt } : {};
  return { begin: "conversations", agent, ...created, moves: await readNumberMoves(context, agent), conversations };
}

/** The conversations of an agent at one moment. */
interface AgentConversationsSnapshot {
  readonly intact: readonly StoredConversation[];
  readonly holes: readonly BundleLine[];
  /** Differs if any conversation has changed. */
  readonly fingerprint: string;
}

async function readSnapshot(
  context: Context,
  agent: string | undefined,
  highest: number,
): Promise<AgentConversationsSnapshot> {
  const ids: string[] = [];
  const holes: BundleLine[] = [];
  for await (const record of scan(context.store, conversationsOf(agent))) {
    if (trailingNumberOf(record.key) > highest) continue;
    if ("value" in record) ids.push(decodeConversationListing(record.value).id);
    else holes.push({ hole: record.key, reason: record.unreadable });
  }
  const intact: StoredConversation[] = [];
  for (const found of await readConversations(context, ids)) {
    if (!found) continue;
    if ("unreadable" in found) holes.push({ hole: `conversation ${found.id}`, reason: found.unreadable });
    else if (found.record.number <= highest) intact.push(found);
  }
  return { intact, holes, fingerprint: JSON.stringify(intact.map(({ value, items }) => [value, items])) };
}

async function* messageLines(
  context: Context,
  live: ReadonlyMap<number, IntervalSet>,
  blobsWritten: WrittenBlobs,
): AsyncGenerator<BundleLine> {
  for (const [number, intervals] of live) {
    for await (const line of itemLines(context, messageTape(number), number, intervals.spans())) {
      if ("items" in line) yield* blobLines(context, blobsOf(line.items[2]), blobsWritten);
      yield line;
    }
  }
}

function* blobsOf(frames: readonly BundleFrame[]): Generator<string> {
  for (const [, refs = ""] of frames) for (const ref of parseRefs(refs, 0)) if ("blob" in ref) yield ref.blob;
}
