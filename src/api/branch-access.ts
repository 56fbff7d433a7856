/** The access of a session handle to its branch. */
import { type CheckpointInfo, type CheckpointRef, type CheckpointRow, MAIN } from "../records/index.js";
import { enforceRetention } from "../retention/index.js";
import {
  type Author,
  type BranchCursor,
  BranchHeldError,
  branchNotEmpty,
  checkpointNotFound,
  declaredVersion,
  findRow,
  forkWithState,
  type Heads,
  materializeHead,
  parentNotHead,
  type RowMatch,
  type SaveFields,
  saveMigrated,
  type SaveRequest,
  type SessionOptions,
  type SessionReader,
  versionForSave,
  type VersionScope,
} from "../sessions/index.js";
import type { Shadow } from "../state/index.js";
import { planSaveTargets, saveAt } from "./save-target.js";
import type { Services } from "./services.js";
import { WriteGuard } from "./write-guard.js";

/**
 * Serializes the calls of a handle with all other calls in its process on the same branch, checks its writes, and finds its
 * checkpoints. Every method that reads or writes first checks that the store is open and the session was not deleted.
 */
export class BranchAccess {
  readonly guard: WriteGuard;
  readonly author: Author;
  /** The migrations that apply to the states of the handle. */
  readonly versionScope: VersionScope;
  readonly #services: Services;
  readonly #reader: SessionReader;
  readonly #branch: string;
  /** Whether the caller passed the name of the branch. */
  readonly #isNamed: boolean;

  constructor(services: Services, reader: SessionReader, { agent, branch }: SessionOptions) {
    const { sessionId } = reader;
    this.#services = services;
    this.#reader = reader;
    this.#branch = branch ?? MAIN;
    this.#isNamed = branch !== undefined;
    this.guard = new WriteGuard(services, sessionId, this.#branch, agent);
    this.author = { agent, admit: (heads) => this.guard.admit(heads) };
    this.versionScope = { sessionId, agent, migrations: services.migrations };
  }

  /** Saves a checkpoint after `parent`, or without a parent if that is `null`, at the first possible one of the planned targets. */
  async saveAfter(
    cursor: BranchCursor,
    parent: string | null,
    resetBranch: boolean,
    request: SaveRequest,
  ): Promise<CheckpointInfo> {
    const heads = await cursor.refresh();
    this.guard.observe(heads);
    this.guard.requireAgent(heads.session?.record.agent);
    const row = parent === null ? undefined : await this.#findParent(heads, parent);
    const scene = { cursors: this.#services.cursors, reader: this.#reader, cursor, heads, author: this.author };
    for (const target of planSaveTargets(heads, row, { branch: this.#branch, isNamed: this.#isNamed, resetBranch })) {
      const info = await saveAt(target, scene, request);
      if (info) return info;
    }
    throw parent === null
      ? branchNotEmpty(this.#reader.sessionId, this.#branch)
      : parentNotHead(this.#reader.sessionId, this.#branch, parent);
  }

  async #findParent({ session }: Heads, parent: string): Promise<CheckpointRow> {
    const row = session && (await this.#reader.find(session.record.number, parent, undefined));
    if (!row) throw checkpointNotFound(this.#reader.sessionId, parent);
    return row;
  }

  /**
   * Creates a branch whose first checkpoint has the state `copy`, and returns the name of the branch. The usage of the original
   * checkpoint carries over, and so does its step if it lies inside a step of a run, unless `fields` contains other values.
   */
  async forkWithState(
    { number, row, agent }: RowMatch,
    name: string | undefined,
    copy: Shadow,
    fields: SaveFields,
  ): Promise<string> {
    const { cursors } = this.#services;
    const inherited = {
      ...(row.run?.midStep && { step: row.step }),
      ...(row.usage && { usage: row.usage }),
      ...declaredVersion(this.versionScope, agent),
    };
    const options = { ...inherited, ...fields };
    const info = await forkWithState(this.#reader, cursors, number, row, name, copy, options, this.author.agent);
    await enforceRetention(this.#reader, cursors.get(this.#reader, info.branch), info);
    return info.branch;
  }

  /**
   * Saves a change of the head's state.
   *
   * @param change computes the new state; called only if the head has an earlier version and must be migrated first
   * @param save saves the change on a head that needs no migration
   */
  commitChange(
    cursor: BranchCursor,
    fields: SaveFields,
    change: (state: unknown) => unknown,
    save: (fields: SaveFields) => Promise<CheckpointInfo>,
  ): Promise<CheckpointInfo> {
    return this.commit(async () => {
      const versioned = { ...fields, ...(await this.version(cursor)) };
      const migrated = await saveMigrated(this.#reader, cursor, this.versionScope, change, versioned, this.author);
      return migrated ?? (await save(versioned));
    }, cursor);
  }

  /**
   * Runs `save` while no other call of this process uses the branch. Then records that the handle knows the new head, and enforces
   * the retention rules.
   */
  async commit(
    save: (cursor: BranchCursor) => Promise<CheckpointInfo>,
    cursor = this.cursor(),
  ): Promise<CheckpointInfo> {
    const observe = (info: CheckpointInfo): CheckpointInfo => {
      this.guard.observeSave(info, cursor.sessionNumber);
      return info;
    };
    const saved = await this.exclusive(() => save(cursor).then(observe), cursor);
    const sweep = enforceRetention(this.#reader, cursor, saved);
    if (sweep) await sweep;
    return saved;
  }

  /**
   * Runs `work` while no other call of this process uses the branch. If the branch is held by a run that has ended without
   * releasing it, releases the branch and runs `work` again. Throws `ALREADY_RUNNING` while the run is live.
   */
  async exclusive<T>(work: (cursor: BranchCursor) => Promise<T>, cursor = this.cursor()): Promise<T> {
    const { cursors, runs } = this.#services;
    try {
      return await cursor.exclusive(() => work(cursor));
    } catch (error) {
      if (!(error instanceof BranchHeldError)) throw error;
      await runs.release(this.#reader, this.#branch);
      return await cursor.exclusive(async () => {
        await cursor.refresh();
        return work(cursor);
      });
    } finally {
      cursors.enforceBudget(cursor);
    }
  }

  /** The cursor of the branch. @throws `CLOSED`, `SESSION_DELETED` */
  cursor(): BranchCursor {
    this.#services.open();
    this.guard.requireUndeleted();
    return this.#services.cursors.get(this.#reader, this.#branch);
  }

  /** Reads the session's record and the branch's record, after the pending saves of this process. */
  async readHeads(): Promise<Heads> {
    const cursor = this.cursor();
    await cursor.idle();
    const heads = await this.#reader.heads(this.#branch);
    this.guard.requireSameSession(heads);
    return heads;
  }

  find(ref: CheckpointRef): Promise<RowMatch | undefined> {
    return findRow(this.#reader, () => this.readHeads(), ref);
  }

  /** Finds a checkpoint. Throws `CHECKPOINT_NOT_FOUND` if there is none. */
  async require(ref: CheckpointRef): Promise<RowMatch> {
    const found = await this.find(ref);
    if (!found) throw checkpointNotFound(this.#reader.sessionId, ref);
    return found;
  }

  /**
   * Finds a checkpoint like `require`, for callers whose writes will refer to its row. If the checkpoint is a hidden head, this
   * writes its row first, and enforces the retention rules like any save.
   */
  async requireRow(ref: CheckpointRef): Promise<RowMatch> {
    const found = await this.require(ref);
    if (!found.hidden) return found;
    await materializeHead(this.#reader, found.number, found.row);
    await enforceRetention(this.#reader, this.cursor(), found.row);
    return found;
  }

  /** The version of the next save; without a field if no migrations are declared. */
  async version(cursor: BranchCursor): Promise<{ readonly version?: number }> {
    return this.#services.migrations.isEmpty ? {} : versionForSave(await cursor.refresh(), this.versionScope);
  }
}
