/**
 * The references of a frame to items and blobs, as a short string that is stored beside its JSON: `0+1000;2:5+3,9+1;#9f86…`.
 *
 * Entries are separated by `;`, and the JSON refers to them by position. An entry is either a list of ranges
 * (`start+count`, after `tape:` if the tape is not that of the frame) or `#` and the hash of a blob. Garbage collection reads
 * only refs, never JSON.
 */
import { SavepointError } from "../../errors.js";

/** A range of items: `count` items of `tape`, from number `start`. Tapes are numbered within their session. */
export interface Piece {
  readonly tape: number;
  readonly start: number;
  readonly count: number;
}

/** One entry of a frame's refs: ranges of items, or the hash of a blob. */
export type Ref = { readonly pieces: readonly Piece[] } | { readonly blob: string };

/** @param ownTape the tape of the frame, which the refs do not name */
export function formatRefs(refs: readonly Ref[], ownTape: number): string {
  return refs
    .map((ref) => ("blob" in ref ? `#${ref.blob}` : ref.pieces.map((piece) => formatPiece(piece, ownTape)).join(",")))
    .join(";");
}

/** The inverse of {@link formatRefs}. Throws `DAMAGED` for any other string. */
export function parseRefs(text: string, ownTape: number): Ref[] {
  if (text === "") return [];
  return text.split(";").map((entry) => {
    if (entry.startsWith("#")) return { blob: parseBlobHash(entry) };
    return { pieces: entry === "" ? [] : entry.split(",").map((piece) => parsePiece(piece, ownTape)) };
  });
}

/** References to blobs, with their names. */
export const BLOB_NAMES = /#([0-9a-f]{64})/g;

/** References with other names for their blobs. */
export function renameBlobs(refs: string, nameOf: (name: string) => string): string {
  return refs.includes("#") ? refs.replace(BLOB_NAMES, (_, name: string) => `#${nameOf(name)}`) : refs;
}

function formatPiece(piece: Piece, ownTape: number): string {
  const range = `${piece.start}+${piece.count}`;
  return piece.tape === ownTape ? range : `${piece.tape}:${range}`;
}

function parsePiece(text: string, ownTape: number): Piece {
  const match = /^(?:(\d+):)?(\d+)\+(\d+)$/.exec(text);
  if (!match) throw damagedRef("items", text);
  const piece = {
    tape: match[1] === undefined ? ownTape : Number(match[1]),
    start: Number(match[2]),
    count: Number(match[3]),
  };
  if (!Number.isSafeInteger(piece.tape) || !Number.isSafeInteger(piece.start + piece.count)) {
    throw damagedRef("items", text);
  }
  return piece;
}

/** The hash of a blob is part of its file name, so nothing else may stand there. */
function parseBlobHash(entry: string): string {
  if (!/^#[0-9a-f]{64}$/.test(entry)) throw damagedRef("a blob", entry);
  return entry.slice(1);
}

function damagedRef(what: string, text: string): SavepointError {
  const shown = JSON.stringify(text.slice(0, 80));
  return new SavepointError("DAMAGED", `A reference to ${what} is damaged: ${shown}. Run \`savepoint repair\`.`);
}
