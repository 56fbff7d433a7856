/** One line of work of an agent: its checkpoints, and what can be done with them. */
import { isSavepointError, SavepointError } from "../errors.js";
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
import {
  agentMismatch,
  setLabel,
  type Annotations,
  setPin,
  annotateCheckpoint,
  type Author,
  saveAsRoot,
  branchNotEmpty,
  type BranchCursor,
  BranchHeldError,
  type BranchInfo,
  branchMoved,
  branchNotFound,
  requireAnsweredToolCalls,
  checkpointNotFound,
  validateUpdateResult,
  clearSession,
  type Cursors,
  declaredVersion,
  findRow,
  loadLatestIntact,
  forkAt,
  type ForkOptions,
  forkWithState,
  type RowMatch,
  type Heads,
  type HistoryOptions,
  type LoadOptions,
  loadShadow,
  migrateLoadedState,
  type Migrations,
  saveWithReset,
  parentNotHead,
  readAnnotations,
  readHeadNotes,
  rewindBranch,
  saveMigrated,
  saveOnHead,
  sessionDeleted,
  type SessionOptions,
  type SessionReader,
  materializeHead,
  stateWithResults,
  type SaveFields,
  parseSaveOptions,
  versionForSave,
  type VersionScope,
  walkHistory,
} from "../sessions/index.js";
import {
  checkBranchName,
  type Checkpoint,
  type CheckpointInfo,
  type CheckpointRef,
  MAIN,
  type CheckpointRow,
  type SaveOptions,
  type SkippedCheckpoint,
} from "../records/index.js";
import { createListing, type Listing } from "../util/index.js";
import { pendingToolCalls } from "../messages/index.js";
import { enforceRetention, prune, type PruneOptions, type PruneResult } from "../retention/index.js";

/** What a handle needs of the Savepoint it came from. */
export interface SessionHost {
  readonly cursors: Cursors;
  readonly migrations: Migrations;
  /** Rises when the session is deleted by this process. */
  generation(sessionId: string): number;
  checkOpen(): void;
  /** Takes a branch from a run whose lease is over; `ALREADY_RUNNING` if it is not. */
  release(reader: SessionReader, branch: string): Promise<void>;
  /** Opens a branch on which tools have answered something else. Returns its name. */
  forkWithResults(
    reader: SessionReader,
    number: number,
    row: CheckpointRow,
    name: string | undefined,
    results: Readonly<Record<string, unknown>>,
  ): Promise<string>;
}

/** What a handle has seen of its session: its number, if there was one, and the head of its branch. */
interface Seen {
  readonly number: number | undefined;
  readonly head: string | undefined;
  readonly seq: number;
}

/**
 * A handle on a session. Making one reads and writes nothing.
 *
 * A handle remembers the head it last saw: if another writer has moved the branch since, saving is `CONFLICT` until
 * `latest()` or `head()` has looked again. A handle that has not looked yet builds on whatever is there.
 */
export class Session<State = unknown> {
  readonly id: string;
  readonly branch: string;
  readonly agent: string | undefined;
  readonly #host: SessionHost;
  readonly #reader: SessionReader;
  readonly #named: boolean;
  readonly #generation: number;
  readonly #author: Author;
  /** `undefined` while it has not looked. */
  #seen: Seen | undefined;

  /** Use `sp.session(id)`. */
  constructor(host: SessionHost, reader: SessionReader, options: SessionOptions) {
    this.#host = host;
    this.#reader = reader;
    this.id = reader.sessionId;
    this.branch = options.branch ?? MAIN;
    this.agent = options.agent;
    this.#named = options.branch !== undefined;
    this.#generation = host.generation(this.id);
    this.#author = { agent: options.agent, admit: (heads) => this.#admit(heads) };
  }

  /**
   * Saves a state as the new head of the branch. The whole state is handed over, only what changed is written.
   *
   * The state is read before this returns; changing it afterwards does not change what is saved.
   */
  async save(state: State, options: SaveOptions = {}): Promise<CheckpointInfo> {
    const cursor = this.#cursor();
    const { registry } = this.#reader.context;
    const { parent } = options;
    const taken = parseSaveOptions(options, registry);
    const versioned = !this.#host.migrations.isEmpty;
    if (parent === undefined && !versioned && cursor.isReady && !cursor.isHeld) {
      return this.#make(cursor, async () => this.#noted(await cursor.save({ live: state }, taken, this.#author)));
    }
    const copy = valueToShadow(state, registry);
    return this.#make(cursor, async () => {
      const said = { ...taken, ...(await this.#version(cursor)) };
      if (parent === null) return this.#saveFirst(cursor, copy, said, options.resetBranch ?? false);
      if (parent !== undefined) return this.#saveAfter(cursor, parent, copy, said, options.resetBranch ?? false);
      return this.#noted(await cursor.save({ copy }, said, this.#author));
    });
  }

  /**
   * Adds elements to an array in the state and saves that. Costs what is added, whatever the size of the state.
   *
   * @param path JSON pointer to the array, such as `"/messages"`
   */
  async append(
    path: string,
    elements: readonly unknown[],
    options: Omit<SaveOptions, "parent" | "resetBranch"> = {},
  ): Promise<CheckpointInfo> {
    const keys = parsePointer(path);
    if (!Array.isArray(elements)) {
      const message = `append(${JSON.stringify(path)}, …) needs an array of what is added: append(path, [element]).`;
      throw new SavepointError("INVALID_ARGUMENT", message);
    }
    const { registry } = this.#reader.context;
    const copies = elements.map((element) => shadowToValue(valueToShadow(element, registry), registry));
    const cursor = this.#cursor();
    const change = (shadow: Shadow): Shadow => appendToShadow(shadow, keys, copies, registry);
    const taken = parseSaveOptions(options, registry);
    return this.#make(cursor, async () => {
      const said = { ...taken, ...(await this.#version(cursor)) };
      const addTo = (state: unknown): unknown => appendToValue(state, keys, copies);
      const migrated = await saveMigrated(this.#reader, cursor, this.#versions(), addTo, said, this.#author);
      return this.#noted(migrated ?? (await cursor.saveChange(change, said, this.#author)));
    });
  }

  /**
   * Saves what `change` makes of the head's state. It gets the state deep-frozen and returns the next one, sharing with
   * it what stays; what it returns is frozen too. Only what is new is looked at. If another writer moves the branch
   * meanwhile, nothing is saved and it is `CONFLICT`.
   *
   * @param change gets `undefined` where nothing was saved yet
   */
  async update(
    change: (state: Readonly<State> | undefined) => State,
    options: Omit<SaveOptions, "parent" | "resetBranch"> = {},
  ): Promise<CheckpointInfo> {
    const cursor = this.#cursor();
    const apply = change as (state: unknown) => unknown;
    const taken = parseSaveOptions(options, this.#reader.context.registry);
    return this.#make(cursor, async () => {
      const said = { ...taken, ...(await this.#version(cursor)) };
      const update = (before: unknown): unknown => {
        freezeState(before, this.#reader.context.registry);
        return validateUpdateResult(apply(before));
      };
      const migrated = await saveMigrated(this.#reader, cursor, this.#versions(), update, said, this.#author);
      return this.#noted(migrated ?? (await cursor.update(apply, said, this.#author)));
    });
  }

  /**
   * The newest checkpoint of the branch with its state; `undefined` if nothing was ever saved.
   *
   * A damaged one is stepped over, back along its parents, to the newest that is whole; `skipped` says which. If there
   * is none, it is `DAMAGED`: that is not the same as nothing saved.
   */
  async latest(): Promise<Checkpoint<State> | undefined> {
    const cursor = this.#cursor();
    return this.#write(cursor, async () => {
      const found = await loadLatestIntact(this.#reader, cursor, (heads) => this.#see(heads));
      return found && this.#checkpoint(found.info, found.shadow, [], found.skipped);
    });
  }

  /** The newest checkpoint of the branch without its state; `undefined` if nothing was ever saved. */
  async head(): Promise<CheckpointInfo | undefined> {
    const cursor = this.#cursor();
    return this.#write(cursor, async () => {
      const heads = await cursor.refresh();
      this.#see(heads);
      const { session, branch } = heads;
      if (!session || !branch?.record.head) return undefined;
      const { head, headParentId } = branch.record;
      const notes = await this.#reader.notes(session.record.number, head.seq, head.seq);
      return this.#reader.toInfo(head, session.record.agent, headParentId, notes.get(head.seq));
    });
  }

  /** A checkpoint with its state, by id, `session#seq`, step, label or seq; `undefined` if there is none. */
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

  /** The checkpoints of the branch back along their parents, newest first, without their states. */
  history(options: HistoryOptions = {}): Listing<CheckpointInfo> {
    return createListing(() => walkHistory(this.#reader, options, () => this.#readHeads()));
  }

  /** The branches of the session. */
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
   * Opens a branch at a checkpoint and returns a handle on it. Costs one record; with `state`, a save more.
   */
  async fork(ref: CheckpointRef, options: ForkOptions<State> = {}): Promise<Session<State>> {
    const { branch: name, state, results, ...saveOptions } = options;
    const { registry } = this.#reader.context;
    if (name !== undefined) checkBranchName(name);
    if (state !== undefined && results !== undefined) throw stateWithResults();
    const copy = state === undefined ? undefined : valueToShadow(state, registry);
    const taken = parseSaveOptions(saveOptions, registry);
    const { number, row, agent: owner } = await this.#requireRow(ref);
    this.#checkAgent(owner);
    let branch: string;
    if (copy !== undefined) {
      if (row.run?.midStep) requireAnsweredToolCalls(this.id, row.seq, state);
      // What was used and done so far counts for the new branch too.
      const inherited = {
        ...(row.run?.midStep && { step: row.step }),
        ...(row.usage && { usage: row.usage }),
        ...declaredVersion(this.#versions(), owner),
      };
      const made = await this.#forkWithState(number, row, name, copy, { ...inherited, ...taken });
      await enforceRetention(this.#reader, this.#host.cursors.get(this.#reader, made.branch), made);
      ({ branch } = made);
    } else if (results === undefined) branch = await forkAt(this.#reader, number, row, name);
    else branch = await this.#host.forkWithResults(this.#reader, number, row, name, results);
    const agent = this.agent === undefined ? {} : { agent: this.agent };
    return new Session<State>(this.#host, this.#reader, { ...agent, branch });
  }

  /**
   * Goes back: the state of an earlier checkpoint becomes the newest again. The head is kept first, as a checkpoint of
   * kind `preOperation`; nothing is lost. One transaction.
   */
  async rewind(ref: CheckpointRef): Promise<CheckpointInfo> {
    const { number, row } = await this.#requireRow(ref);
    const cursor = this.#cursor();
    return this.#make(cursor, async () =>
      this.#noted(await rewindBranch(this.#reader, cursor, number, row, this.#author)),
    );
  }

  /** What changed from one checkpoint to another. Reads only what differs. */
  async diff(from: CheckpointRef, to: CheckpointRef): Promise<Change[]> {
    const [a, b] = [await this.#require(from), await this.#require(to)];
    try {
      return await diffStates(a.row, b.row, this.#reader.stateReader(a.number), this.#reader.context.registry);
    } catch (error) {
      if (!isSavepointError(error, "DAMAGED")) throw error;
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

  /** Gives a checkpoint a label, or takes it away with `undefined`. */
  async label(ref: CheckpointRef, label: string | undefined): Promise<void> {
    const { number, row } = await this.#requireRow(ref);
    await setLabel(this.#reader, number, row, label);
    this.#reader.context.sweeps.delete(this.id);
  }

  /**
   * Attaches a value to a checkpoint under a name, beside its state: it goes when the checkpoint goes. What is attached
   * later may take its place.
   *
   * @param change gets what is attached under the name, `undefined` if nothing is; what it returns takes its place, and
   *   `undefined` takes it away. Called again where another writer was faster, so it must not wait for anything
   */
  async annotate(ref: CheckpointRef, name: string, change: (before: unknown) => unknown): Promise<void> {
    const { number, row } = await this.#requireRow(ref);
    await annotateCheckpoint(this.#reader, number, row, name, change);
  }

  /** What is attached to the checkpoints from one seq to another, both included: by seq, then by name. One read. */
  async annotations(from: number, to = from): Promise<Annotations> {
    const { session } = await this.#readHeads();
    return session ? readAnnotations(this.#reader, session.record.number, from, to) : new Map();
  }

  /** Pins a checkpoint, so that pruning never removes it; or unpins it. */
  async pin(ref: CheckpointRef, pinned = true): Promise<void> {
    const { number, row } = await this.#requireRow(ref);
    await setPin(this.#reader, number, row, pinned);
    this.#reader.context.sweeps.delete(this.id);
  }

  /**
   * Removes the checkpoints of this session that none of the options wants to keep. Heads, pinned ones, and those that a
   * branch or a step starts from always stay. Reads no states.
   */
  async prune(options: PruneOptions): Promise<PruneResult> {
    this.#cursor();
    const reset = (sessionId: string): void => this.#host.cursors.invalidateSession(sessionId);
    return prune(this.#reader.context, { session: this.id }, options, reset);
  }

  /** Removes all checkpoints and branches. The session lives on, and numbers its checkpoints onwards. Returns how many. */
  async clear(): Promise<number> {
    const cursor = this.#cursor();
    for await (const { record } of this.#reader.branches()) {
      if (record.held) await this.#host.release(this.#reader, record.name);
    }
    return this.#write(cursor, async () => {
      const removed = await clearSession(this.#reader, (heads) => this.#bind(heads));
      this.#host.cursors.invalidateSession(this.id);
      if (this.#seen) this.#seen = { number: this.#seen.number, head: undefined, seq: -1 };
      return removed;
    });
  }

  #cursor(): BranchCursor {
    this.#host.checkOpen();
    if (this.#generation !== this.#host.generation(this.id)) throw sessionDeleted(this.id);
    return this.#host.cursors.get(this.#reader, this.branch);
  }

  /** Runs work that makes a checkpoint on the cursor, and removes others where it is one too many. */
  async #make(cursor: BranchCursor, work: () => Promise<CheckpointInfo>): Promise<CheckpointInfo> {
    const made = await this.#write(cursor, work);
    await enforceRetention(this.#reader, cursor, made);
    return made;
  }

  /** Runs work on the cursor, alone; a second time if a run that is over had the branch. */
  async #write<T>(cursor: BranchCursor, work: () => Promise<T>): Promise<T> {
    try {
      return await cursor.exclusive(work);
    } catch (error) {
      if (!(error instanceof BranchHeldError)) throw error;
      await this.#host.release(this.#reader, this.branch);
      return await cursor.exclusive(async () => {
        await cursor.refresh();
        return work();
      });
    } finally {
      this.#host.cursors.enforceBudget(cursor);
    }
  }

  /** Saves what follows nothing: on this branch if it is empty or may move, or on a new one. */
  async #saveFirst(cursor: BranchCursor, copy: Shadow, options: SaveFields, move: boolean): Promise<CheckpointInfo> {
    const heads = await cursor.refresh();
    this.#see(heads);
    const { session, branch } = heads;
    this.#checkAgent(session?.record.agent);
    const first = { copy, options, agent: this.agent };
    if (branch?.record.head) {
      if (move && session) {
        return this.#noted(await saveWithReset(this.#reader, cursor, session.record.number, undefined, first));
      }
      if (!this.#named) return saveAsRoot(this.#reader, this.#host.cursors, undefined, first);
      throw branchNotEmpty(this.id, this.branch);
    }
    if (branch || this.branch === MAIN) return this.#noted(await cursor.save({ copy }, options, this.#author));
    return this.#noted(await saveAsRoot(this.#reader, this.#host.cursors, cursor, first));
  }

  /** Saves on this branch, on another whose head the parent is, or on a new one. */
  async #saveAfter(
    cursor: BranchCursor,
    parent: string,
    copy: Shadow,
    options: SaveFields,
    move: boolean,
  ): Promise<CheckpointInfo> {
    const heads = await cursor.refresh();
    this.#see(heads);
    const { session, branch } = heads;
    this.#checkAgent(session?.record.agent);
    const row = session && (await this.#reader.find(session.record.number, parent, undefined));
    if (!session || !row) throw checkpointNotFound(this.id, parent);
    const own = row.branch === this.branch || branch?.record.head?.seq === row.seq;
    const target = own ? cursor : this.#host.cursors.get(this.#reader, row.branch);
    const { number } = session.record;
    const extend = (): Promise<CheckpointInfo | undefined> =>
      saveOnHead(target, number, row, copy, options, this.agent);
    const extended = own ? await extend() : this.#named || move ? undefined : await target.exclusive(extend);
    if (extended) return own ? this.#noted(extended) : extended;
    if (move) {
      if (!branch) throw branchNotFound(this.id, this.branch);
      return this.#noted(await saveWithReset(this.#reader, cursor, number, row, { copy, options, agent: this.agent }));
    }
    if (!this.#named) return this.#forkWithState(number, row, undefined, copy, options);
    throw parentNotHead(this.id, this.branch, parent);
  }

  #forkWithState(
    number: number,
    row: CheckpointRow,
    name: string | undefined,
    copy: Shadow,
    options: SaveFields,
  ): Promise<CheckpointInfo> {
    return forkWithState(this.#reader, this.#host.cursors, number, row, name, copy, options, this.agent);
  }

  /** May this handle build on these records? */
  #admit(heads: Heads): void {
    this.#bind(heads);
    const { session, branch } = heads;
    this.#checkAgent(session?.record.agent);
    if (!branch && this.branch !== MAIN) throw branchNotFound(this.id, this.branch);
    if (branch?.record.held) throw new BranchHeldError(this.id, this.branch);
    if (this.#seen && this.#seen.head !== branch?.record.head?.id) throw branchMoved(this.id, this.branch, heads);
  }

  #checkAgent(owner: string | undefined): void {
    if (owner === undefined || this.agent === undefined || owner === this.agent) return;
    throw agentMismatch(this.id, owner, this.agent);
  }

  /** A handle stays with the session it first met: one that was deleted since is refused. */
  #bind({ session }: Heads): void {
    const other = this.#seen?.number !== undefined && session?.record.number !== this.#seen.number;
    if (other || this.#generation !== this.#host.generation(this.id)) throw sessionDeleted(this.id);
  }

  #see(heads: Heads): void {
    this.#bind(heads);
    const head = heads.branch?.record.head;
    this.#seen = { number: heads.session?.record.number, head: head?.id, seq: head?.seq ?? -1 };
  }

  /** Notes a checkpoint that this handle has made; not one that was there before and only asked for again. */
  #noted(info: CheckpointInfo): CheckpointInfo {
    const number = this.#host.cursors.get(this.#reader, this.branch).sessionNumber;
    const made = info.branch === this.branch && info.seq > (this.#seen?.seq ?? -1);
    if (made) this.#seen = { number, head: info.id, seq: info.seq };
    return info;
  }

  async #readHeads(): Promise<Heads> {
    const cursor = this.#cursor();
    await cursor.idle();
    const heads = await this.#reader.heads(this.branch);
    this.#bind(heads);
    return heads;
  }

  #find(ref: CheckpointRef): Promise<RowMatch | undefined> {
    return findRow(this.#reader, () => this.#readHeads(), ref);
  }

  async #require(ref: CheckpointRef): Promise<RowMatch> {
    const found = await this.#find(ref);
    if (!found) throw checkpointNotFound(this.id, ref);
    return found;
  }

  /** The same, and it has a row of its own to build on. */
  async #requireRow(ref: CheckpointRef): Promise<RowMatch> {
    const found = await this.#require(ref);
    if (!found.hidden) return found;
    await materializeHead(this.#reader, found.number, found.row);
    await enforceRetention(this.#reader, this.#cursor(), found.row);
    return found;
  }

  async #checkpoint(
    info: CheckpointInfo,
    shadow: Shadow,
    holes: readonly Hole[],
    skipped: readonly SkippedCheckpoint[],
  ): Promise<Checkpoint<State>> {
    const stored = shadowToValue(shadow, this.#reader.context.registry);
    const state = (await migrateLoadedState(this.#versions(), info.agent, info.version, stored)) as State;
    return { ...info, state, pendingToolCalls: pendingToolCalls(state), holes, skipped };
  }

  /** The version of what is saved next, where migrations are declared. */
  async #version(cursor: BranchCursor): Promise<{ readonly version?: number }> {
    return this.#host.migrations.isEmpty ? {} : versionForSave(await cursor.refresh(), this.#versions());
  }

  #versions(): VersionScope {
    return { sessionId: this.id, agent: this.agent, migrations: this.#host.migrations };
  }
}
