/** Taking in the conversations of an agent. */
import { isSavepointError } from "../errors.js";
import type { Check, Put } from "../store/index.js";
import type { Context } from "../context.js";
import { moveMessage, readConversations, conversationPuts, firstTitlePut } from "../conversations/index.js";
import {
  agentHistoryId,
  checkId,
  conversationKey,
  decodeConversation,
  decodeSession,
  lastMessageTimeKey,
  messageCounterKey,
  messageTape,
  sessionKey,
} from "../records/index.js";
import { type BundleHole, describeHole } from "./export.js";
import type { BundleLine, ConversationsStart } from "./format.js";
import {
  checkNumber,
  type ImportState,
  type SectionImport,
  stageBlob,
  stageItems,
  importConflict,
  toFrame,
} from "./section.js";

type ConversationLine = Extract<BundleLine, { conversation: string }>;

/** Conversations that become visible in one commit. */
const MANY = 200;

export class ConversationsImport implements SectionImport {
  readonly #context: Context;
  readonly #start: ConversationsStart;
  readonly #state: ImportState;
  readonly #skip = new Set<string>();
  #skipAll = false;
  #lines: ConversationLine[] = [];
  #gone: number[] = [];
  #holes: BundleHole[] = [];
  #items = 0;

  constructor(context: Context, start: ConversationsStart, state: ImportState) {
    this.#context = context;
    this.#start = start;
    this.#state = state;
    if (start.agent !== undefined) checkId(start.agent, "agent id");
  }

  async begin(): Promise<void> {
    const { conversations, agent } = this.#start;
    if (agent !== undefined && (await this.#isAgentThere(agent))) return;
    const found = await readConversations(
      this.#context,
      conversations.map(([id]) => checkId(id, "conversation id")),
    );
    for (const [index, stored] of found.entries()) {
      const [id, createdAt] = conversations[index] as [string, number, number];
      if (!stored) continue;
      const same = !("unreadable" in stored) && stored.record.createdAt === createdAt && stored.record.agent === agent;
      if (!same && this.#state.existing === "fail") throw importConflict(`Conversation ${JSON.stringify(id)}`);
      this.#skip.add(id);
      this.#state.tally.skipped.push(id);
    }
  }

  /** An agent is taken with all that is its, or not at all. */
  async #isAgentThere(agent: string): Promise<boolean> {
    const { skippedAgents, existing, tally } = this.#state;
    const [line] = await this.#context.store.get([sessionKey(agentHistoryId(agent))]);
    if (!line) return false;
    const same = "value" in line && decodeSession(line.value).createdAt === this.#start.agentCreatedAt;
    if (!same && existing === "fail") throw importConflict(`Agent ${JSON.stringify(agent)}`);
    this.#skipAll = true;
    skippedAgents.add(agent);
    tally.skipped.push(agent, ...this.#start.conversations.map(([id]) => id));
    return true;
  }

  discardLines(): void {
    [this.#lines, this.#gone, this.#holes, this.#items] = [[], [], [], 0];
  }

  async addLine(line: BundleLine): Promise<void> {
    if ("hole" in line) {
      const whose = this.#start.agent === undefined ? "conversations" : `conversations of agent ${this.#start.agent}`;
      this.#holes.push({ place: describeHole(whose, line.hole), reason: line.reason });
      if (typeof line.hole === "string") this.#state.missingBlobs.add(line.hole);
    } else if ("blob" in line) await stageBlob(this.#context, line.blob, line.bytes);
    if (this.#skipAll) return;
    if ("items" in line) await this.#takeItems(line.items);
    else if ("conversation" in line) this.#lines.push(line);
    else if ("gone" in line) this.#gone.push(checkNumber(line.gone, this.#state) + this.#state.numberOffset);
  }

  async finish(): Promise<void> {
    const { agent, moves } = this.#start;
    const { tally, pendingAgents, numberOffset } = this.#state;
    tally.holes.push(...this.#holes);
    if (this.#skipAll) return;
    const wanted = this.#lines.filter(({ conversation }) => !this.#skip.has(conversation));
    // Checkpoints of the agent may have messages of those that are left out.
    const leftOut = this.#start.conversations
      .filter(([id]) => this.#skip.has(id))
      .map(([, , number]) => number + numberOffset);
    const checksOf = (lines: readonly ConversationLine[]): Check[] =>
      lines.map(({ conversation }) => ({ key: conversationKey(conversation), value: undefined }));
    const comes = agent !== undefined && this.#start.agentCreatedAt !== undefined;
    if (comes) {
      const puts = wanted.flatMap((line) => this.#puts(line));
      pendingAgents.set(agent, {
        moves,
        removedConversations: [...this.#gone, ...leftOut],
        checks: checksOf(wanted),
        puts,
      });
    }
    for (let from = 0; from < wanted.length && !comes; from += MANY) {
      const some = wanted.slice(from, from + MANY);
      try {
        await this.#context.store.commit({ checks: checksOf(some), puts: some.flatMap((line) => this.#puts(line)) });
      } catch (error) {
        if (isSavepointError(error, "CONFLICT")) throw importConflict("A conversation", error);
        throw error;
      }
    }
    tally.conversations += wanted.length;
    tally.items += this.#items;
  }

  async #takeItems([number, first, frames]: Extract<BundleLine, { items: unknown }>["items"]): Promise<void> {
    const { numberOffset } = this.#state;
    const here = checkNumber(number, this.#state) + numberOffset;
    const moved = frames.map((frame, index) =>
      // Ids that messages did not bring along follow from where they were first.
      numberOffset === 0 ? toFrame(frame) : moveMessage(toFrame(frame), { number, seq: first + index }),
    );
    await this.#state.reserveNumber(here);
    await stageItems(this.#context, messageTape(here), first, moved);
    this.#items += frames.length;
  }

  #puts({ conversation: id, value, count, lastMessageAt, firstTitle }: ConversationLine): Put[] {
    const { numberOffset } = this.#state;
    const stored = decodeConversation(value);
    const move = (number: number): number => checkNumber(number, this.#state) + numberOffset;
    const number = move(stored.number);
    const base = stored.base.map((piece) => ({ ...piece, tape: move(piece.tape) }));
    return [
      ...conversationPuts(checkId(id, "conversation id"), { ...stored, number, order: move(stored.order), base }),
      { key: messageCounterKey(id, number), value: String(count) },
      { key: lastMessageTimeKey(id, number), value: String(lastMessageAt) },
      ...(firstTitle === undefined ? [] : [firstTitlePut(id, number, firstTitle)]),
    ];
  }
}
