/** The optimistic concurrency control of a session handle. */
import { type CheckpointInfo, MAIN } from "../records/index.js";
import {
  agentMismatch,
  BranchHeldError,
  branchMoved,
  branchNotFound,
  type Heads,
  sessionDeleted,
} from "../sessions/index.js";
import type { Services } from "./services.js";

/**
 * What a handle last read or wrote: the number of its session (see records/keys.ts: a session that is created again under
 * the same id has another one), and the head of its branch.
 */
interface Observation {
  readonly number: number | undefined;
  readonly head: string | undefined;
  readonly seq: number;
}

/**
 * Rejects writes of a handle that would build on something its user has not seen: a head that another writer has moved, or
 * a session that was deleted and created again under the same id. A handle that has read nothing yet accepts any head.
 */
export class WriteGuard {
  readonly #services: Services;
  readonly #sessionId: string;
  readonly #branch: string;
  readonly #agent: string | undefined;
  readonly #deletions: number;
  #observed: Observation | undefined;

  constructor(services: Services, sessionId: string, branch: string, agent: string | undefined) {
    this.#services = services;
    this.#sessionId = sessionId;
    this.#branch = branch;
    this.#agent = agent;
    this.#deletions = services.deletionsOf(sessionId);
  }

  /** @throws `SESSION_DELETED` if this process has deleted the session since the handle was created */
  requireUndeleted(): void {
    if (this.#deletions !== this.#services.deletionsOf(this.#sessionId)) throw sessionDeleted(this.#sessionId);
  }

  /** @throws `SESSION_DELETED` if the session that the handle has seen was deleted, even if there is a new one with the same id */
  requireSameSession({ session }: Heads): void {
    const number = this.#observed?.number;
    if (number !== undefined && session?.record.number !== number) throw sessionDeleted(this.#sessionId);
    this.requireUndeleted();
  }

  /** @throws `AGENT_MISMATCH` if the session belongs to a different agent than the handle was opened for */
  requireAgent(agent: string | undefined): void {
    if (agent === undefined || this.#agent === undefined || agent === this.#agent) return;
    throw agentMismatch(this.#sessionId, agent, this.#agent);
  }

  /**
   * Checks that the handle may save a checkpoint after these heads.
   *
   * @throws `CONFLICT` if another writer has moved the branch
   * @throws `SESSION_DELETED`, `AGENT_MISMATCH`, `BRANCH_NOT_FOUND`
   * @throws {@link BranchHeldError} if a run holds the branch
   */
  admit(heads: Heads): void {
    this.requireSameSession(heads);
    const { session, branch } = heads;
    this.requireAgent(session?.record.agent);
    if (!branch && this.#branch !== MAIN) throw branchNotFound(this.#sessionId, this.#branch);
    if (branch?.record.held) throw new BranchHeldError(this.#sessionId, this.#branch);
    const isMoved = this.#observed !== undefined && this.#observed.head !== branch?.record.head?.id;
    if (isMoved) throw branchMoved(this.#sessionId, this.#branch, heads);
  }

  /** Records that the user of the handle has seen these heads: later saves build on them. */
  observe(heads: Heads): void {
    this.requireSameSession(heads);
    const head = heads.branch?.record.head;
    this.#observed = { number: heads.session?.record.number, head: head?.id, seq: head?.seq ?? -1 };
  }

  /**
   * Records a save of this handle. Has no effect if the checkpoint is on another branch, or is not newer than the observed
   * head: a repeated save with the same id returns the existing checkpoint.
   */
  observeSave(info: CheckpointInfo, sessionNumber: number | undefined): void {
    if (info.branch !== this.#branch || info.seq <= (this.#observed?.seq ?? -1)) return;
    this.#observed = { number: sessionNumber, head: info.id, seq: info.seq };
  }

  /** Records that the session was emptied. */
  observeClear(): void {
    if (this.#observed) this.#observed = { number: this.#observed.number, head: undefined, seq: -1 };
  }
}
