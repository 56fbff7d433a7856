/**
 * Numbers of conversations that came with an agent from another store, where they had others.
 *
 * Checkpoints of the agent name conversations by number, in states that are never written again; so the store remembers by
 * how much numbers have moved. Those that conversations of the agent are given here are higher than all that came: so there
 * is no doubt which are meant.
 */
import { SavepointError } from "../errors.js";
import type { Context } from "../context.js";
import { decodeConversation, encodeConversation, movedNumbersKey } from "../records/index.js";
import type { NumberSource } from "../sessions/index.js";

/** Numbers up to `upTo` are to be read as so much higher; the first that fits counts. */
export type NumberMoves = readonly { readonly upTo: number; readonly by: number }[];

export async function readNumberMoves({ store }: Context, agent: string): Promise<NumberMoves> {
  const [record] = await store.get([movedNumbersKey(agent)]);
  if (!record) return [];
  if ("value" in record) return JSON.parse(record.value) as NumberMoves;
  throw new SavepointError(
    "DAMAGED",
    `The checkpoints of agent ${JSON.stringify(agent)} cannot be read: ${record.unreadable}. Repair the store from a backup.`,
  );
}

/** The number for a new conversation of an agent. A process may have taken low ones before the agent came. */
export async function allocateConversationNumber(
  context: Context,
  numbers: NumberSource,
  agent: string | undefined,
): Promise<number> {
  const moves = agent === undefined ? [] : await readNumberMoves(context, agent);
  for (;;) {
    const number = await numbers.next();
    if (moves.every(({ upTo }) => number > upTo)) return number;
  }
}

/** What a checkpoint has of its conversations, with the numbers that they have here. */
export function renumberSnapshots(
  entries: ReadonlyMap<string, string>,
  moves: NumberMoves,
): ReadonlyMap<string, string> {
  return moves.length === 0 ? entries : new Map([...entries].map(([id, text]) => [id, moveEntry(text, moves)]));
}

function moveEntry(text: string, moves: NumberMoves): string {
  const move = (number: number): number => number + (moves.find(({ upTo }) => number <= upTo)?.by ?? 0);
  const [record = "", last = "", title = "", order = ""] = text.split("\n");
  const entered = decodeConversation(record);
  const base = entered.base.map((piece) => ({ ...piece, tape: move(piece.tape) }));
  return [encodeConversation({ ...entered, base }), last, title, move(Number(order))].join("\n");
}
