/** Loading checkpoints. Views of the same state follow one another, so the last few states are kept. */
import {
  type Checkpoint,
  type CheckpointInfo,
  type CheckpointRef,
  type Json,
  type Savepoint,
  SavepointError,
} from "../../index.js";
import { toWire } from "../http/responses.js";

/** A checkpoint with its state, also as JSON. Neither may be changed. */
export interface LoadedState {
  readonly checkpoint: Checkpoint;
  readonly json: Json;
}

/** How many states are kept, how large all of them may be together, and for how long, in milliseconds. */
const MAX_STATES = 8;
const MAX_BYTES = 64 * 1024 * 1024;
const LIFETIME = 30_000;

export class StateCache {
  readonly #sp: Savepoint;
  readonly #states = new Map<
    string,
    { readonly loaded: Promise<LoadedState>; readonly bytes: number; readonly until: number }
  >();

  constructor(sp: Savepoint) {
    this.#sp = sp;
  }

  /** The checkpoint without its state: always current, unlike the state, which never changes. */
  async info(sessionId: string, ref: CheckpointRef | undefined, branch = "main"): Promise<CheckpointInfo> {
    const session = this.#sp.session(sessionId, { branch });
    const [info] = ref === undefined ? [await session.head()] : await session.history({ from: ref, limit: 1 }).all();
    if (info) return info;
    if (!(await this.#sp.sessions.load(sessionId))) throw sessionNotFound(sessionId);
    throw new SavepointError(
      "CHECKPOINT_NOT_FOUND",
      `Branch ${JSON.stringify(branch)} of session ${JSON.stringify(sessionId)} has no checkpoint.`,
    );
  }

  /** The state of a checkpoint. Damaged parts are missing and listed as holes. */
  async load({ sessionId, id, createdAt, stateBytes }: CheckpointInfo): Promise<LoadedState> {
    // A session that is deleted and created again can have a checkpoint of the same id.
    const key = JSON.stringify([sessionId, id, createdAt]);
    const kept = this.#states.get(key);
    this.#states.delete(key);
    const now = Date.now();
    const entry =
      kept && kept.until > now ? kept : { loaded: this.#read(sessionId, id), bytes: stateBytes, until: now + LIFETIME };
    this.#states.set(key, entry);
    entry.loaded.catch(() => this.#states.delete(key));
    this.#shrink(now);
    return entry.loaded;
  }

  async #read(sessionId: string, id: string): Promise<LoadedState> {
    const checkpoint = await this.#sp.session(sessionId).load(id, { partial: true });
    if (!checkpoint) {
      throw new SavepointError("CHECKPOINT_NOT_FOUND", `Checkpoint ${JSON.stringify(id)} has just been removed.`);
    }
    return { checkpoint, json: toWire(checkpoint.state) };
  }

  #shrink(now: number): void {
    let bytes = 0;
    for (const [key, entry] of [...this.#states].reverse()) {
      bytes += entry.bytes;
      // The newest one stays, however large it is.
      const isOld = entry.until <= now || bytes > MAX_BYTES;
      if (isOld && bytes > entry.bytes) this.#states.delete(key);
    }
    while (this.#states.size > MAX_STATES) this.#states.delete(this.#states.keys().next().value as string);
  }
}

export function sessionNotFound(id: string): SavepointError<"SESSION_NOT_FOUND"> {
  return new SavepointError("SESSION_NOT_FOUND", `There is no session ${JSON.stringify(id)}.`);
}
