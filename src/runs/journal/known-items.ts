/** Items that are read once and shared by several readers of states. */
import type { Frame, Piece, StateReader, Unreadable } from "../../state/index.js";

/** A piece with more items is read on its own, in parts. */
const MAX_JOINT_ITEMS = 1024;

type Items = readonly (Frame | Unreadable)[];

/** A reader that returns these items without reading them again: the parts of an entry are the items before it. */
export function withItems(state: StateReader, known: Piece, items: Items): StateReader {
  const end = known.start + known.count;
  const isKnown = ({ tape, start, count }: Piece): boolean =>
    tape === known.tape && start >= known.start && start + count <= end;
  return {
    blob: (hash) => state.blob(hash),
    items: async (pieces) => {
      const elsewhere = pieces.filter((piece) => !isKnown(piece));
      const read = elsewhere.length > 0 ? await state.items(elsewhere) : [];
      let next = 0;
      return pieces.flatMap((piece) => {
        if (!isKnown(piece)) return read.slice(next, (next += piece.count));
        return items.slice(piece.start - known.start, piece.start - known.start + piece.count);
      });
    },
  };
}

/** Reads a state, and one more piece with the first of its items, so that both need one request to the store. */
export class JointReader implements StateReader {
  readonly #state: StateReader;
  readonly #more: Piece;
  #items: Items | undefined;

  constructor(state: StateReader, more: Piece) {
    this.#state = state;
    this.#more = more;
  }

  async items(pieces: readonly Piece[]): Promise<Items> {
    const { count } = this.#more;
    if (this.#items || count === 0 || count > MAX_JOINT_ITEMS) return this.#state.items(pieces);
    const items = await this.#state.items([...pieces, this.#more]);
    this.#items = items.slice(-count);
    return items.slice(0, -count);
  }

  blob(hash: string): Promise<Uint8Array | Unreadable> {
    return this.#state.blob(hash);
  }

  /** A reader for values whose items are in the other piece. */
  get rest(): StateReader {
    return this.#items ? withItems(this.#state, this.#more, this.#items) : this.#state;
  }
}
