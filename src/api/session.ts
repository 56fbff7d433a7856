/** `Session`: a handle on one line of work of an agent, and on its tree of checkpoints. */
import { isSavepointError, SavepointError } from "../errors.js";
import { pendingToolCalls } from "../messages/index.js";
import {
  checkBranchName,
  checkId,
  type Checkpoint,
  type CheckpointInfo,
  type CheckpointRef,
  type CheckpointRow,
  MAIN,
  type SaveOptions,
  type SkippedCheckpoint,
} from "../records/index.js";
import { enforceRetention, prune, type PruneOptions, type PruneResult } from "../retention/index.js";
import { forkWithResults } from "../runs/index.js";
import {
  annotateCheckpoint,
  type Annotations,
  type Author,
  type BranchCursor,
  BranchHeldError,
  type BranchInfo,
  branchNotEmpty,
  checkpointNotFound,
  clearSession,
  declaredVersion,
  findRow,
  forkAt,
  type ForkOptions,
  forkWithState,
  type Heads,
  type HistoryOptions,
  loadLatestIntact,
  type LoadOptions,
  loadShadow,
  materializeHead,
  migrateLoadedState,
  parentNotHead,
  parseSaveOptions,
  readAnnotations,
  readHeadNotes,
  requireAnsweredToolCalls,
  rewindBranch,
  type RowMatch,
  type SaveFields,
  saveMigrated,
  type SaveRequest,
  type SessionOptions,
  SessionReader,
  setLabel,
  setPin,
  stateWithResults,
  validateUpdateResult,
  versionForSave,
  type VersionScope,
  walkHistory,
} from "../sessions/index.js";
import {
  appendToShadow,
  appendToValue,
  type Change,
  valueToShadow,
  diffStates,
  freezeState,
  type Hole,
  parsePointer,
  type Shadow,
  shadowToValue,
} from "../state/index.js";
import { createListing, type Listing } from "../util/index.js";
import { planSaveTargets, saveAt } from "./save-target.js";
import type { Services } from "./services.js";
import { WriteGuard } from "./write-guard.js";

/**
 * A handle on one branch of a session. Creating it reads and writes nothing; the session exists from its first save on.
 *
 * A handle remembers the head that it last read or saved. If another writer has moved the branch since, saves of the handle fail
 * with `CONFLICT` until `latest()` or `head()` has read the new head. A handle that has read nothing yet saves on any head. All
 * handles of a process on the same branch save one after another.
 *
 * @example
 * const session = sp.session("ticket-7", { agent: "support" });
 * const { state } = (await session.latest()) ?? { state: { messages: [] } };
 * state.messages.push({ role: "user", content: "Hello" });
 * await session.save(state);
 */
export class Session<State = unknown> {
  readonly id: string;
  /** The branch that the handle reads and writes. */
  readonly branch: string;
  /** The agent that the handle was opened for. If this is `undefined`, the session may still belong to an agent. */
  readonly agent: string | undefined;
  readonly #services: Services;
  readonly #reader: SessionReader;
  /** Whether the caller passed the name of the branch. */
  readonly #isNamed: boolean;
  readonly #guard: WriteGuard;
  readonly #author: Author;

  /** Use `sp.session(id)`. */
  constructor(services: Services, reader: SessionReader, options: SessionOptions) {
    this.#services = services;
    this.#reader = reader;
    this.id = reader.sessionId;
    this.branch = options.branch ?? MAIN;
    this.agent = options.agent;
    this.#isNamed = options.branch !== undefined;
    this.#guard = new WriteGuard(services, this.id, this.branch, this.agent);
    this.#author = { agent: this.agent, admit: (heads) => this.#guard.admit(heads) };
  }

  /**
   * Saves a state as the new head of the branch, in one commit. The checkpoint is durable when the promise resolves.
   *
   * Pass the complete state. Only the changes since the last save are written; finding them costs O(state) in memory. Use
   * {@link append} for the hot path of growing lists. The state is read before this call returns, so changing the object afterwards
   * does not change the checkpoint.
   *
   * @throws `CONFLICT` if another writer has moved the branch, `ALREADY_RUNNING` while a run holds the branch,
   *   `INVALID_STATE` for values that cannot be stored
   * @example
   * await session.save(state, { label: "before refactoring", metadata: { cost: 0.12 } });
   */
  async save(state: State, options: SaveOptions = {}): Promise<CheckpointInfo> {
    const cursor = this.#cursor();
    const { registry } = this.#reader.context;
    const { parent, resetBranch = false } = options;
    const fields = parseSaveOptions(options, registry);
    if (parent === undefined && this.#services.migrations.isEmpty && cursor.isReady && !cursor.isHeld) {
      // The fast path needs no copy, because it compares the caller's object synchronously, before the caller can change it.
      return this.#commit(cursor, () => cursor.save({ live: state }, fields, this.#author));
    }
    const copy = valueToShadow(state, registry);
    return this.#commit(cursor, async () => {
      const versioned = { ...fields, ...(await this.#version(cursor)) };
      if (parent === undefined) return cursor.save({ copy }, versioned, this.#author);
      const request = { copy, options: versioned, agent: this.agent };
      return this.#saveAfter(cursor, parent, resetBranch, request);
    });
  }

  /**
   * Appends elements to an array in the state and saves the result. Costs O(elements), whatever the size of the state.
   *
   * @param path JSON pointer to the array, such as `"/messages"`
   * @example
   * await session.append("/messages", [{ role: "assistant", content: "Done." }]);
   */
  async append(
    path: string,
    elements: readonly unknown[],
    options: Omit<SaveOptions, "parent" | "resetBranch"> = {},
  ): Promise<CheckpointInfo> {
    const keys = parsePointer(path);
    if (!Array.isArray(elements)) {
      const message = `append(${JSON.stringify(path)}, …) expects an array of elements: append(path, [element]).`;
      throw new SavepointError("INVALID_ARGUMENT", message);
    }
    const { registry } = this.#reader.context;
    const copies = elements.map((element) => shadowToValue(valueToShadow(element, registry), registry));
    const cursor = this.#cursor();
    const fields = parseSaveOptions(options, registry);
    return this.#commitChange(
      cursor,
      fields,
      (state) => appendToValue(state, keys, copies),
      (versioned) =>
        cursor.saveChange((shadow) => appendToShadow(shadow, keys, copies, registry), versioned, this.#author),
    );
  }

  /**
   * Saves the state that `change` returns for the state of the head. Both states are deep-frozen, so the new state can share
   * unchanged parts with the old state. Only parts that are not shared are compared.
   *
   * @param change gets `undefined` if the branch has no checkpoint; must be synchronous
   * @throws `CONFLICT` if another writer moves the branch meanwhile, and saves nothing
   * @example
   * await session.update((state) => ({ ...state, step: state.step + 1 }));
   */
  async update(
    change: (state: Readonly<State> | undefined) => State,
    options: Omit<SaveOptions, "parent" | "resetBranch"> = {},
  ): Promise<CheckpointInfo> {
    const cursor = this.#cursor();
    const { registry } = this.#reader.context;
    const apply = change as (state: unknown) => unknown;
    const fields = parseSaveOptions(options, registry);
    const applyFrozen = (state: unknown): unknown => {
      freezeState(state, registry);
      return validateUpdateResult(apply(state));
    };
    return this.#commitChange(cursor, fields, applyFrozen, (versioned) =>
      cursor.update(apply, versioned, this.#author),
    );
  }

  /**
   * The newest intact checkpoint of the branch with its state; `undefined` if the branch has no checkpoint. Damaged checkpoints
   * are listed in `skipped`, and the next intact ancestor is returned instead.
   *
   * @throws `DAMAGED` if the branch has checkpoints and none of them is intact
   */
  async latest(): Promise<Checkpoint<State> | undefined> {
    const cursor = this.#cursor();
    return this.#exclusive(cursor, async () => {
      const found = await loadLatestIntact(this.#reader, cursor, (heads) => this.#guard.observe(heads));
      return found && this.#checkpoint(found.info, found.shadow, [], found.skipped);
    });
  }

  /** The newest checkpoint of the branch without its state; `undefined` if the branch has no checkpoint. Reads no state. */
  async head(): Promise<CheckpointInfo | undefined> {
    const cursor = this.#cursor();
    return this.#exclusive(cursor, async () => {
      const heads = await cursor.refresh();
      this.#guard.observe(heads);
      const { session, branch } = heads;
      if (!session || !branch?.record.head) return undefined;
      const { head, headParentId } = branch.record;
      const notes = await this.#reader.notes(session.record.number, head.seq, head.seq);
      return this.#reader.toInfo(head, session.record.agent, headParentId, notes.get(head.seq));
    });
  }

  /**
   * A checkpoint of the session with its state, by id, `session#seq`, step, label or seq; `undefined` if there is none. A step
   * is looked up among the ancestors of the branch's head.
   *
   * @throws `DAMAGED` if the checkpoint is damaged, unless `partial` requests its intact parts
   */
  async load(ref: CheckpointRef, options: LoadOptions = {}): Promise<Checkpoint<State> | undefined> {
    const found = await this.#find(ref);
    if (!found) return undefined;
    const { number, row, agent } = found;
    const holes: Hole[] = [];
    try {
      const shadow = await loadShadow(this.#reader, number, row, options.partial ? holes : undefined);
      const info = await this.#reader.loadInfo(number, row, agent);
      return await this.#checkpoint(info, shadow, holes, []);
    } catch (error) {
      if (isSavepointError(error, "CHECKPOINT_NOT_FOUND")) return undefined;
      if (isSavepointError(error, "DAMAGED")) this.#reader.reportDamage(row.id, row.seq, error.message);
      throw error;
    }
  }

  /** The checkpoints of the branch along their parents, newest first, without their states. Reads page by page. */
  history(options: HistoryOptions = {}): Listing<CheckpointInfo> {
    return createListing(() => walkHistory(this.#reader, options, () => this.#readHeads()));
  }

  /** The branches of the session with their heads, in the order of their names. */
  branches(): Listing<BranchInfo> {
    const { reader, heads } = { reader: this.#reader, heads: () => this.#readHeads() };
    return createListing(async function* () {
      const { session } = await heads();
      for await (const branch of reader.branches()) {
        const { name, head, headParentId, createdAt } = branch.record;
        const [notes] = await readHeadNotes(reader.context.store, [{ session, branch }]);
        yield { name, createdAt, head: head && reader.toInfo(head, session?.record.agent, headParentId, notes) };
      }
    });
  }

  /**
   * Creates a branch at a checkpoint and returns a handle on the branch. Writes one record; with `state`, also the first checkpoint
   * of the branch. The states of the original branch are shared, not copied.
   *
   * @throws `BRANCH_EXISTS` if the session has a branch of that name
   * @example
   * const attempt = await session.fork({ step: 4 }, { branch: "other-model" });
   */
  async fork(ref: CheckpointRef, options: ForkOptions<State> = {}): Promise<Session<State>> {
    const { branch: name, state, results, ...saveOptions } = options;
    const { registry } = this.#reader.context;
    if (name !== undefined) checkBranchName(name);
    if (state !== undefined && results !== undefined) throw stateWithResults();
    const copy = state === undefined ? undefined : valueToShadow(state, registry);
    const fields = parseSaveOptions(saveOptions, registry);
    const match = await this.#requireRow(ref);
    this.#guard.requireAgent(match.agent);
    const { number, row } = match;
    if (copy !== undefined && row.run?.midStep) requireAnsweredToolCalls(this.id, row.seq, state);
    const branch =
      copy !== undefined
        ? await this.#forkWithState(match, name, copy, fields)
        : results !== undefined
          ? await forkWithResults(this.#reader, number, row, name, results)
          : await forkAt(this.#reader, number, row, name);
    const agent = this.agent === undefined ? {} : { agent: this.agent };
    return new Session<State>(this.#services, this.#reader, { ...agent, branch });
  }

  /**
   * Makes the state of an earlier checkpoint the head of this branch again, in one commit. The replaced head is kept as a
   * checkpoint of kind `preOperation`, so rewinding to that checkpoint undoes the rewind.
   *
   * Use this with a handle of the session. `sp.checkpoints.restore(id)` does the same given only the id of a checkpoint, on the
   * branch that the checkpoint was saved on; it also restores whole agents and can preview the changes.
   */
  async rewind(ref: CheckpointRef): Promise<CheckpointInfo> {
    const { number, row } = await this.#requireRow(ref);
    const cursor = this.#cursor();
    return this.#commit(cursor, () => rewindBranch(this.#reader, cursor, number, row, this.#author));
  }

  /** The changes that lead from one checkpoint to another. Reads only the parts that differ. See `applyChanges`. */
  async diff(from: CheckpointRef, to: CheckpointRef): Promise<Change[]> {
    const [a, b] = [await this.#require(from), await this.#require(to)];
    try {
      return await diffStates(a.row, b.row, this.#reader.stateReader(a.number), this.#reader.context.registry);
    } catch (error) {
      if (!isSavepointError(error, "DAMAGED")) throw error;
      // If one of the checkpoints was removed meanwhile, its missing items are no damage.
      for (const [ref, { number, row }] of [
        [from, a],
        [to, b],
      ] as const) {
        if (!(await this.#reader.row(number, row.seq))) throw checkpointNotFound(this.id, ref);
      }
      this.#reader.reportDamage(undefined, undefined, error.message);
      throw error;
    }
  }

  /** Sets the label of a checkpoint; `undefined` removes it. */
  async label(ref: CheckpointRef, label: string | undefined): Promise<void> {
    const { number, row } = await this.#requireRow(ref);
    await setLabel(this.#reader, number, row, label);
    this.#requestSweep();
  }

  /** Pins a checkpoint, or unpins it. Pinned checkpoints are never pruned. */
  async pin(ref: CheckpointRef, pinned = true): Promise<void> {
    const { number, row } = await this.#requireRow(ref);
    await setPin(this.#reader, number, row, pinned);
    this.#requestSweep();
  }

  /**
   * Sets an annotation: a named value beside the state of a checkpoint. Unlike the state, an annotation can be replaced. It is
   * removed with its checkpoint.
   *
   * @param change gets the current value, or `undefined`, and returns the new value; `undefined` removes the annotation. If another
   *   writer was faster, `change` is called again, so it must be synchronous and free of side effects
   * @example
   * await session.annotate(checkpoint.id, "review", () => ({ approved: true }));
   */
  async annotate(ref: CheckpointRef, name: string, change: (before: unknown) => unknown): Promise<void> {
    const { number, row } = await this.#requireRow(ref);
    await annotateCheckpoint(this.#reader, number, row, name, change);
  }

  /** The annotations of the checkpoints with seqs from `from` to `to`, both included: by seq, then by name. One read. */
  async annotations(from: number, to = from): Promise<Annotations> {
    const { session } = await this.#readHeads();
    return session ? readAnnotations(this.#reader, session.record.number, from, to) : new Map();
  }

  /**
   * Removes the checkpoints of this session that no option keeps. Never removes heads, pinned checkpoints, or checkpoints that a
   * branch or a step starts from. Reads no states.
   */
  async prune(options: PruneOptions): Promise<PruneResult> {
    // Called only for its checks: it throws if the store is closed or the session was deleted.
    this.#cursor();
    const { cursors } = this.#services;
    return prune(this.#reader.context, { session: this.id }, options, (id) => cursors.invalidateSession(id));
  }

  /**
   * Removes all checkpoints and branches, and returns the number of removed checkpoints. The session itself and its numbering
   * remain.
   */
  async clear(): Promise<number> {
    const cursor = this.#cursor();
    const { cursors, runs } = this.#services;
    for await (const { record } of this.#reader.branches()) {
      if (record.held) await runs.release(this.#reader, record.name);
    }
    return this.#exclusive(cursor, async () => {
      const removed = await clearSession(this.#reader, (heads) => this.#guard.requireSameSession(heads));
      cursors.invalidateSession(this.id);
      this.#guard.observeClear();
      return removed;
    });
  }

  /** Saves a checkpoint after `parent`, or without a parent if that is `null`, at the first possible one of the planned targets. */
  async #saveAfter(
    cursor: BranchCursor,
    parent: string | null,
    resetBranch: boolean,
    request: SaveRequest,
  ): Promise<CheckpointInfo> {
    const heads = await cursor.refresh();
    this.#guard.observe(heads);
    this.#guard.requireAgent(heads.session?.record.agent);
    const row = parent === null ? undefined : await this.#findParent(heads, parent);
    const scene = { cursors: this.#services.cursors, reader: this.#reader, cursor, heads, author: this.#author };
    for (const target of planSaveTargets(heads, row, { branch: this.branch, isNamed: this.#isNamed, resetBranch })) {
      const info = await saveAt(target, scene, request);
      if (info) return info;
    }
    throw parent === null ? branchNotEmpty(this.id, this.branch) : parentNotHead(this.id, this.branch, parent);
  }

  async #findParent({ session }: Heads, parent: string): Promise<CheckpointRow> {
    const row = session && (await this.#reader.find(session.record.number, parent, undefined));
    if (!row) throw checkpointNotFound(this.id, parent);
    return row;
  }

  /**
   * Creates a branch whose first checkpoint has the state `copy`, and returns the name of the branch. The usage of the original
   * checkpoint carries over, and so does its step if it lies inside a step of a run, unless `fields` contains other values.
   */
  async #forkWithState(
    { number, row, agent }: RowMatch,
    name: string | undefined,
    copy: Shadow,
    fields: SaveFields,
  ): Promise<string> {
    const { cursors } = this.#services;
    const inherited = {
      ...(row.run?.midStep && { step: row.step }),
      ...(row.usage && { usage: row.usage }),
      ...declaredVersion(this.#versionScope(), agent),
    };
    const options = { ...inherited, ...fields };
    const info = await forkWithState(this.#reader, cursors, number, row, name, copy, options, this.agent);
    await enforceRetention(this.#reader, cursors.get(this.#reader, info.branch), info);
    return info.branch;
  }

  /**
   * Saves a change of the head's state.
   *
   * @param change computes the new state; called only if the head has an earlier version and must be migrated first
   * @param save saves the change on a head that needs no migration
   */
  #commitChange(
    cursor: BranchCursor,
    fields: SaveFields,
    change: (state: unknown) => unknown,
    save: (fields: SaveFields) => Promise<CheckpointInfo>,
  ): Promise<CheckpointInfo> {
    return this.#commit(cursor, async () => {
      const versioned = { ...fields, ...(await this.#version(cursor)) };
      const scope = this.#versionScope();
      const migrated = await saveMigrated(this.#reader, cursor, scope, change, versioned, this.#author);
      return migrated ?? (await save(versioned));
    });
  }

  /**
   * Runs `save` while no other call of this process uses the branch. Then records that the handle knows the new head, and enforces
   * the retention rules.
   */
  async #commit(cursor: BranchCursor, save: () => Promise<CheckpointInfo>): Promise<CheckpointInfo> {
    const saved = await this.#exclusive(cursor, async () => {
      const info = await save();
      this.#guard.observeSave(info, cursor.sessionNumber);
      return info;
    });
    await enforceRetention(this.#reader, cursor, saved);
    return saved;
  }

  /**
   * Runs `work` while no other call of this process uses the branch. If the branch is held by a run that has ended without
   * releasing it, releases the branch and runs `work` again. Throws `ALREADY_RUNNING` while the run is live.
   */
  async #exclusive<T>(cursor: BranchCursor, work: () => Promise<T>): Promise<T> {
    const { cursors, runs } = this.#services;
    try {
      return await cursor.exclusive(work);
    } catch (error) {
      if (!(error instanceof BranchHeldError)) throw error;
      await runs.release(this.#reader, this.branch);
      return await cursor.exclusive(async () => {
        await cursor.refresh();
        return work();
      });
    } finally {
      cursors.enforceBudget(cursor);
    }
  }

  /** The cursor of the branch. @throws `CLOSED`, `SESSION_DELETED` */
  #cursor(): BranchCursor {
    this.#services.open();
    this.#guard.requireUndeleted();
    return this.#services.cursors.get(this.#reader, this.branch);
  }

  /** Reads the session's record and the branch's record, after the pending saves of this process. */
  async #readHeads(): Promise<Heads> {
    const cursor = this.#cursor();
    await cursor.idle();
    const heads = await this.#reader.heads(this.branch);
    this.#guard.requireSameSession(heads);
    return heads;
  }

  #find(ref: CheckpointRef): Promise<RowMatch | undefined> {
    return findRow(this.#reader, () => this.#readHeads(), ref);
  }

  /** Finds a checkpoint. Throws `CHECKPOINT_NOT_FOUND` if there is none. */
  async #require(ref: CheckpointRef): Promise<RowMatch> {
    const found = await this.#find(ref);
    if (!found) throw checkpointNotFound(this.id, ref);
    return found;
  }

  /**
   * Finds a checkpoint like `#require`, for callers whose writes will refer to its row. If the checkpoint is a hidden head, this
   * writes its row first, and enforces the retention rules like any save.
   */
  async #requireRow(ref: CheckpointRef): Promise<RowMatch> {
    const found = await this.#require(ref);
    if (!found.hidden) return found;
    await materializeHead(this.#reader, found.number, found.row);
    await enforceRetention(this.#reader, this.#cursor(), found.row);
    return found;
  }

  /** Builds the checkpoint that the caller gets, with its state migrated to the current version. */
  async #checkpoint(
    info: CheckpointInfo,
    shadow: Shadow,
    holes: readonly Hole[],
    skipped: readonly SkippedCheckpoint[],
  ): Promise<Checkpoint<State>> {
    const stored = shadowToValue(shadow, this.#reader.context.registry);
    const state = (await migrateLoadedState(this.#versionScope(), info.agent, info.version, stored)) as State;
    return { ...info, state, pendingToolCalls: pendingToolCalls(state), holes, skipped };
  }

  /** The version of the next save; without a field if no migrations are declared. */
  async #version(cursor: BranchCursor): Promise<{ readonly version?: number }> {
    return this.#services.migrations.isEmpty ? {} : versionForSave(await cursor.refresh(), this.#versionScope());
  }

  /** Makes the next save sweep, because a changed label or pin may have made a checkpoint removable. */
  #requestSweep(): void {
    this.#reader.context.sweeps.delete(this.id);
  }

  #versionScope(): VersionScope {
    return { sessionId: this.id, agent: this.agent, migrations: this.#services.migrations };
  }
}

/** Validates the ids, and creates a handle on a session. Reads and writes nothing. */
export function openSession<State>(services: Services, id: string, options: SessionOptions): Session<State> {
  const context = services.open();
  checkId(id, "session id");
  if (options.agent !== undefined) checkId(options.agent, "agent id");
  if (options.branch !== undefined) checkId(options.branch, "branch name");
  return new Session<State>(services, new SessionReader(context, id), options);
}
