/**
 * Numbers of conversations that were imported with an agent from another store, where they had other numbers.
 *
 * Checkpoints of the agent contain the old numbers, in states that are never rewritten; so the store records by how much
 * they have moved. New conversations of the agent get numbers above all imported ones, so a number is never ambiguous.
 */
import { SavepointError } from "../errors.js";
import type { Context } from "../context.js";
import { decodeConversation, encodeConversation, movedNumbersKey } from "../records/index.js";
import { NUMBER_BLOCK, type NumberSource } from "../sessions/index.js";

/** Numbers up to `upTo` have moved up by `by`; the first entry that applies counts. */
export type NumberMoves = readonly { readonly upTo: number; readonly by: number }[];

/** The moves of an agent; none if it was not imported. */
export async function readNumberMoves({ store }: Context, agent: string): Promise<NumberMoves> {
  const [record] = await store.get([movedNumbersKey(agent)]);
  if (!record) return [];
  if ("value" in record) return JSON.parse(record.value) as NumberMoves;
  throw damagedMoves(agent, record.unreadable);
}

/**
 * A number for a new conversation. This process may have reserved low numbers before the agent was imported: those are
 * skipped.
 */
export async function allocateConversationNumber(
  context: Context,
  numbers: NumberSource,
  agent: string | undefined,
): Promise<number> {
  const moves = agent === undefined ? [] : await readNumberMoves(context, agent);
  // At most one block of numbers was reserved before the import, and later blocks are above all numbers that have moved.
  for (let attempt = 0; attempt <= NUMBER_BLOCK; attempt++) {
    const number = await numbers.next();
    if (moves.every(({ upTo }) => number > upTo)) return number;
  }
  throw damagedMoves(agent, "they are above the counter of the store");
}

function damagedMoves(agent: string | undefined, reason: string): SavepointError {
  const advice = "Repair the store from a backup.";
  return new SavepointError(
    "DAMAGED",
    `The numbers of the conversations of agent ${JSON.stringify(agent)} are damaged: ${reason}. ${advice}`,
  );
}

/** The snapshots in a checkpoint, with the numbers that the conversations have in this store. */
export function renumberSnapshots(
  snapshots: ReadonlyMap<string, string>,
  moves: NumberMoves,
): ReadonlyMap<string, string> {
  return moves.length === 0
    ? snapshots
    : new Map([...snapshots].map(([id, text]) => [id, renumberSnapshot(text, moves)]));
}

function renumberSnapshot(text: string, moves: NumberMoves): string {
  const move = (number: number): number => number + (moves.find(({ upTo }) => number <= upTo)?.by ?? 0);
  const [record = "", last = "", title = "", order = ""] = text.split("\n");
  const conversation = decodeConversation(record);
  const base = conversation.base.map((piece) => ({ ...piece, tape: move(piece.tape) }));
  return [encodeConversation({ ...conversation, base }), last, title, move(Number(order))].join("\n");
}
