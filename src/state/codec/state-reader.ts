/** The interface through which a stored state is read. */
import { SavepointError } from "../../errors.js";
import type { Piece } from "../tree/index.js";
import type { Frame } from "./frame.js";

/** The result of reading an item or blob that is missing or damaged. */
export interface Unreadable {
  /** The reason, for messages. */
  readonly unreadable: string;
}

/** Reads the items and blobs of a session. */
export interface StateReader {
  /** The items of these ranges, one result per item, in order. A missing or damaged item is {@link Unreadable}. */
  items(pieces: readonly Piece[]): Promise<readonly (Frame | Unreadable)[]>;
  /** The bytes of a blob. */
  blob(hash: string): Promise<Uint8Array | Unreadable>;
}

/** The error for a part of a state that cannot be read. */
export function damagedStateError(path: string, reason: string): SavepointError<"DAMAGED"> {
  return new SavepointError("DAMAGED", `The state is damaged at ${path === "" ? "its root" : path}: ${reason}.`, {
    details: { path },
  });
}
