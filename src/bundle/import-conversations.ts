/** Importing the conversations of an agent. */
import { isSavepointError } from "../errors.js";
import type { Context } from "../context.js";
import { conversationPuts, firstTitlePut, readConversations } from "../conversations/index.js";
import {
  agentHistoryId,
  conversationKey,
  decodeConversation,
  decodeSession,
  lastMessageTimeKey,
  messageCounterKey,
  messageTape,
  sessionKey,
} from "../records/index.js";
import type { Check, Put } from "../store/index.js";
import type { BundleLine, ConversationsStart } from "./format.js";
import {
  importConflict,
  type ImportState,
  type ItemsLine,
  moveMessages,
  renumber,
  type SectionImport,
  stageItems,
} from "./section.js";

type ConversationLine = Extract<BundleLine, { conversation: string }>;

/** Conversations per commit. */
const BATCH_SIZE = 200;

/** Imports a section of conversations. Those of an agent whose own section follows are left to that section. */
export class ConversationsImport implements SectionImport {
  readonly #context: Context;
  readonly #start: ConversationsStart;
  readonly #hash: string;
  readonly #state: ImportState;
  readonly #skipped = new Set<string>();
  #skipAll = false;
  readonly #lines: ConversationLine[] = [];
  readonly #removedConversations: number[] = [];
  #items = 0;

  constructor(context: Context, start: ConversationsStart, hash: string, state: ImportState) {
    this.#context = context;
    this.#start = start;
    this.#hash = hash;
    this.#state = state;
  }

  get owner(): string {
    return this.#start.agent === undefined ? "conversations" : `conversations of agent ${this.#start.agent}`;
  }

  async begin(): Promise<void> {
    const { conversations, agent } = this.#start;
    if (agent !== undefined && (await this.#skipExistingAgent(agent))) return;
    const found = await readConversations(
      this.#context,
      conversations.map(([id]) => id),
    );
    for (const [index, stored] of found.entries()) {
      const [id, createdAt] = conversations[index] as [string, number, number];
      if (!stored) continue;
      const same = !("unreadable" in stored) && stored.record.createdAt === createdAt && stored.record.agent === agent;
      if (!same && this.#state.existing === "fail") throw importConflict(`Conversation ${JSON.stringify(id)}`);
      this.#skipped.add(id);
      this.#state.tally.skipped.push(id);
    }
  }

  async addLine(line: BundleLine): Promise<void> {
    if (this.#skipAll) return;
    if ("items" in line) await this.#stageMessages(line.items);
    else if ("conversation" in line) this.#lines.push(line);
    else if ("gone" in line) this.#removedConversations.push(renumber(line.gone, this.#state));
  }

  async finish(): Promise<void> {
    const { agent, agentCreatedAt, moves, conversations } = this.#start;
    const { tally, pendingAgents, staging } = this.#state;
    if (this.#skipAll) return;
    const lines = this.#lines.filter(({ conversation }) => !this.#skipped.has(conversation));
    if (agent !== undefined && agentCreatedAt !== undefined) {
      // Checkpoints of the agent may reference messages of the skipped conversations too.
      const skipped = conversations
        .filter(([id]) => this.#skipped.has(id))
        .map(([, , number]) => number + staging.numberOffset);
      const removedConversations = [...this.#removedConversations, ...skipped];
      pendingAgents.set(agent, { agent, moves, removedConversations, ...this.#buildCommit(lines) });
    } else await this.#commit(lines);
    tally.conversations += lines.length;
    tally.items += this.#items;
  }

  /** An agent is imported with everything of its own, or not at all. Returns whether the store has it already. */
  async #skipExistingAgent(agent: string): Promise<boolean> {
    const { skippedAgents, existing, tally } = this.#state;
    const [session] = await this.#context.store.get([sessionKey(agentHistoryId(agent))]);
    if (!session) return false;
    const same = "value" in session && decodeSession(session.value).createdAt === this.#start.agentCreatedAt;
    if (!same && existing === "fail") throw importConflict(`Agent ${JSON.stringify(agent)}`);
    this.#skipAll = true;
    skippedAgents.add(agent);
    tally.skipped.push(agent, ...this.#start.conversations.map(([id]) => id));
    return true;
  }

  async #stageMessages(items: ItemsLine["items"]): Promise<void> {
    const [number, first] = items;
    const target = renumber(number, this.#state);
    const messages = moveMessages(items, target);
    await this.#state.staging.reserveNumber(target, this.#hash);
    await stageItems(this.#context, messageTape(target), first, messages);
    this.#items += messages.length;
  }

  async #commit(lines: readonly ConversationLine[]): Promise<void> {
    for (let from = 0; from < lines.length; from += BATCH_SIZE) {
      try {
        await this.#context.store.commit(this.#buildCommit(lines.slice(from, from + BATCH_SIZE)));
      } catch (error) {
        if (isSavepointError(error, "CONFLICT")) throw importConflict("A conversation", error);
        throw error;
      }
    }
  }

  #buildCommit(lines: readonly ConversationLine[]): { readonly checks: Check[]; readonly puts: Put[] } {
    return {
      checks: lines.map(({ conversation }) => ({ key: conversationKey(conversation), value: undefined })),
      puts: lines.flatMap((line) => this.#putsOf(line)),
    };
  }

  #putsOf({ conversation: id, value, count, lastMessageAt, firstTitle }: ConversationLine): Put[] {
    const stored = decodeConversation(value);
    const number = renumber(stored.number, this.#state);
    const order = renumber(stored.order, this.#state);
    const base = stored.base.map((piece) => ({ ...piece, tape: renumber(piece.tape, this.#state) }));
    return [
      ...conversationPuts(id, { ...stored, number, order, base }),
      { key: messageCounterKey(id, number), value: String(count) },
      { key: lastMessageTimeKey(id, number), value: String(lastMessageAt) },
      ...(firstTitle === undefined ? [] : [firstTitlePut(id, number, firstTitle)]),
    ];
  }
}
