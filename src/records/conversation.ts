/**
 * The texts of a conversation's records.
 *
 * Messages are items of its tape, in the order they were appended. What the conversation consists of is a list of ranges,
 * most often one: all of its tape. Appending makes the tape longer and touches nothing else, so it needs to know nothing
 * of the conversation; whatever cuts or replaces messages says which ranges are left, and where the tape goes on from.
 */
import { formatRefs, parseRefs, type Piece, type Shadow } from "../state/index.js";

export interface ConversationRecord {
  /** Names its tape. A conversation that is made again under the same id has another. */
  readonly number: number;
  /** Its place in lists: its number, or the one it had before it was deleted and came back. */
  readonly order: number;
  readonly agent: string | undefined;
  readonly createdAt: number;
  /** The title that somebody gave it. */
  readonly title: string | undefined;
  readonly tags: readonly string[];
  readonly archived: boolean;
  /** In its encoded form. */
  readonly metadata: Shadow | undefined;
  /** Ranges of items that come first, by the numbers of the conversations whose tapes they are on. */
  readonly base: readonly Piece[];
  /** Behind them come all items of its own tape from this one on. */
  readonly tapeStart: number;
}

interface StoredFields {
  n: number;
  o?: number | undefined;
  a?: string | undefined;
  t: number;
  i?: string | undefined;
  g?: readonly string[] | undefined;
  x?: 1 | undefined;
  m?: Shadow | undefined;
  b?: string | undefined;
  f?: number | undefined;
}

export function encodeConversation(record: ConversationRecord): string {
  const { number, order, agent, createdAt, title, tags, archived, metadata, base, tapeStart } = record;
  const stored: StoredFields = {
    n: number,
    o: order === number ? undefined : order,
    a: agent,
    t: createdAt,
    i: title,
    g: tags.length > 0 ? tags : undefined,
    x: archived ? 1 : undefined,
    m: metadata,
    b: base.length > 0 ? formatPieces(base, number) : undefined,
    f: tapeStart > 0 ? tapeStart : undefined,
  };
  return JSON.stringify(stored);
}

export function decodeConversation(value: string): ConversationRecord {
  const { n, o = n, a, t, i, g = [], x, m, b = "", f = 0 } = JSON.parse(value) as StoredFields;
  return {
    number: n,
    order: o,
    agent: a,
    createdAt: t,
    title: i,
    tags: g,
    archived: x === 1,
    metadata: m,
    base: parsePieces(b, n),
    tapeStart: f,
  };
}

/** Ranges as one text, in which those of the conversation's own tape do not name it. */
export function formatPieces(pieces: readonly Piece[], number: number): string {
  return formatRefs([{ pieces }], number);
}

export function parsePieces(text: string, number: number): Piece[] {
  return parseRefs(text, number).flatMap((ref) => ("pieces" in ref ? [...ref.pieces] : []));
}

/** The ranges of all its messages, when its tape has so many items. */
export function piecesOf({ number, base, tapeStart }: ConversationRecord, items: number): Piece[] {
  return joinPieces([...base, { tape: number, start: tapeStart, count: items - tapeStart }]);
}

/** The same messages as a base and where the tape goes on from, when it has so many items. */
export function splitPieces(pieces: readonly Piece[], number: number, items: number): { base: Piece[]; tapeStart: number } {
  const last = pieces.at(-1);
  const open = last?.tape === number && last.start + last.count === items;
  return open ? { base: pieces.slice(0, -1), tapeStart: last.start } : { base: [...pieces], tapeStart: items };
}

/** The same items in as few ranges as possible. */
export function joinPieces(pieces: readonly Piece[]): Piece[] {
  const joined: Piece[] = [];
  for (const piece of pieces) {
    const last = joined.at(-1);
    if (piece.count <= 0) continue;
    if (last && last.tape === piece.tape && last.start + last.count === piece.start) {
      joined[joined.length - 1] = { ...last, count: last.count + piece.count };
    } else joined.push(piece);
  }
  return joined;
}

export function countPieces(pieces: readonly Piece[]): number {
  return pieces.reduce((sum, piece) => sum + piece.count, 0);
}

/** Those of the items that stand from place `from` to place `to`. */
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
