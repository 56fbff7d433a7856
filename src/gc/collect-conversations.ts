/**
 * Garbage collection of conversations: frees messages that neither their conversation nor a checkpoint of its agent has.
 *
 * Safe while any process writes. What comes back to a conversation comes from a checkpoint, with a new checkpoint in the
 * same commit; so checkpoints and conversations are marked until no checkpoint has come meanwhile, and then whoever needs
 * a message now has been seen. What is appended is numbered above what was read first, and not looked at.
 */
import { setImmediate as nextTurn } from "node:timers/promises";
import { isSavepointError } from "../errors.js";
import { parseRefs, type Piece, type Unreadable } from "../state/index.js";
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

/** Times that it is looked whether checkpoints have come. */
const MAX_PASSES = 20;

/** Something that may point at messages cannot be read: nothing may be freed. */
export class MarkError extends Error {
  constructor(readonly damage: Unreadable) {
    super(damage.unreadable);
  }
}

/** The agents that have, or had, conversations; `""` for those that belong to none. */
export async function listAgentsWithConversations(context: Context): Promise<string[]> {
  const agents = new Set<string>();
  for (const range of [ALL_AGENT_CONVERSATIONS, ALL_REMOVED_CONVERSATIONS]) {
    for await (const agent of agentsIn(context, range)) agents.add(agent);
  }
  return [...agents];
}

/** One look per agent: what is between is stepped over. */
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
 * Frees what nothing has of the conversations of one agent.
 *
 * @param blobs gets the hashes of all bytes that messages have
 * @returns `undefined` where so many checkpoints came that nobody can tell; then nothing was freed
 * @throws Unmarkable where something cannot be read; then nothing was freed
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
  const gone: number[] = [];
  for await (const { key } of scan(store, removedConversationsOf(agent))) gone.push(trailingNumberOf(key));
  const checkpoints = new CheckpointMarks(context, agent, mark);
  for (let passes = 1; ; passes++) {
    await checkpoints.markNew();
    await markConversations(context, agent, mark);
    if (!(await checkpoints.hasNew())) break;
    // Others take one checkpoint after another: another time, then.
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
  for (const number of gone) {
    await free(number, Number.MAX_SAFE_INTEGER);
    if (!live.has(number)) await store.commit({ deletes: [removedConversationKey(agent, number)] });
  }
  return freed;
}

/** What the conversations of an agent and its checkpoints have, by the numbers of conversations. What is damaged is left out. */
export async function findLiveMessages(context: Context, agent: string): Promise<Map<number, IntervalSet>> {
  const live = new Map<number, IntervalSet>();
  const mark = (pieces: readonly Piece[]): void => markPieces(live, pieces);
  await markConversations(context, agent, mark, () => {});
  try {
    await new CheckpointMarks(context, agent, mark, () => {}).markNew();
  } catch (error) {
    // Its own record is damaged: then nobody can tell what its checkpoints are.
    if (!isSavepointError(error, "DAMAGED")) throw error;
  }
  return live;
}

/** Adds ranges of messages to what is live, by the numbers of conversations. */
export function markPieces(live: Map<number, IntervalSet>, pieces: readonly Piece[]): void {
  for (const { tape, start, count } of pieces) {
    const intervals = live.get(tape) ?? new IntervalSet();
    live.set(tape, intervals);
    intervals.add(start, count);
  }
}

/** Nothing may be freed where something cannot be read. */
function unmarkable(damage: Unreadable): never {
  throw new MarkError(damage);
}

/** Marks the messages of all conversations of an agent; returns how many items their tapes had, by number. */
async function markConversations(
  context: Context,
  agent: string,
  mark: (pieces: readonly Piece[]) => void,
  onDamage: (damage: Unreadable) => void = unmarkable,
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

/** Marks what the checkpoints of an agent have of its conversations, as they come. */
class CheckpointMarks {
  readonly #reader: SessionReader;
  readonly #agent: string;
  readonly #mark: (pieces: readonly Piece[]) => void;
  readonly #onDamage: (damage: Unreadable) => void;
  /** Most conversations are the same in most checkpoints. */
  readonly #seen = new Set<string>();
  #number: number | undefined;
  #nextSeq = 0;

  constructor(
    context: Context,
    agent: string,
    mark: (pieces: readonly Piece[]) => void,
    onDamage: (damage: Unreadable) => void = unmarkable,
  ) {
    this.#onDamage = onDamage;
    this.#reader = new SessionReader(context, agentHistoryId(agent));
    this.#agent = agent;
    this.#mark = mark;
  }

  /** Has one come since? Saving the agent makes none. */
  async hasNew(): Promise<boolean> {
    const number = (await this.#reader.session())?.record.number;
    if (number === undefined || number !== this.#number) return number !== this.#number;
    const { store } = this.#reader.context;
    return (await store.list(rowsOf(number, this.#nextSeq), { limit: 1 })).length > 0;
  }

  /** Marks those that have come since it was last asked. */
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
        // Deleted meanwhile: what it had, nobody needs for its sake.
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
      if (!this.#seen.has(entry)) this.#mark(piecesOfSnapshot(decodeSnapshot(entry, this.#agent)));
      this.#seen.add(entry);
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
