/** Taking in the conversations of an agent. */
import type { Put } from "../../store/store.js";
import type { Context } from "../context.js";
import { recordPuts, titlePut } from "../conversation-commit.js";
import { readConversations } from "../conversation-reader.js";
import { decodeConversation } from "../conversation-records.js";
import { goneConversationKey, lastMessageKey, messageCounterKey, messageTape, movedNumbersKey } from "../keys.js";
import { moveMessage } from "../message-item.js";
import type { Moves } from "../moved-numbers.js";
import type { BundleLine, SectionStart } from "./format.js";
import { type Section, type SectionOptions, stageBlob, stageItems, taken, toFrame } from "./section.js";

type Start = Extract<SectionStart, { begin: "conversations" }>;
type ConversationLine = Extract<BundleLine, { conversation: string }>;

/** Conversations that become visible in one commit. */
const MANY = 200;

export class ConversationsImport implements Section {
  readonly #context: Context;
  readonly #start: Start;
  readonly #options: SectionOptions;
  readonly #skip = new Set<string>();
  readonly #lines: ConversationLine[] = [];
  readonly #gone: number[] = [];
  #items = 0;

  constructor(context: Context, start: Start, options: SectionOptions) {
    this.#context = context;
    this.#start = start;
    this.#options = options;
  }

  async begin(): Promise<void> {
    const { conversations, agent } = this.#start;
    const found = await readConversations(
      this.#context,
      conversations.map(([id]) => id),
    );
    for (const [index, stored] of found.entries()) {
      const [id, createdAt] = conversations[index] as [string, number, number];
      if (!stored) continue;
      const same = !("unreadable" in stored) && stored.record.createdAt === createdAt && stored.record.agent === agent;
      if (!same && this.#options.existing === "fail") throw taken(`Conversation ${JSON.stringify(id)}`);
      this.#skip.add(id);
      this.#options.tally.skipped.push(id);
    }
  }

  async take(line: BundleLine): Promise<void> {
    if ("hole" in line) {
      const place = `Agent ${JSON.stringify(this.#start.agent ?? "")}: ${String(line.hole)}`;
      this.#options.tally.holes.push({ place, reason: line.reason });
    } else if ("blob" in line) await stageBlob(this.#context, line.blob, line.bytes);
    else if ("items" in line) await this.#takeItems(line.items);
    else if ("conversation" in line) this.#lines.push(line);
    else if ("gone" in line) this.#gone.push(line.gone);
  }

  async finish(): Promise<void> {
    const { store } = this.#context;
    const { agent } = this.#start;
    const { tally, shift } = this.#options;
    const puts: Put[] = [];
    const isNew = this.#skip.size === 0;
    if (agent !== undefined && isNew) {
      const moves = this.#moves();
      if (moves.length > 0) puts.push({ key: movedNumbersKey(agent), value: JSON.stringify(moves) });
      for (const number of this.#gone) puts.push({ key: goneConversationKey(agent, number + shift.by), value: "" });
    }
    const wanted = this.#lines.filter(({ conversation }) => !this.#skip.has(conversation));
    for (let from = 0; from < wanted.length || (from === 0 && puts.length > 0); from += MANY) {
      for (const line of wanted.slice(from, from + MANY)) puts.push(...this.#puts(line));
      await store.commit({ puts: puts.splice(0) });
    }
    tally.conversations += wanted.length;
    tally.items += this.#items;
  }

  /** How checkpoints of the agent are to be read here: as they were to be read there, and then moved. */
  #moves(): Moves {
    const { by, upTo } = this.#options.shift;
    const before = this.#start.moves.map((move) => ({ upTo: move.upTo, by: move.by + by }));
    return by === 0 ? before : [...before, { upTo, by }];
  }

  async #takeItems([number, first, frames]: Extract<BundleLine, { items: unknown }>["items"]): Promise<void> {
    const { by } = this.#options.shift;
    const moved = frames.map((frame, index) =>
      // Ids that messages did not bring along follow from where they were first.
      by === 0 ? toFrame(frame) : moveMessage(toFrame(frame), { number, seq: first + index }),
    );
    await stageItems(this.#context, messageTape(number + by), first, moved);
    this.#items += frames.length;
  }

  #puts({ conversation: id, value, count, lastMessageAt, firstTitle }: ConversationLine): Put[] {
    const { by } = this.#options.shift;
    const stored = decodeConversation(value);
    const number = stored.number + by;
    const base = stored.base.map((piece) => ({ ...piece, tape: piece.tape + by }));
    return [
      ...recordPuts(id, { ...stored, number, order: stored.order + by, base }),
      { key: messageCounterKey(id, number), value: String(count) },
      { key: lastMessageKey(id, number), value: String(lastMessageAt) },
      ...(firstTitle === undefined ? [] : [titlePut(id, number, firstTitle)]),
    ];
  }
}
