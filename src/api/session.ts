/** `Session`: a handle on one line of work of an agent, and on its tree of checkpoints. */
import { isSavepointError } from "../errors.js";
import { pendingToolCalls, resolveToolCalls, type ToolCallResolution } from "../messages/index.js";
import {
  checkBranchName,
  checkId,
  type Checkpoint,
  type CheckpointInfo,
  type CheckpointRef,
  type CheckpointStatus,
  MAIN,
  type SaveOptions,
  type SkippedCheckpoint,
} from "../records/index.js";
import { prune, type PruneOptions, type PruneResult } from "../retention/index.js";
import {
  type CheckpointActivity,
  type EffectSummary,
  forkWithResults,
  type JournalEntry,
  type JournalHole,
  type JournalOptions,
  readActivities,
  readEffectsAfter,
  readJournal,
} from "../runs/index.js";
import {
  annotateCheckpoint,
  type Annotations,
  type BranchInfo,
  checkpointNotFound,
  clearSession,
  forkAt,
  type ForkOptions,
  type Heads,
  type HistoryOptions,
  integrationOptions,
  isFromIntegration,
  isGraphThread,
  loadLatestIntact,
  type LoadOptions,
  loadShadow,
  migrateLoadedState,
  nothingToComplete,
  parseSaveOptions,
  parseStatusNote,
  readAnnotations,
  readHeadNotes,
  rejectUnknownCalls,
  requireAnsweredToolCalls,
  rewindBranch,
  type SessionOptions,
  SessionReader,
  setLabel,
  setPin,
  sharingReader,
  stateWithResults,
  validateUpdateResult,
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
import { createListing, type Listing, invalidArgument, validateOptions } from "../util/index.js";
import { BranchAccess } from "./branch-access.js";
import type { Services } from "./services.js";

/** Options of `session.annotate()`. */
export interface AnnotateOptions {
  /**
   * The status that the checkpoint has from now on, in the same commit; `null` for the status that it was saved with. It becomes
   * the status of the session if the checkpoint is the head and was not saved by a run.
   * @default the status does not change
   */
  readonly status?: CheckpointStatus | null;
  /** Why it has this status. */
  readonly reason?: string;
}

/** Options of `session.complete()`. */
export type CompleteOptions = Pick<
  SaveOptions,
  "reason" | "label" | "description" | "usage" | "metadata" | "pinned" | "tasksCompleted"
>;

/** The new head of a branch that was rewound. */
export interface RewindInfo extends CheckpointInfo {
  /** The tool calls between the checkpoint and the previous head. A run that continues may make them again, under new keys. */
  readonly effectsAfter: readonly EffectSummary[];
}

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
  readonly #access: BranchAccess;

  /** Use `sp.session(id)`. */
  constructor(services: Services, reader: SessionReader, options: SessionOptions) {
    this.#services = services;
    this.#reader = reader;
    this.id = reader.sessionId;
    this.branch = options.branch ?? MAIN;
    this.agent = options.agent;
    this.#access = new BranchAccess(services, reader, options);
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
    const cursor = this.#access.cursor();
    const { author } = this.#access;
    const { registry } = this.#reader.context;
    const { parent, resetBranch = false } = options;
    const fields = parseSaveOptions(options, registry);
    if (parent === undefined && this.#services.migrations.isEmpty && cursor.isReady && !cursor.isHeld) {
      // The fast path needs no copy, because it compares the caller's object synchronously, before the caller can change it. By
      // freezing the state, an integration promises that no part of it is ever changed.
      const isImmutable = isFromIntegration(options) && Object.isFrozen(state);
      return this.#access.commit(() => cursor.save({ live: state, isImmutable }, fields, author), cursor);
    }
    const copy = valueToShadow(state, registry);
    return this.#access.commit(async () => {
      const versioned = { ...fields, ...(await this.#access.version(cursor)) };
      if (parent === undefined) return cursor.save({ copy }, versioned, author);
      return this.#access.saveAfter(cursor, parent, resetBranch, { copy, options: versioned, agent: this.agent });
    }, cursor);
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
      throw invalidArgument(message);
    }
    const { registry } = this.#reader.context;
    const copies = elements.map((element) => shadowToValue(valueToShadow(element, registry), registry));
    const cursor = this.#access.cursor();
    const fields = parseSaveOptions(options, registry);
    const append = (shadow: Shadow): Shadow => appendToShadow(shadow, keys, copies, registry);
    return this.#access.commitChange(
      cursor,
      fields,
      (state) => appendToValue(state, keys, copies),
      (versioned) => cursor.saveChange(append, versioned, this.#access.author),
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
    const cursor = this.#access.cursor();
    const { registry } = this.#reader.context;
    const apply = change as (state: unknown) => unknown;
    const fields = parseSaveOptions(options, registry);
    const applyFrozen = (state: unknown): unknown => {
      freezeState(state, registry);
      return validateUpdateResult(apply(state));
    };
    return this.#access.commitChange(cursor, fields, applyFrozen, (versioned) =>
      cursor.update(apply, versioned, this.#access.author),
    );
  }

  /**
   * Marks the work on the branch as completed: saves a checkpoint with the state of the head and the status `completed`. Has no
   * effect if the head is completed already. The next save opens the session again.
   *
   * @returns the completed head
   * @throws `CHECKPOINT_NOT_FOUND` if the branch has no checkpoint, `CONFLICT` and `ALREADY_RUNNING` like {@link save}
   * @example
   * await session.complete({ reason: "the customer has confirmed" });
   */
  async complete(options: CompleteOptions = {}): Promise<CheckpointInfo> {
    const { author } = this.#access;
    const fields = parseSaveOptions(
      { ...options, status: "completed", trigger: "complete" },
      this.#reader.context.registry,
    );
    return this.#access.commit(async (cursor) => {
      const heads = await cursor.refresh();
      author.admit(heads);
      const { session, branch } = heads;
      const head = branch?.record.head;
      if (!session || !head) throw nothingToComplete(this.id, this.branch);
      // Its status may have been changed after it was saved.
      const info = await this.#reader.loadInfo(session.record.number, head, session.record.agent);
      if (info.status === "completed") return info;
      const { step, usage, tasksCompleted } = head;
      const inherited = { step, tasksCompleted, ...(usage && { usage }) };
      return cursor.saveChange((shadow) => shadow, { ...inherited, ...fields }, author);
    });
  }

  /**
   * Gives tool calls without a result in the `messages` of the head their result, or removes them, and saves the result as the new
   * head. A crash can leave such calls behind, and models reject a history with them. See `checkpoint.pendingToolCalls`.
   *
   * @param resolution the results by the ids of their calls; `"drop"` removes all calls without a result
   * @returns the new head; the current one if no call is pending
   * @throws `INVALID_ARGUMENT` for an id without a pending call, and for a LangGraph thread, which its graph must update
   * @example
   * await session.resolveToolCalls({ call_1: "The refund was paid." });
   */
  async resolveToolCalls(
    resolution: ToolCallResolution,
    options: Omit<SaveOptions, "parent" | "resetBranch"> = {},
  ): Promise<CheckpointInfo> {
    const head = await this.latest();
    if (!head) throw checkpointNotFound(this.id, `the head of ${this.branch}`);
    const pending = head.pendingToolCalls.map(({ id }) => id);
    rejectUnknownCalls(this.id, resolution, pending);
    if (pending.length === 0) {
      const { state: _state, pendingToolCalls: _calls, holes: _holes, skipped: _skipped, ...info } = head;
      return info;
    }
    if (typeof head.metadata["savepoint:ns"] === "string") throw isGraphThread(this.id);
    const resolve = (state: Readonly<State> | undefined): State => {
      const { messages, ...others } = state as unknown as { readonly messages: readonly unknown[] };
      return { ...others, messages: resolveToolCalls(messages, resolution) } as State;
    };
    return this.update(resolve, { trigger: "resolveToolCalls", ...options });
  }

  /**
   * The newest intact checkpoint of the branch with its state; `undefined` if the branch has no checkpoint. Damaged checkpoints
   * are listed in `skipped`, and the next intact ancestor is returned instead.
   *
   * @throws `DAMAGED` if the branch has checkpoints and none of them is intact
   */
  async latest(): Promise<Checkpoint<State> | undefined> {
    return this.#access.exclusive(async (cursor) => {
      const found = await loadLatestIntact(this.#reader, cursor, (heads) => this.#access.guard.observe(heads));
      return found && this.#checkpoint(found.info, found.shadow, [], found.skipped);
    });
  }

  /** The newest checkpoint of the branch without its state; `undefined` if the branch has no checkpoint. Reads no state. */
  async head(): Promise<CheckpointInfo | undefined> {
    return this.#access.exclusive(async (cursor) => {
      const heads = await cursor.refresh();
      this.#access.guard.observe(heads);
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
    const found = await this.#access.find(ref);
    if (!found) return undefined;
    const { number, row, agent } = found;
    const holes: Hole[] = [];
    try {
      const { sharing } = integrationOptions(options);
      const state = sharing && sharingReader(this.#reader, number, sharing);
      const shadow = await loadShadow(this.#reader, number, row, options.partial ? holes : undefined, state);
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
    return createListing(() => walkHistory(this.#reader, options, () => this.#access.readHeads()));
  }

  /**
   * The same checkpoints as {@link history}, each with what happened since its parent: the tools that were called, the beginning
   * of the model's reply, usage and duration. Reads at most 256 items of the journal for each checkpoint.
   */
  activity(options: HistoryOptions = {}): Listing<CheckpointActivity> {
    const readHeads = (): Promise<Heads> => this.#access.readHeads();
    return createListing(() => readActivities(this.#reader, readHeads, walkHistory(this.#reader, options, readHeads)));
  }

  /**
   * The effects recorded in the current step of the branch. With `all`, the effects of all steps along the history of the branch,
   * oldest first, read page by page; damaged parts are listed as holes. The journal of a pruned checkpoint is removed with it.
   */
  journal(options: JournalOptions & { readonly all: true }): Listing<JournalEntry | JournalHole>;
  journal(options?: JournalOptions & { readonly all?: false }): Listing<JournalEntry>;
  journal(options: JournalOptions = {}): Listing<JournalEntry | JournalHole> {
    return createListing(() => readJournal(this.#reader, this.branch, options, () => this.#access.readHeads()));
  }

  /**
   * The tool calls after a checkpoint that were executed, or whose outcome is unknown, oldest first: on this branch, up to its
   * head and in the unfinished step. A run that continues from the checkpoint, after a rewind or on a fork, may make them again,
   * under new idempotency keys. Calls that an earlier rewind left behind are not listed: that rewind has reported them. Calls in the
   * journals of pruned checkpoints are not known any more.
   */
  async effectsAfter(ref: CheckpointRef): Promise<EffectSummary[]> {
    const { number, row } = await this.#access.require(ref);
    return readEffectsAfter(this.#reader, this.branch, await this.#access.readHeads(), number, row);
  }

  /** The branches of the session with their heads, in the order of their names. */
  branches(): Listing<BranchInfo> {
    const [reader, access] = [this.#reader, this.#access];
    return createListing(async function* () {
      const { session } = await access.readHeads();
      for await (const branch of reader.branches()) {
        const { name, head, headParentId, createdAt, forkedFrom } = branch.record;
        const [notes] = await readHeadNotes(reader.context.store, [{ session, branch }]);
        yield {
          name,
          createdAt,
          forkedFrom,
          head: head && reader.toInfo(head, session?.record.agent, headParentId, notes),
        };
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
    const match = await this.#access.requireRow(ref);
    this.#access.guard.requireAgent(match.agent);
    const { number, row } = match;
    if (copy !== undefined && row.run?.midStep) requireAnsweredToolCalls(this.id, row.seq, state);
    const branch =
      copy !== undefined
        ? await this.#access.forkWithState(match, name, copy, fields)
        : results !== undefined
          ? await forkWithResults(this.#reader, number, row, name, results)
          : await forkAt(this.#reader, number, row, name);
    const agent = this.agent ?? match.agent;
    return new Session<State>(this.#services, this.#reader, { ...(agent !== undefined && { agent }), branch });
  }

  /**
   * Makes the state of an earlier checkpoint the head of this branch again, in one commit. The replaced head is kept as a
   * checkpoint of kind `preOperation`, so rewinding to that checkpoint undoes the rewind.
   *
   * The result lists the tool calls after that checkpoint (see {@link effectsAfter}): a run that continues may make them again.
   *
   * Use this if you have a handle on the session. `sp.checkpoints.restore(id)` does the same given only the id of a checkpoint, on the
   * branch that the checkpoint was saved on; it also restores whole agents and can preview the changes.
   */
  async rewind(ref: CheckpointRef): Promise<RewindInfo> {
    const { number, row } = await this.#access.requireRow(ref);
    const heads = await this.#access.readHeads();
    const effectsAfter = await readEffectsAfter(this.#reader, this.branch, heads, number, row);
    const info = await this.#access.commit((cursor) =>
      rewindBranch(this.#reader, cursor, number, row, this.#access.author),
    );
    return { ...info, effectsAfter };
  }

  /** The changes that lead from one checkpoint to another. Reads only the parts that differ. See `applyChanges`. */
  async diff(from: CheckpointRef, to: CheckpointRef): Promise<Change[]> {
    const [a, b] = [await this.#access.require(from), await this.#access.require(to)];
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
    const { number, row } = await this.#access.requireRow(ref);
    await setLabel(this.#reader, number, row, label);
    this.#requestSweep();
  }

  /** Pins a checkpoint, or unpins it. Pinned checkpoints are never pruned. */
  async pin(ref: CheckpointRef, pinned = true): Promise<void> {
    const { number, row } = await this.#access.requireRow(ref);
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
  async annotate(
    ref: CheckpointRef,
    name: string,
    change: (before: unknown) => unknown,
    options: AnnotateOptions = {},
  ): Promise<void> {
    const status = parseStatusNote(options);
    const { number, row } = await this.#access.requireRow(ref);
    await annotateCheckpoint(this.#reader, number, row, name, change, status);
  }

  /** The annotations of the checkpoints with seqs from `from` to `to`, both included: by seq, then by name. One read. */
  async annotations(from: number, to = from): Promise<Annotations> {
    const { session } = await this.#access.readHeads();
    return session ? readAnnotations(this.#reader, session.record.number, from, to) : new Map();
  }

  /**
   * Removes the checkpoints of this session that no option keeps. Never removes heads, pinned checkpoints, or checkpoints that a
   * branch or a step starts from. Reads no states.
   */
  async prune(options: PruneOptions): Promise<PruneResult> {
    // Called only for its checks: it throws if the store is closed or the session was deleted.
    this.#access.cursor();
    const { cursors } = this.#services;
    return prune(this.#reader.context, { session: this.id }, options, (id) => cursors.invalidateSession(id));
  }

  /**
   * Removes all checkpoints and branches, and returns the number of removed checkpoints. The session itself and its numbering
   * remain.
   */
  async clear(): Promise<number> {
    const cursor = this.#access.cursor();
    const { cursors, runs } = this.#services;
    for await (const { record } of this.#reader.branches()) {
      if (record.held) await runs.release(this.#reader, record.name);
    }
    const { guard } = this.#access;
    return this.#access.exclusive(async () => {
      const removed = await clearSession(this.#reader, (heads) => guard.requireSameSession(heads));
      cursors.invalidateSession(this.id);
      guard.observeClear();
      return removed;
    }, cursor);
  }

  /** Builds the checkpoint that the caller gets, with its state migrated to the current version. */
  async #checkpoint(
    info: CheckpointInfo,
    shadow: Shadow,
    holes: readonly Hole[],
    skipped: readonly SkippedCheckpoint[],
  ): Promise<Checkpoint<State>> {
    const stored = shadowToValue(shadow, this.#reader.context.registry);
    const state = (await migrateLoadedState(this.#access.versionScope, info.agent, info.version, stored)) as State;
    return { ...info, state, pendingToolCalls: pendingToolCalls(state), holes, skipped };
  }

  /** Makes the next save sweep, because a changed label or pin may have made a checkpoint removable. */
  #requestSweep(): void {
    this.#reader.context.sweeps.delete(this.id);
  }
}

/** Validates the ids, and creates a handle on a session. Reads and writes nothing. */
export function openSession<State>(services: Services, id: string, options: SessionOptions): Session<State> {
  const context = services.open();
  checkId(id, "session id");
  validateOptions(options, "sp.session");
  if (options.agent !== undefined) checkId(options.agent, "agent id");
  if (options.branch !== undefined) checkId(options.branch, "branch name");
  return new Session<State>(services, new SessionReader(context, id), options);
}
