/**
 * The conversations of an agent as a section of a bundle: their messages, those that only checkpoints of the agent still
 * have, and their records.
 */
import type { Piece } from "../../state/refs.js";
import { parseRefs } from "../../state/refs.js";
import { scan } from "../../store/scan.js";
import { liveMessages } from "../collect-conversations.js";
import type { Context } from "../context.js";
import { listedConversation } from "../conversation-commit.js";
import { decodeEntry, piecesOfEntry } from "../conversation-entry.js";
import { readConversations, type StoredConversation } from "../conversation-reader.js";
import { Intervals } from "../intervals.js";
import { conversationsOf, goneConversationsOf, lastNumberOf, messageTape } from "../keys.js";
import { type Moves, readMoves } from "../moved-numbers.js";
import type { LineState } from "../agent-line.js";
import type { BundleFrame, BundleLine, SectionStart } from "./format.js";
import { blobLines, itemLines } from "./frames.js";

/** All conversations of an agent; of none, where the agent is `undefined`. */
export async function* exportConversations(
  context: Context,
  agent: string | undefined,
  blobsWritten: Set<string>,
): AsyncGenerator<SectionStart | BundleLine> {
  const { whole, holes } = await readAll(context, agent);
  const gone: number[] = [];
  if (agent !== undefined) {
    for await (const { key } of scan(context.store, goneConversationsOf(agent))) gone.push(lastNumberOf(key));
  }
  const live = await liveMessages(context, agent ?? "");
  yield await startOf(context, agent, whole);
  yield* messageLines(context, live, blobsWritten);
  yield* holes;
  for (const { id, value, items, lastMessageAt, firstTitle } of whole) {
    yield { conversation: id, value, count: items, lastMessageAt, ...(firstTitle !== undefined && { firstTitle }) };
  }
  for (const number of gone) yield { gone: number };
}

/** The messages that a checkpoint of a whole agent has, by the numbers of conversations. */
export function messagesOfState(agent: string, { conversations }: LineState): Map<number, Intervals> {
  const live = new Map<number, Intervals>();
  for (const entry of conversations.values()) markPieces(live, piecesOfEntry(decodeEntry(entry, agent)));
  return live;
}

/** Messages that only a checkpoint of the agent has. Restoring it makes the conversations anew. */
export async function* exportMessages(
  context: Context,
  agent: string,
  live: ReadonlyMap<number, Intervals>,
  blobsWritten: Set<string>,
): AsyncGenerator<SectionStart | BundleLine> {
  yield await startOf(context, agent, []);
  yield* messageLines(context, live, blobsWritten);
  for (const number of live.keys()) yield { gone: number };
}

/** The numbers that the conversations of an agent, and what is left of deleted ones, have. */
export async function numbersOfConversations(context: Context, agent: string | undefined): Promise<number[]> {
  const numbers: number[] = [];
  const { whole } = await readAll(context, agent);
  for (const { record } of whole) {
    numbers.push(record.number, record.order, ...record.base.map(({ tape }) => tape));
  }
  if (agent === undefined) return numbers;
  for await (const { key } of scan(context.store, goneConversationsOf(agent))) numbers.push(lastNumberOf(key));
  return numbers;
}

function markPieces(live: Map<number, Intervals>, pieces: readonly Piece[]): void {
  for (const { tape, start, count } of pieces) {
    const intervals = live.get(tape) ?? new Intervals();
    live.set(tape, intervals);
    intervals.add(start, count);
  }
}

async function startOf(
  context: Context,
  agent: string | undefined,
  whole: readonly StoredConversation[],
): Promise<SectionStart> {
  const moves: Moves = agent === undefined ? [] : await readMoves(context, agent);
  const conversations = whole.map(({ id, record }) => [id, record.createdAt, record.number] as const);
  return { begin: "conversations", ...(agent !== undefined && { agent }), moves, conversations };
}

async function readAll(
  context: Context,
  agent: string | undefined,
): Promise<{ whole: StoredConversation[]; holes: BundleLine[] }> {
  const ids: string[] = [];
  const holes: BundleLine[] = [];
  for await (const record of scan(context.store, conversationsOf(agent))) {
    if ("value" in record) ids.push(listedConversation(record.value).id);
    else holes.push({ hole: record.key, reason: record.unreadable });
  }
  const whole: StoredConversation[] = [];
  for (const found of await readConversations(context, ids)) {
    if (!found) continue;
    if ("unreadable" in found) holes.push({ hole: found.id, reason: found.unreadable });
    else whole.push(found);
  }
  return { whole, holes };
}

async function* messageLines(
  context: Context,
  live: ReadonlyMap<number, Intervals>,
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
