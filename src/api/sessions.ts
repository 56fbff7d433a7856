/** The sessions of a store. */
import { type KeyRange, scanPages } from "../store/index.js";
import {
  agentOfHistoryId,
  ALL_SESSION_NUMBERS,
  checkId,
  type CheckpointInfo,
  MAIN,
  type Question,
  sessionsOfAgent,
  type Status,
} from "../records/index.js";
import {
  deleteSession,
  type Heads,
  type Notes,
  readHeadNotes,
  readMainHeads,
  SessionReader,
} from "../sessions/index.js";
import type { Context } from "../context.js";
import { createListing, type Listing, limitEntries } from "../util/index.js";
import { readBranchStatuses, type BranchStatus } from "../runs/index.js";

/** A session, without its states. */
export interface SessionInfo {
  readonly id: string;
  readonly agent: string | undefined;
  readonly createdAt: number;
  /** When the newest checkpoint of `main` was saved. */
  readonly updatedAt: number;
  /** How the work on `main` stands. */
  readonly status: Status;
  /** Why it failed, halted or waits. */
  readonly reason: string | undefined;
  /** What it waits to be told; see `sp.answer`. */
  readonly questions: readonly Question[];
  /** When it wants to be woken, in milliseconds since 1970. */
  readonly wakeAt: number | undefined;
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
    const wanted = (info: SessionInfo): boolean =>
      (agent === undefined || info.agent === agent) && (status === undefined || info.status === status);
    const range = agent === undefined ? ALL_SESSION_NUMBERS : sessionsOfAgent(checkId(agent, "agent id"));
    return createListing(() => limitEntries(this.#walk(range, wanted), limit));
  }

  /** A session, or `undefined` if there is none with that id. */
  async load(id: string): Promise<SessionInfo | undefined> {
    const context = this.#context();
    const reader = new SessionReader(context, checkId(id, "session id"));
    const heads = await reader.heads(MAIN);
    const [notes] = await readHeadNotes(context.store, [heads]);
    const [standing] = await readBranchStatuses(context, [{ sessionId: id, branch: MAIN, heads }]);
    return toSessionInfo(reader, heads, notes, standing);
  }

  /**
   * Deletes a session with all its branches and checkpoints. Handles from before are refused; a new one starts afresh.
   *
   * @returns whether there was one
   */
  async delete(id: string): Promise<boolean> {
    const reader = new SessionReader(this.#context(), checkId(id, "session id"));
    return deleteSession(reader, () => this.#forget(id));
  }

  async *#walk(range: KeyRange, wanted: (info: SessionInfo) => boolean): AsyncGenerator<SessionInfo> {
    const context = this.#context();
    for await (const page of scanPages(context.store, range, true)) {
      const readers = page.flatMap((record) => {
        if ("value" in record) {
          return agentOfHistoryId(record.value) === undefined ? [new SessionReader(context, record.value)] : [];
        }
        new SessionReader(context, "").reportDamage(
          undefined,
          undefined,
          `a session is not listed: ${record.unreadable}`,
        );
        return [];
      });
      const found = await readMainHeads(context.store, readers);
      const notes = await readHeadNotes(context.store, found);
      const branches = found.map((heads, index) => ({
        sessionId: (readers[index] as SessionReader).sessionId,
        branch: MAIN,
        heads: heads ?? { session: undefined, branch: undefined },
      }));
      const standings = await readBranchStatuses(context, branches);
      for (const [index, heads] of found.entries()) {
        const info = heads && toSessionInfo(readers[index] as SessionReader, heads, notes[index], standings[index]);
        if (info && wanted(info)) yield info;
      }
    }
  }
}

function toSessionInfo(
  reader: SessionReader,
  { session, branch }: Heads,
  notes: Notes | undefined,
  standing: BranchStatus | undefined,
): SessionInfo | undefined {
  if (!session) return undefined;
  const { agent, createdAt } = session.record;
  const { head, headParentId } = branch?.record ?? {};
  return {
    id: reader.sessionId,
    agent,
    createdAt,
    updatedAt: head?.createdAt ?? createdAt,
    status: standing?.status ?? "running",
    reason: standing?.reason,
    questions: standing?.status === "waiting" ? (standing.run?.questions ?? []) : [],
    wakeAt: standing?.status === "waiting" ? standing.run?.wakeAt : undefined,
    head: head && reader.toInfo(head, agent, headParentId, notes),
  };
}
