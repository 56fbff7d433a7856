/**
 * What a frame points at, as one short line of text kept beside its payload: `0+1000;2:5+3,9+1;#9f86…`.
 *
 * Entries are separated by `;` and addressed by position from the payload. An entry is either a list of ranges
 * (`start+count`, with `tape:` before it where the tape is not the frame's own) or `#` and the hash of a blob. Garbage
 * collection reads this line alone, never payloads.
 */
import { SavepointError } from "../../errors.js";

/** A range of items: `count` items of `tape`, from number `start` on. Tapes are numbered within their session. */
export interface Piece {
  readonly tape: number;
  readonly start: number;
  readonly count: number;
}

/** One entry of a frame's refs: ranges of items, or the hash of a blob. */
export type Ref = { readonly pieces: readonly Piece[] } | { readonly blob: string };

export function formatRefs(refs: readonly Ref[], ownTape: number): string {
  return refs
    .map((ref) => ("blob" in ref ? `#${ref.blob}` : ref.pieces.map((piece) => formatPiece(piece, ownTape)).join(",")))
    .join(";");
}

/** Reads what {@link formatRefs} wrote. Anything else is damage. */
export function parseRefs(text: string, ownTape: number): Ref[] {
  if (text === "") return [];
  return text.split(";").map((entry) => {
    if (entry.startsWith("#")) return { blob: entry.slice(1) };
    return { pieces: entry === "" ? [] : entry.split(",").map((piece) => parsePiece(piece, ownTape)) };
  });
}

function formatPiece(piece: Piece, ownTape: number): string {
  const range = `${piece.start}+${piece.count}`;
  return piece.tape === ownTape ? range : `${piece.tape}:${range}`;
}

function parsePiece(text: string, ownTape: number): Piece {
  const match = /^(?:(\d+):)?(\d+)\+(\d+)$/.exec(text);
  if (!match) throw new SavepointError("DAMAGED", `A reference is unreadable: ${JSON.stringify(text)}.`);
  return {
    tape: match[1] === undefined ? ownTape : Number(match[1]),
    start: Number(match[2]),
    count: Number(match[3]),
  };
}
