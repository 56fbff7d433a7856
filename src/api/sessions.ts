/** `sp.sessions`: lists, loads and deletes sessions. */
import {
  agentOfHistoryId,
  ALL_SESSION_NUMBERS,
  checkId,
  type CheckpointInfo,
  MAIN,
  type Question,
  type RunError,
  sessionKey,
  sessionsOfAgent,
  type Status,
} from "../records/index.js";
import { type BranchStatus, readBranchStatuses } from "../runs/index.js";
import {
  deleteSession,
  type Heads,
  type Notes,
  readHeadNotes,
  readMainHeads,
  SessionReader,
} from "../sessions/index.js";
import { compareKeys, type KeyRange, prefixRange, type RecordResult, scanPages } from "../store/index.js";
import type { Context } from "../context.js";
import { createListing, type Listing, limitEntries, validateOptions } from "../util/index.js";
import type { Services } from "./services.js";
import { readSessionBytes } from "./stats.js";

/** A session without its states. Status and head are those of the branch `main`. */
export interface SessionInfo {
  readonly id: string;
  /** The owner: the first agent that has saved in the session. */
  readonly agent: string | undefined;
  /** In milliseconds since 1970. */
  readonly createdAt: number;
  /** When the newest checkpoint of `main` was saved, in milliseconds since 1970. */
  readonly updatedAt: number;
  readonly status: Status;
  /** Why it failed, halted or waits. */
  readonly reason: string | undefined;
  /** The error that ended it; `undefined` if no error did. */
  readonly error: RunError | undefined;
  /** The open questions of a waiting session. Answer them with `sp.answer()`. */
  readonly questions: readonly Question[];
  /** When a waiting session is scheduled to resume, in milliseconds since 1970. */
  readonly wakeAt: number | undefined;
  /** The number of checkpoints on all branches. */
  readonly checkpoints: number;
  /** The newest checkpoint of `main`. */
  readonly head: CheckpointInfo | undefined;
}

/** Options of `sp.sessions.list()`. */
export interface SessionListOptions {
  /** Only sessions of this agent. */
  readonly agent?: string;
  /**
   * Only sessions whose id starts with this, in the order of their ids. Reads no others, except if the store was opened with a
   * `scope`.
   */
  readonly prefix?: string;
  /** Only sessions with this status. */
  readonly status?: Status;
  /** Only sessions that were updated at this time or later, in milliseconds since 1970. */
  readonly since?: number;
  /** Only sessions that were last updated at this time or earlier, in milliseconds since 1970. */
  readonly until?: number;
  /**
   * At most this many.
   * @default all
   */
  readonly limit?: number;
}

/**
 * The sessions of a store. `sp.session(id)` opens one for reading and saving states.
 *
 * @example
 * for await (const { id, questions } of sp.sessions.list({ status: "waiting" })) console.log(id, questions);
 */
export class Sessions {
  readonly #services: Services;

  /** Use `sp.sessions`. */
  constructor(services: Services) {
    this.#services = services;
  }

  /**
   * The sessions without their states, most recently created first. If several processes create sessions, the order is
   * approximate. Reads page by page; a damaged session is reported and left out.
   */
  list(options: SessionListOptions = {}): Listing<SessionInfo> {
    const { agent = this.#services.scope.agent, prefix, status, limit = Number.POSITIVE_INFINITY } = options;
    const { since = Number.NEGATIVE_INFINITY, until = Number.POSITIVE_INFINITY } = options;
    const matches = (info: SessionInfo): boolean =>
      (agent === undefined || info.agent === agent) &&
      (status === undefined || info.status === status) &&
      info.updatedAt >= since &&
      info.updatedAt <= until;
    const ofAgent = agent === undefined ? undefined : sessionsOfAgent(checkId(agent, "agent id"));
    if (prefix !== undefined) {
      checkId(prefix, "prefix of session ids");
      return createListing(() => limitEntries(this.#walkIds(prefix, matches), limit));
    }
    return createListing(() => limitEntries(this.#walk(ofAgent ?? ALL_SESSION_NUMBERS, matches), limit));
  }

  /**
   * A session without its states; `undefined` if there is none with this id.
   *
   * @param options.branch the branch whose status and head are read instead of those of `main`; `undefined` if it does not exist
   */
  async load(id: string, options: { readonly branch?: string } = {}): Promise<SessionInfo | undefined> {
    const context = this.#services.open();
    validateOptions(options, "sp.sessions.load");
    const reader = new SessionReader(context, checkId(id, "session id"));
    const branch = checkId(options.branch ?? MAIN, "branch name");
    const heads = await reader.heads(branch);
    if (branch !== MAIN && !heads.branch) return undefined;
    const [notes] = await readHeadNotes(context.store, [heads]);
    const [status] = await readBranchStatuses(context, [{ sessionId: id, branch, heads }]);
    return toSessionInfo(reader, heads, notes, status);
  }

  /**
   * The stored size of a session in bytes, `undefined` if there is none with this id: that of its records and items. Blobs can be
   * shared by sessions and are not counted.
   */
  async bytes(id: string): Promise<number | undefined> {
    return readSessionBytes(this.#services.open(), checkId(id, "session id"));
  }

  /**
   * Deletes a session with all its branches and checkpoints, in one transaction. Existing handles fail with `SESSION_DELETED`; a
   * new handle starts a new session.
   *
   * @returns `false` if there was none with this id
   */
  async delete(id: string): Promise<boolean> {
    const reader = new SessionReader(this.#services.open(), checkId(id, "session id"));
    return this.#services.search.withoutTexts({ kind: "session", id }, () =>
      deleteSession(reader, () => this.#services.forgetSession(id)),
    );
  }

  async *#walk(range: KeyRange, matches: (info: SessionInfo) => boolean): AsyncGenerator<SessionInfo> {
    const context = this.#services.open();
    for await (const page of scanPages(context.store, range, true)) {
      const readers = page.flatMap((record) => readerOf(context, record) ?? []);
      for (const info of await readInfos(context, readers)) if (matches(info)) yield info;
    }
  }

  async *#walkIds(prefix: string, matches: (info: SessionInfo) => boolean): AsyncGenerator<SessionInfo> {
    const context = this.#services.open();
    const { agent } = this.#services.scope;
    if (agent !== undefined) {
      // In the view of one agent, its sessions can be listed only together.
      const found: SessionInfo[] = [];
      const isFound = (info: SessionInfo): boolean => info.id.startsWith(prefix) && matches(info);
      for await (const info of this.#walk(sessionsOfAgent(agent), isFound)) found.push(info);
      yield* found.sort((a, b) => compareKeys(a.id, b.id));
      return;
    }
    for await (const page of scanPages(context.store, prefixRange(sessionKey(prefix)))) {
      // The records of the branches are between those of the sessions.
      const ids = page.map(({ key }) => key.slice(sessionKey("").length)).filter((id) => !id.includes("\t"));
      const readers = ids.map((id) => new SessionReader(context, id));
      for (const info of await readInfos(context, readers)) if (matches(info)) yield info;
    }
  }
}

/** The sessions of a page, in the order of their readers; without those that are missing or damaged. */
async function readInfos(context: Context, readers: readonly SessionReader[]): Promise<SessionInfo[]> {
  const heads = await readMainHeads(context.store, readers);
  const notes = await readHeadNotes(context.store, heads);
  const queries = readers.map(({ sessionId }, index) => ({
    sessionId,
    branch: MAIN,
    heads: heads[index] ?? { session: undefined, branch: undefined },
  }));
  const statuses = await readBranchStatuses(context, queries);
  return readers.flatMap((reader, index) => {
    const found = heads[index];
    return (found && toSessionInfo(reader, found, notes[index], statuses[index])) ?? [];
  });
}

/** The reader of a listed session; `undefined` for the history of an agent, and for a damaged record, which is reported. */
function readerOf(context: Context, record: RecordResult): SessionReader | undefined {
  if ("value" in record) {
    return agentOfHistoryId(record.value) === undefined ? new SessionReader(context, record.value) : undefined;
  }
  const reason = `a session is not listed: ${record.unreadable}`;
  new SessionReader(context, "").reportDamage(undefined, undefined, reason);
  return undefined;
}

function toSessionInfo(
  reader: SessionReader,
  { session, branch }: Heads,
  notes: Notes | undefined,
  status: BranchStatus | undefined,
): SessionInfo | undefined {
  if (!session) return undefined;
  const { agent, createdAt, checkpoints } = session.record;
  const { head, headParentId } = branch?.record ?? {};
  const waiting = status?.status === "waiting" ? status.run : undefined;
  return {
    id: reader.sessionId,
    agent,
    createdAt,
    updatedAt: head?.createdAt ?? createdAt,
    status: status?.status ?? "open",
    reason: status?.reason,
    error: status?.error,
    questions: waiting?.questions ?? [],
    wakeAt: waiting?.wakeAt,
    checkpoints,
    head: head && reader.toInfo(head, agent, headParentId, notes),
  };
}
