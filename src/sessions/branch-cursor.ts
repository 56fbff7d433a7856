/**
 * The save path of a branch. A cursor caches the records of one branch and the shadow of its head's state, and runs all
 * saves of the branch in this process, one after another.
 *
 * The cursor is only a cache: each commit checks the records that it was built on, and after any failure the cursor drops
 * everything and reads again.
 */
import { isSavepointError } from "../errors.js";
import { encodeShadow, freezeState, type Shadow, shadowToValue, type StoredValue } from "../state/index.js";
import { type BranchRecord, type CheckpointInfo, type CheckpointRow, type SessionRecord } from "../records/index.js";
import { forgetAnnotationCounter, planAnnotations, type PlannedAnnotations } from "./annotations.js";
import { branchMoved, idTaken, isExtensionConflict, isIdTaken, notHead, tapeTaken } from "./conflicts.js";
import { loadShadow } from "./load-state.js";
import type { NumberSource } from "./numbers.js";
import { type BranchChange, type BranchSnapshot, planSave, type SaveExtension } from "./plan-save.js";
import { type StateInput, changeShadow, replaceState, type SaveChange, validateUpdateResult } from "./save-change.js";
import type { SaveFields } from "./save-options.js";
import { findSavedCheckpoint, readAfterConflict } from "./after-conflict.js";
import type { SessionCommit } from "./commit.js";
import { damagedHead } from "./errors.js";
import type { Heads, LoadedRecord, SessionReader } from "./reader.js";

/** The writer of a save. */
export interface Author {
  /** The agent that becomes the session's agent if it has none. */
  readonly agent: string | undefined;
  /** Throws if the writer must not build on these records. */
  admit(heads: Heads): void;
}

/** The state that all cursors of a session share: its record after the last commit of this process. */
export interface SharedSession {
  loaded: LoadedRecord<SessionRecord> | undefined;
}

/** The cache and the save queue of one branch. Call its methods inside {@link BranchCursor.exclusive}. */
export class BranchCursor {
  readonly #reader: SessionReader;
  readonly #shared: SharedSession;
  readonly #numbers: NumberSource;
  readonly branchName: string;
  #branch: LoadedRecord<BranchRecord> | undefined;
  /** Whether there was no session when its records were last read. */
  #isNew = false;
  /** The branch that the next save creates. */
  #planned: BranchRecord | undefined;
  /** The parent of the next save, if that is not the head; `row` is `undefined` for no parent. */
  #moved: { readonly row: CheckpointRow | undefined } | undefined;
  #shadow: Shadow | undefined;
  /** The deep-frozen state of the head, as `update` passes it on. Not set if it contains values that cannot be frozen. */
  #frozen: unknown;
  #turn: Promise<unknown> | undefined;
  /** The number of the session that this cursor last read or wrote. */
  sessionNumber: number | undefined;

  constructor(reader: SessionReader, branchName: string, shared: SharedSession, numbers: NumberSource) {
    this.#reader = reader;
    this.branchName = branchName;
    this.#shared = shared;
    this.#numbers = numbers;
  }

  /** Whether a save can compare the caller's state synchronously, before the caller can change it. */
  get isReady(): boolean {
    if (this.#turn || this.#shared.loaded === undefined || this.#branch === undefined) return false;
    return this.#shadow !== undefined || !this.#branch.record.head;
  }

  get isIdle(): boolean {
    return !this.#turn;
  }

  /** Whether the cached record says that a run holds the branch. */
  get isHeld(): boolean {
    return this.#branch?.record.held ?? false;
  }

  /** The approximate memory use of the shadow. */
  get bytes(): number {
    return this.#shadow === undefined ? 0 : 1000 + 2 * (this.#branch?.record.head?.stateBytes ?? 0);
  }

  /** Drops the shadow. It is loaded again when it is needed. */
  evict(): void {
    this.#shadow = undefined;
    this.#frozen = undefined;
  }

  /**
   * Drops all cached records, after the work in progress: that has read a consistent set of records and must not continue
   * with half of it. Its commit fails if they are outdated.
   */
  invalidate(): void {
    if (!this.#turn) this.#reset();
    else void this.exclusive(async () => this.#reset());
  }

  #reset(): void {
    this.evict();
    this.#branch = undefined;
    this.#isNew = false;
    this.#planned = undefined;
    this.#moved = undefined;
    this.#shared.loaded = undefined;
  }

  /** Runs work after all earlier work; synchronously if the cursor is idle. */
  exclusive<T>(work: () => Promise<T>): Promise<T> {
    const before = this.#turn;
    let end = (): void => {};
    const turn = new Promise<void>((resolve) => (end = resolve));
    // Set before the work starts, because the work may call this method again.
    this.#turn = turn;
    const mine = before ? before.then(work) : work();
    const finish = (): void => {
      if (this.#turn === turn) this.#turn = undefined;
      end();
    };
    mine.then(finish, finish);
    return mine;
  }

  /** Resolves when all earlier work is done. */
  async idle(): Promise<void> {
    await this.#turn;
  }

  /** Reads the records, and drops the shadow if the state of the head has changed. */
  async refresh(): Promise<Heads> {
    return this.adopt(await this.#reader.heads(this.branchName));
  }

  /** Caches records that were just read, and drops the shadow if the state of the head has changed. */
  adopt(heads: Heads): Heads {
    const number = heads.session?.record.number;
    // A session that was deleted and created again can be equal in every other respect.
    const isSame = heads.branch?.value === this.#branch?.value || hasSameHead(heads.branch, this.#branch);
    if (!isSame || number !== this.sessionNumber) this.evict();
    this.#branch = heads.branch;
    this.#isNew = heads.session === undefined;
    this.#shared.loaded = heads.session;
    this.sessionNumber = number;
    return heads;
  }

  /** Caches the records of a commit to the branch that was not a save. */
  adoptCommit(built: SessionCommit): void {
    this.#reset();
    this.#branch = built.branch;
    this.#shared.loaded = built.session;
    this.sessionNumber = built.session.record.number;
  }

  /** The cached record of the session. */
  get session(): SessionRecord | undefined {
    return this.#shared.loaded?.record;
  }

  /** The cached head. */
  get head(): CheckpointRow | undefined {
    return this.#branch?.record.head;
  }

  /** The cached shadow of the head's state. */
  get shadow(): Shadow | undefined {
    return this.#shadow;
  }

  /** The cached shadow of the state of `row`, if that is the head of the session with this number. */
  shadowOf(number: number, row: CheckpointRow): Shadow | undefined {
    const isHead = this.sessionNumber === number && this.#branch?.record.head?.id === row.id;
    return isHead ? this.#shadow : undefined;
  }

  /** Caches a loaded shadow, if `row` is still the head. */
  keepShadow(row: CheckpointRow, shadow: Shadow): void {
    if (this.#branch?.record.head?.id === row.id && this.#shadow === undefined) this.#shadow = shadow;
  }

  /** Makes the next save create the branch `record`. */
  prepareNewBranch(session: LoadedRecord<SessionRecord>, record: BranchRecord, shadow: Shadow | undefined): void {
    this.#shared.loaded = session;
    this.#planned = record;
    this.#shadow = shadow;
  }

  /** Makes the next save continue from `row`, or from no checkpoint, instead of the head. */
  prepareReset(row: CheckpointRow | undefined, shadow: Shadow | undefined): void {
    this.evict();
    this.#moved = { row };
    this.#shadow = shadow;
  }

  /** Saves a state as the new head. */
  async save(
    candidate: StateInput,
    options: SaveFields,
    author: Author,
    extension?: SaveExtension,
  ): Promise<CheckpointInfo> {
    const change = replaceState(candidate, this.#reader.context.registry, extension?.recorded);
    const info = await this.#save(change, options, author, extension);
    // The answer to a repeated save can be an older checkpoint than the head whose shadow is cached.
    const isHead = this.#shadow !== undefined && this.head?.id === info.id;
    if (isHead && "live" in candidate && candidate.isImmutable) this.#frozen = candidate.live;
    return info;
  }

  /** Saves the head's shadow after `change` has modified it. */
  saveChange(change: (before: Shadow) => Shadow, options: SaveFields, author: Author): Promise<CheckpointInfo> {
    return this.#save(changeShadow(change), options, author);
  }

  /** Saves the state that `change` returns for the deep-frozen state of the head. */
  async update(
    change: (state: unknown) => unknown,
    options: SaveFields,
    author: Author,
    extension?: SaveExtension,
  ): Promise<CheckpointInfo> {
    const { registry } = this.#reader.context;
    await this.#prepare(author, true);
    let before = this.#frozen;
    if (before === undefined && this.#shadow !== undefined) {
      before = shadowToValue(this.#shadow, registry);
      if (freezeState(before, registry)) this.#frozen = before;
    }
    const pureBefore = this.#frozen;
    const next = validateUpdateResult(change(before));
    const pure = freezeState(next, registry, pureBefore);
    const head = this.#branch?.record.head?.id;
    const number = this.sessionNumber;
    const admit = (heads: Heads): void => {
      author.admit(heads);
      // The state was computed from this head. Saving it on another one would lose the changes of that one.
      const same = heads.branch?.record.head?.id === head && heads.session?.record.number === number;
      if (!same) throw branchMoved(this.#reader.sessionId, this.branchName, heads);
    };
    const info = await this.save({ live: next }, options, { agent: author.agent, admit }, extension);
    if (pure) this.#frozen = next;
    return info;
  }

  /** Loads the records and the shadow of the head. Returns `undefined`, synchronously, if they are cached. */
  #prepare(author: Author, needsState: boolean): Promise<void> | undefined {
    const isCached = this.#planned ?? (this.#isNew || (this.#shared.loaded && this.#branch));
    if (!isCached) return this.#read(author, needsState);
    author.admit({ session: this.#shared.loaded, branch: this.#branch });
    if (this.#moved || !this.#branch?.record.head || this.#shadow !== undefined) return undefined;
    return this.#loadHead(this.#branch, needsState).then((isLoaded) =>
      isLoaded ? undefined : this.#read(author, needsState),
    );
  }

  async #read(author: Author, needsState: boolean): Promise<void> {
    for (;;) {
      const heads = await this.refresh();
      author.admit(heads);
      if (!heads.branch || this.#shadow !== undefined || (await this.#loadHead(heads.branch, needsState))) return;
    }
  }

  /**
   * Loads the shadow of the head; returns `false` if the head has changed. A damaged head is ignored if the save does not
   * need its state: then the complete new state is written.
   */
  async #loadHead({ record, value }: LoadedRecord<BranchRecord>, needsState: boolean): Promise<boolean> {
    const { head } = record;
    if (!head || this.sessionNumber === undefined) return true;
    try {
      this.#shadow = await loadShadow(this.#reader, this.sessionNumber, head);
    } catch (error) {
      const gone = isSavepointError(error, "CHECKPOINT_NOT_FOUND");
      if (!gone && !isSavepointError(error, "DAMAGED")) throw error;
      if (gone && (await this.#reader.heads(this.branchName)).branch?.value !== value) return false;
      this.#reader.reportDamage(head.id, head.seq, error.message);
      if (needsState) throw damagedHead(this.#reader.sessionId, this.branchName, error);
    }
    return true;
  }

  async #save(
    first: SaveChange,
    options: SaveFields,
    author: Author,
    extension?: SaveExtension,
  ): Promise<CheckpointInfo> {
    for (let change = first; ;) {
      try {
        const prepared = this.#prepare(author, change.state === undefined);
        if (prepared) await prepared;
      } catch (error) {
        // The next save, such as one of the run that holds the branch, must not use what was prepared for this save.
        if (this.#planned || this.#moved) this.#reset();
        // A retry of a save that succeeded, but whose answer was lost, is not a conflict.
        const retry = options.id !== undefined && !options.annotations && isSavepointError(error, "CONFLICT");
        const state = retry ? change.state?.() : undefined;
        const saved =
          state === undefined ? undefined : await findSavedCheckpoint(this.#reader, this.branchName, state, options);
        if (saved) return saved;
        throw error;
      }
      const before = this.#shadow;
      const frozen = this.#frozen;
      // From here on the shadow is modified: it is cached again only after the commit has succeeded.
      this.evict();
      const shadow = change.apply(before, frozen);
      const branch = this.#branch?.record ?? this.#planned;
      const added: StoredValue[] | undefined = options.annotations && [];
      const encoded = encodeShadow(shadow, branch?.tape ?? 0, branch?.nextItem ?? 0, added);
      const elsewhere = this.#planned !== undefined || this.#moved !== undefined;
      try {
        const annotated = added && this.#annotate(options, added);
        const more = annotated instanceof Promise ? await annotated : annotated;
        const info = await this.#commit({ encoded, fields: options, agent: author.agent, extension, more }, author);
        this.#shadow = shadow;
        return info;
      } catch (error) {
        this.#reset();
        if (added && this.sessionNumber !== undefined) forgetAnnotationCounter(this.#reader, this.sessionNumber);
        if (!isSavepointError(error, "CONFLICT") || added) throw error;
        const saved = await findSavedCheckpoint(this.#reader, this.branchName, shadow, options);
        if (saved) return saved;
        if (elsewhere || isIdTaken(error) || isExtensionConflict(error)) throw error;
        // Another writer moved the branch. Apply the change to the new head, if the author may build on it.
        change = change.rebase(shadow);
      }
    }
  }

  /** The annotations of the head that are committed with the next checkpoint. @param added what that adds to the state */
  #annotate({ annotations }: SaveFields, added: readonly StoredValue[]): PlannedAnnotations | undefined {
    const { head, hidden } = this.#branch?.record ?? {};
    if (!annotations) return undefined;
    const isHead = head?.seq === annotations.seq && !hidden && !this.#planned && !this.#moved;
    if (!isHead || this.sessionNumber === undefined) throw notHead(annotations.seq);
    return planAnnotations(this.#reader, this.sessionNumber, annotations, added);
  }

  /** Commits an encoded state. After a conflict with another branch of the session it gets the next seq. */
  async #commit(change: BranchChange, author: Author): Promise<CheckpointInfo> {
    const { context } = this.#reader;
    const { fields } = change;
    const [branchBefore, planned, moved] = [this.#branch, this.#planned, this.#moved];
    const exists = branchBefore !== undefined || planned !== undefined;
    // Another branch may have dropped the shared record, and may drop it again after every await.
    let session = this.#shared.loaded;
    if (!session && exists) session = (await this.#reader.heads(this.branchName)).session;
    const number = session?.record.number ?? (await this.#numbers.next());
    if (fields.id !== undefined) {
      const taken = this.#reader.isPlacedIdTaken(number, fields.id);
      if (taken && (await taken)) throw idTaken(fields.id, number);
      if (!this.#shared.loaded && exists) session = (await this.#reader.heads(this.branchName)).session;
    }
    this.#shared.loaded ??= session;
    for (let tries = 1; ; tries++) {
      const sessionBefore = this.#shared.loaded;
      // Another fork of this process may have claimed the tape since, and updated the shared record; or the session was
      // deleted, and its rows only exist because they are not freed yet.
      const isPlanned = sessionBefore?.record.number === number && sessionBefore.record.nextTape === planned?.tape;
      if (planned && !isPlanned) throw tapeTaken(this.branchName);
      const snapshot: BranchSnapshot = {
        sessionId: this.#reader.sessionId,
        name: this.branchName,
        number,
        session: sessionBefore,
        branch: branchBefore,
        planned,
        moved,
      };
      const plan = planSave(snapshot, change, context.now(), context.newId);
      // Other branches of this process build on this record before the commit resolves: the store applies commits in order.
      this.#shared.loaded = plan.session;
      try {
        await context.store.commit(plan.commit);
      } catch (error) {
        this.#shared.loaded = undefined;
        if (!isSavepointError(error, "CONFLICT")) throw error;
        const session = await readAfterConflict(this.#reader, error, snapshot, tries);
        author.admit({ session, branch: branchBefore });
        this.#shared.loaded = session;
        continue;
      }
      this.#branch = plan.branch;
      this.#isNew = false;
      this.#planned = undefined;
      this.#moved = undefined;
      this.sessionNumber = number;
      return this.#reader.toInfo(plan.row, plan.session.record.agent, plan.parentId);
    }
  }
}

/** Pruning changes the parent of a head and nothing else. */
function hasSameHead(a: LoadedRecord<BranchRecord> | undefined, b: LoadedRecord<BranchRecord> | undefined): boolean {
  const [mine, other] = [a?.record.head, b?.record.head];
  if (!mine || !other || a?.record.tape !== b?.record.tape) return false;
  const { json, refs } = mine.skeleton;
  return mine.seq === other.seq && mine.id === other.id && json === other.skeleton.json && refs === other.skeleton.refs;
}
