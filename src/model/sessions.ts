/** The sessions of a store. */
import type { CheckpointInfo, Status } from "./checkpoint.js";
import { deleteSession } from "./clear.js";
import type { Context } from "./context.js";
import { ALL_NUMBERS } from "./keys.js";
import { createListing, type Listing } from "./listing.js";
import { MAIN } from "./records.js";
import { SessionReader } from "./session-reader.js";

/** A session, without its states. */
export interface SessionInfo {
  readonly id: string;
  readonly agent: string | undefined;
  readonly createdAt: number;
  /** When the newest checkpoint of `main` was saved. */
  readonly updatedAt: number;
  /** That of the newest checkpoint of `main`; `running` while there is none. */
  readonly status: Status;
  readonly reason: string | undefined;
  /** The newest checkpoint of `main`. */
  readonly head: CheckpointInfo | undefined;
}

export interface SessionListOptions {
  /** Only those of this agent. */
  readonly agent?: string;
  /** Only those with this status. */
  readonly status?: Status;
  /** At most this many. */
  readonly limit?: number;
}

/** What deletion must tell the handles of this process. */
export type Forget = (sessionId: string) => void;

export class Sessions {
  readonly #context: () => Context;
  readonly #forget: Forget;

  /** Use `sp.sessions`. */
  constructor(context: () => Context, forget: Forget) {
    this.#context = context;
    this.#forget = forget;
  }

  /** The sessions, newest first. */
  list(options: SessionListOptions = {}): Listing<SessionInfo> {
    const { agent, status, limit = Number.POSITIVE_INFINITY } = options;
    return createListing(
      async function* (this: Sessions) {
        let left = limit;
        if (left <= 0) return;
        for await (const record of new SessionReader(this.#context(), "").records(ALL_NUMBERS, true)) {
          const info = "value" in record ? await this.load(record.value) : undefined;
          if (
            !info ||
            (agent !== undefined && info.agent !== agent) ||
            (status !== undefined && info.status !== status)
          )
            continue;
          yield info;
          if (--left <= 0) return;
        }
      }.bind(this),
    );
  }

  /** A session, or `undefined` if there is none with that id. */
  async load(id: string): Promise<SessionInfo | undefined> {
    const reader = new SessionReader(this.#context(), id);
    const { session, branch } = await reader.heads(MAIN);
    if (!session) return undefined;
    const { agent, createdAt } = session.record;
    const { head, headParentId } = branch?.record ?? {};
    return {
      id,
      agent,
      createdAt,
      updatedAt: head?.createdAt ?? createdAt,
      status: head?.status ?? "running",
      reason: head?.reason,
      head: head && reader.toInfo(head, agent, headParentId),
    };
  }

  /**
   * Deletes a session with all its branches and checkpoints. Handles from before are refused; a new one starts afresh.
   *
   * @returns whether there was one
   */
  async delete(id: string): Promise<boolean> {
    const deleted = await deleteSession(new SessionReader(this.#context(), id));
    this.#forget(id);
    return deleted;
  }
}
