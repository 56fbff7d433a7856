/**
 * The conversations of an agent as a section of a bundle: their messages, those that only checkpoints of the agent still
 * have, and their records.
 */
import { parseRefs } from "../state/index.js";
import { scan } from "../store/index.js";
import { findLiveMessages, markPieces } from "../gc/index.js";
import type { Context } from "../context.js";
import {
  decodeSnapshot,
  decodeConversationListing,
  piecesOfSnapshot,
  readConversations,
  readNumberMoves,
  type StoredConversation,
} from "../conversations/index.js";
import {
  agentHistoryId,
  conversationsOf,
  decodeSession,
  removedConversationsOf,
  trailingNumberOf,
  messageTape,
  piecesOf,
  sessionKey,
} from "../records/index.js";
import type { IntervalSet } from "../util/index.js";
import type { AgentState } from "../agents/index.js";
import type { BundleFrame, BundleLine, SectionStart } from "./format.js";
import { blobLines, itemLines } from "./frames.js";

/** Somebody always changes them. */
const MAX_TRIES = 20;

/**
 * All conversations of an agent; of none, where the agent is `undefined`.
 *
 * @param highest what has a higher number was begun after the export, and is not part of it
 */
export async function* exportConversations(
  context: Context,
  agent: string | undefined,
  highest: number,
  blobsWritten: Set<string>,
): AsyncGenerator<SectionStart | BundleLine> {
  let seen = await readAll(context, agent, highest);
  yield await startOf(context, agent, seen.whole);
  const listed = new Set(seen.whole.map(({ id }) => id));
  for (let tries = 1; ; tries++) {
    let holes = 0;
    for await (const line of wholeSection(context, agent, seen, listed, blobsWritten)) {
      if ("hole" in line) holes++;
      yield line;
    }
    // What is missing may have gone since; if nothing has changed, it is damage.
    const now = await readAll(context, agent, highest);
    if (holes === 0 || now.text === seen.text || tries === MAX_TRIES) return;
    yield { again: true };
    seen = now;
  }
}

async function* wholeSection(
  context: Context,
  agent: string | undefined,
  { whole, holes }: Seen,
  listed: ReadonlySet<string>,
  blobsWritten: Set<string>,
): AsyncGenerator<BundleLine> {
  const gone: number[] = [];
  if (agent !== undefined) {
    for await (const { key } of scan(context.store, removedConversationsOf(agent))) gone.push(trailingNumberOf(key));
  }
  const live = await findLiveMessages(context, agent ?? "");
  for (const { record, items } of whole) markPieces(live, piecesOf(record, items));
  yield* messageLines(context, live, blobsWritten);
  yield* holes;
  for (const { id, value, items, lastMessageAt, firstTitle } of whole) {
    if (!listed.has(id)) continue;
    yield { conversation: id, value, count: items, lastMessageAt, ...(firstTitle !== undefined && { firstTitle }) };
  }
  for (const number of gone) yield { gone: number };
}

/** The messages that a checkpoint of a whole agent has, by the numbers of conversations. */
export function messagesOfState(agent: string, { conversations }: AgentState): Map<number, IntervalSet> {
  const live = new Map<number, IntervalSet>();
  for (const entry of conversations.values()) markPieces(live, piecesOfSnapshot(decodeSnapshot(entry, agent)));
  return live;
}

/** Messages that only a checkpoint of the agent has. Restoring it makes the conversations anew. */
export async function* exportMessages(
  context: Context,
  agent: string,
  live: ReadonlyMap<number, IntervalSet>,
  blobsWritten: Set<string>,
): AsyncGenerator<SectionStart | BundleLine> {
  yield await startOf(context, agent, []);
  yield* messageLines(context, live, blobsWritten);
  for (const number of live.keys()) yield { gone: number };
}

async function startOf(
  context: Context,
  agent: string | undefined,
  whole: readonly StoredConversation[],
): Promise<SectionStart> {
  const conversations = whole.map(({ id, record }) => [id, record.createdAt, record.number] as const);
  if (agent === undefined) return { begin: "conversations", moves: [], conversations };
  const [line] = await context.store.get([sessionKey(agentHistoryId(agent))]);
  const created = line && "value" in line ? { agentCreatedAt: decodeSession(line.value).createdAt } : {};
  return { begin: "conversations", agent, ...created, moves: await readNumberMoves(context, agent), conversations };
}

/** The conversations of an agent at one moment. */
interface Seen {
  readonly whole: readonly StoredConversation[];
  readonly holes: readonly BundleLine[];
  /** All of it as one text, to tell whether it has changed. */
  readonly text: string;
}

async function readAll(context: Context, agent: string | undefined, highest: number): Promise<Seen> {
  const ids: string[] = [];
  const holes: BundleLine[] = [];
  for await (const record of scan(context.store, conversationsOf(agent))) {
    if (trailingNumberOf(record.key) > highest) continue;
    if ("value" in record) ids.push(decodeConversationListing(record.value).id);
    else holes.push({ hole: record.key, reason: record.unreadable });
  }
  const whole: StoredConversation[] = [];
  for (const found of await readConversations(context, ids)) {
    if (!found) continue;
    if ("unreadable" in found) holes.push({ hole: `conversation ${found.id}`, reason: found.unreadable });
    else if (found.record.number <= highest) whole.push(found);
  }
  return { whole, holes, text: JSON.stringify(whole.map(({ value, items }) => [value, items])) };
}

async function* messageLines(
  context: Context,
  live: ReadonlyMap<number, IntervalSet>,
  blobsWritten: Set<string>,
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
