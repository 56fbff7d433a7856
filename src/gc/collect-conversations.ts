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
import { MarkError, markPieces } from "./marks.js";
import { type Freed, type KeyRange, prefixRange, scan, TapeBounds } from "../store/index.js";
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
  dataKeyOf,
  removedConversationKey,
  removedConversationsOf,
  trailingNumberOf,
  messageTape,
  piecesOf,
  rowsOf,
} from "../records/index.js";
import type { IntervalSet } from "../util/index.js";
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
): Promise<Freed | undefined> {
  const { store } = context;
  const marks = new MessageMarks(context, agent, (damage) => {
    throw new MarkError(damage);
  });
  const { live } = marks;
  const counters = await marks.markConversations();
  const removed: number[] = [];
  for await (const { key } of scan(store, removedConversationsOf(agent))) removed.push(trailingNumberOf(key));
  for (let passes = 1; ; passes++) {
    await marks.markNewCheckpoints();
    await marks.markConversations();
    if (!(await marks.hasNewCheckpoints())) break;
    // Other processes create one checkpoint after another, so the next collection tries again.
    if (passes === MAX_PASSES) return undefined;
    await nextTurn();
  }
  for (const [number, intervals] of live) await markBlobs(context, number, intervals, blobs);

  let freed: Freed = { items: 0, bytes: 0 };
  const free = async (number: number, below: number): Promise<void> => {
    const spans = live.get(number)?.spans() ?? [];
    freed = addFreed(freed, await store.retain(messageTape(number), spans, { below, repack }));
  };
  for (const [number, items] of counters) await free(number, items);
  for (const number of removed) {
    await free(number, Number.MAX_SAFE_INTEGER);
    if (!live.has(number)) {
      await store.commit({ deletes: [removedConversationKey(agent, number), dataKeyOf(number)] });
    }
  }
  return freed;
}

/** The sum of what was freed. */
export function addFreed(a: Freed, b: Freed): Freed {
  return { items: a.items + b.items, bytes: a.bytes + b.bytes };
}

/**
 * The messages that an agent's conversations and checkpoints contain, by the number of the conversation. Damaged
 * records are left out.
 */
export async function findLiveMessages(context: Context, agent: string): Promise<Map<number, IntervalSet>> {
  const marks = new MessageMarks(context, agent, () => {});
  await marks.markConversations();
  try {
    await marks.markNewCheckpoints();
  } catch (error) {
    // The record of the agent's history is damaged, so its checkpoints cannot be found.
    if (!isSavepointError(error, "DAMAGED")) throw error;
  }
  return marks.live;
}

/** The messages that the conversations and checkpoints of an agent contain. */
class MessageMarks {
  /** The marked messages, by the number of the conversation. */
  readonly live = new Map<number, IntervalSet>();
  readonly #reader: SessionReader;
  readonly #bounds: TapeBounds;
  readonly #agent: string;
  readonly #onDamage: (damage: Unreadable) => void;
  /** Snapshots that are marked already. They recur, because most conversations are the same in most checkpoints. */
  readonly #marked = new Set<string>();
  #number: number | undefined;
  #nextSeq = 0;

  /** @param onDamage called for everything that may refer to messages and cannot be read; it is left out, unless this throws */
  constructor(context: Context, agent: string, onDamage: (damage: Unreadable) => void) {
    this.#reader = new SessionReader(context, agentHistoryId(agent));
    this.#bounds = new TapeBounds(context.store);
    this.#agent = agent;
    this.#onDamage = onDamage;
  }

  /** Marks the messages of all conversations. Returns how many items their tapes have, by number. */
  async markConversations(): Promise<Map<number, number>> {
    const { context } = this.#reader;
    const ids: string[] = [];
    for await (const record of scan(context.store, conversationsOf(this.#agent))) {
      if ("value" in record) ids.push(decodeConversationListing(record.value).id);
      else this.#onDamage(record);
    }
    const counters = new Map<number, number>();
    for (const conversation of await readConversations(context, ids)) {
      if (!conversation) continue;
      if ("unreadable" in conversation) {
        this.#onDamage(conversation);
        continue;
      }
      await this.#mark(piecesOf(conversation.record, conversation.items));
      counters.set(conversation.record.number, conversation.items);
    }
    return counters;
  }

  /** Whether a checkpoint has been created since the last {@link markNewCheckpoints}. A save of the agent creates none. */
  async hasNewCheckpoints(): Promise<boolean> {
    const number = (await this.#reader.session())?.record.number;
    if (number === undefined || number !== this.#number) return number !== this.#number;
    const { store } = this.#reader.context;
    return (await store.list(rowsOf(number, this.#nextSeq), { limit: 1 })).length > 0;
  }

  /** Marks the messages in the checkpoints that were created since the last call. */
  async markNewCheckpoints(): Promise<void> {
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
        // The checkpoint was deleted meanwhile, so it needs nothing.
        if (isSavepointError(error, "CHECKPOINT_NOT_FOUND")) return undefined;
        if (!isSavepointError(error, "DAMAGED")) throw error;
        this.#onDamage({ unreadable: error.message });
        return undefined;
      });
      if (shadow !== undefined) await this.#markRow(await decodeAgentState(shadow, this.#reader, this.#agent));
    }
  }

  async #markRow({ conversations }: AgentState): Promise<void> {
    for (const entry of conversations.values()) {
      if (this.#marked.has(entry)) continue;
      this.#marked.add(entry);
      await this.#mark(piecesOfSnapshot(decodeSnapshot(entry, this.#agent)));
    }
  }

  async #mark(pieces: readonly Piece[]): Promise<void> {
    for (const piece of pieces) {
      const span = { ...piece, tape: messageTape(piece.tape) };
      if (!(await this.#bounds.isExceededBy(span))) markPieces(this.live, [piece]);
      else this.#onDamage({ unreadable: `a reference names ${piece.count} messages, and not all of them exist` });
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
