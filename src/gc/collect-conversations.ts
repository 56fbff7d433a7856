/**
 * Garbage collection of conversations: frees messages that are neither in their conversation nor in a checkpoint of its
 * agent.
 *
 * The collection is safe while other processes write. A message can return to a conversation only from a checkpoint, by
 * a commit that creates another checkpoint. Checkpoints and conversations are therefore marked until no new checkpoint
 * has appeared meanwhile. Then everything that needs a message is marked. Messages that are appended meanwhile are
 * numbered above the counters that were read first, and are not touched.
 */
import { setImmediate as nextTurn } from "node:timers/promises";
import { isSavepointError } from "../errors.js";
import { parseRefs, type Piece, type Unreadable } from "../state/index.js";
import { MarkError } from "./marks.js";
import { type KeyRange, prefixRange, scan } from "../store/index.js";
import { type AgentState, decodeAgentState } from "../agents/index.js";
import type { Context } from "../context.js";
import {
  decodeSnapshot,
  decodeConversationListing,
  piecesOfSnapshot,
  readConversations,
} from "../conversations/index.js";
import {
  agentHistoryId,
  ALL_AGENT_CONVERSATIONS,
  ALL_REMOVED_CONVERSATIONS,
  conversationsOf,
  removedConversationKey,
  removedConversationsOf,
  trailingNumberOf,
  messageTape,
  piecesOf,
  rowsOf,
} from "../records/index.js";
import { IntervalSet } from "../util/index.js";
import { loadShadow, SessionReader } from "../sessions/index.js";

/** Attempts to mark everything without a new checkpoint in between. */
const MAX_PASSES = 20;

/**
 * The agents that have conversations, or removed ones whose messages are still stored; `""` stands for conversations
 * without an agent.
 */
export async function listAgentsWithConversations(context: Context): Promise<string[]> {
  const agents = new Set<string>();
  for (const range of [ALL_AGENT_CONVERSATIONS, ALL_REMOVED_CONVERSATIONS]) {
    for await (const agent of agentsIn(context, range)) agents.add(agent);
  }
  return [...agents];
}

/** The agents in the keys of a range, with one query per agent. */
async function* agentsIn({ store }: Context, range: KeyRange): AsyncGenerator<string> {
  for (let { from } = range; ;) {
    const [first] = await store.list({ from, to: range.to }, { limit: 1 });
    if (!first) return;
    const [kind, agent = ""] = first.key.split("\t");
    yield agent;
    from = prefixRange(`${kind}\t${agent}\t`).to;
  }
}

/**
 * Frees the messages of one agent's conversations that nothing needs.
 *
 * @param blobs the hashes of all blobs that messages refer to are added to it
 * @returns `undefined` if checkpoints are created all the time; then nothing was freed
 * @throws MarkError if something that may refer to messages is damaged; then nothing was freed
 */
export async function collectConversations(
  context: Context,
  agent: string,
  blobs: Set<string>,
  repack: boolean,
): Promise<{ items: number; bytes: number } | undefined> {
  const { store } = context;
  const live = new Map<number, IntervalSet>();
  const mark = (pieces: readonly Piece[]): void => markPieces(live, pieces);
  const counters = await markConversations(context, agent, mark);
  const removed: number[] = [];
  for await (const { key } of scan(store, removedConversationsOf(agent))) removed.push(trailingNumberOf(key));
  const checkpoints = new CheckpointMarks(context, agent, mark);
  for (let passes = 1; ; passes++) {
    await checkpoints.markNew();
    await markConversations(context, agent, mark);
    if (!(await checkpoints.hasNew())) break;
    // Other processes create one checkpoint after another, so the next collection tries again.
    if (passes === MAX_PASSES) return undefined;
    await nextTurn();
  }
  for (const [number, intervals] of live) await markBlobs(context, number, intervals, blobs);

  const freed = { items: 0, bytes: 0 };
  const free = async (number: number, below: number): Promise<void> => {
    const spans = live.get(number)?.spans() ?? [];
    const result = await store.retain(messageTape(number), spans, { below, repack });
    freed.items += result.items;
    freed.bytes += result.bytes;
  };
  for (const [number, items] of counters) await free(number, items);
  for (const number of removed) {
    await free(number, Number.MAX_SAFE_INTEGER);
    if (!live.has(number)) await store.commit({ deletes: [removedConversationKey(agent, number)] });
  }
  return freed;
}

/**
 * The messages that an agent's conversations and checkpoints contain, by the number of the conversation. Damaged
 * records are left out.
 */
export async function findLiveMessages(context: Context, agent: string): Promise<Map<number, IntervalSet>> {
  const live = new Map<number, IntervalSet>();
  const mark = (pieces: readonly Piece[]): void => markPieces(live, pieces);
  await markConversations(context, agent, mark, () => {});
  try {
    await new CheckpointMarks(context, agent, mark, () => {}).markNew();
  } catch (error) {
    // The record of the agent's history is damaged, so its checkpoints cannot be found.
    if (!isSavepointError(error, "DAMAGED")) throw error;
  }
  return live;
}

/** Adds ranges of messages to the live ones, by the number of the conversation. */
export function markPieces(live: Map<number, IntervalSet>, pieces: readonly Piece[]): void {
  for (const { tape, start, count } of pieces) {
    const intervals = live.get(tape) ?? new IntervalSet();
    live.set(tape, intervals);
    intervals.add(start, count);
  }
}

/** Stops a collection, because nothing may be freed if a referrer cannot be read. */
function throwMarkError(damage: Unreadable): never {
  throw new MarkError(damage);
}

/** Marks the messages of all conversations of an agent. Returns how many items their tapes have, by number. */
async function markConversations(
  context: Context,
  agent: string,
  mark: (pieces: readonly Piece[]) => void,
  onDamage: (damage: Unreadable) => void = throwMarkError,
): Promise<Map<number, number>> {
  const ids: string[] = [];
  for await (const record of scan(context.store, conversationsOf(agent))) {
    if ("value" in record) ids.push(decodeConversationListing(record.value).id);
    else onDamage(record);
  }
  const counters = new Map<number, number>();
  for (const conversation of await readConversations(context, ids)) {
    if (!conversation) continue;
    if ("unreadable" in conversation) {
      onDamage(conversation);
      continue;
    }
    mark(piecesOf(conversation.record, conversation.items));
    counters.set(conversation.record.number, conversation.items);
  }
  return counters;
}

/** Marks the messages in the checkpoints of an agent, including checkpoints that are created meanwhile. */
class CheckpointMarks {
  readonly #reader: SessionReader;
  readonly #agent: string;
  readonly #mark: (pieces: readonly Piece[]) => void;
  readonly #onDamage: (damage: Unreadable) => void;
  /** Snapshots that are marked already. They recur, because most conversations are the same in most checkpoints. */
  readonly #marked = new Set<string>();
  #number: number | undefined;
  #nextSeq = 0;

  constructor(
    context: Context,
    agent: string,
    mark: (pieces: readonly Piece[]) => void,
    onDamage: (damage: Unreadable) => void = throwMarkError,
  ) {
    this.#onDamage = onDamage;
    this.#reader = new SessionReader(context, agentHistoryId(agent));
    this.#agent = agent;
    this.#mark = mark;
  }

  /** Whether a checkpoint has been created since the last {@link markNew}. A save of the agent creates none. */
  async hasNew(): Promise<boolean> {
    const number = (await this.#reader.session())?.record.number;
    if (number === undefined || number !== this.#number) return number !== this.#number;
    const { store } = this.#reader.context;
    return (await store.list(rowsOf(number, this.#nextSeq), { limit: 1 })).length > 0;
  }

  /** Marks the checkpoints that were created since the last call. */
  async markNew(): Promise<void> {
    const { number, nextSeq = 0 } = (await this.#reader.session())?.record ?? {};
    const from = number === this.#number ? this.#nextSeq : 0;
    this.#number = number;
    this.#nextSeq = nextSeq;
    if (number === undefined) return;
    for await (const row of this.#reader.allRows(number, false, from)) {
      if ("unreadable" in row) {
        this.#onDamage(row);
        continue;
      }
      const shadow = await loadShadow(this.#reader, number, row).catch((error: unknown) => {
        // The checkpoint was deleted meanwhile, and needs nothing any more.
        if (isSavepointError(error, "CHECKPOINT_NOT_FOUND")) return undefined;
        if (!isSavepointError(error, "DAMAGED")) throw error;
        this.#onDamage({ unreadable: error.message });
        return undefined;
      });
      if (shadow !== undefined) this.#markRow(await decodeAgentState(shadow, this.#reader, this.#agent));
    }
  }

  #markRow({ conversations }: AgentState): void {
    for (const entry of conversations.values()) {
      if (!this.#marked.has(entry)) this.#mark(piecesOfSnapshot(decodeSnapshot(entry, this.#agent)));
      this.#marked.add(entry);
    }
  }
}

async function markBlobs(
  { store }: Context,
  number: number,
  intervals: IntervalSet,
  blobs: Set<string>,
): Promise<void> {
  for (const span of intervals.spans()) {
    const found = await store.itemRefs({ tape: messageTape(number), ...span });
    if ("unreadable" in found) throw new MarkError(found);
    for (const { refs } of found) {
      for (const ref of parseRefs(refs, 0)) if ("blob" in ref) blobs.add(ref.blob);
    }
  }
}
