/** Lists of pieces: the messages of a conversation as ranges of items on tapes. */
import { formatRefs, parseRefs, type Piece } from "../state/index.js";

/** Writes pieces as one string. Pieces on the conversation's own tape do not name it. */
export function formatPieces(pieces: readonly Piece[], number: number): string {
  return formatRefs([{ pieces }], number);
}

export function parsePieces(text: string, number: number): Piece[] {
  return parseRefs(text, number).flatMap((ref) => ("pieces" in ref ? [...ref.pieces] : []));
}

/** The number of items in all pieces. */
export function countPieces(pieces: readonly Piece[]): number {
  return pieces.reduce((sum, piece) => sum + piece.count, 0);
}

/** The pieces of the items from index `from` (inclusive) to index `to` (exclusive). */
export function slicePieces(pieces: readonly Piece[], from: number, to: number): Piece[] {
  const sliced: Piece[] = [];
  let at = 0;
  for (const { tape, start, count } of pieces) {
    const [first, end] = [Math.max(from - at, 0), Math.min(to - at, count)];
    if (first < end) sliced.push({ tape, start: start + first, count: end - first });
    at += count;
  }
  return sliced;
}
