/**
 * A branch as this process last knew it: its records, and the shadow of its head's state. All saves of a branch go
 * through its cursor, one after another.
 *
 * The cursor is only a memory: each commit checks that what it was built on is still true, and on any failure the cursor
 * forgets everything and reads anew.
 */
import { types } from "node:util";
import { isSavepointError, SavepointError } from "../errors.js";
import {
  type EncodedState,
  encodeShadow,
  freezeState,
  equalsShadow,
  type RecordedValues,
  type Shadow,
  shadowToValue,
} from "../state/index.js";
import {
  type BranchRecord,
  type CheckpointInfo,
  newSessionRecord,
  type CheckpointPlace,
  type CheckpointRow,
  rowKey,
  type RunPosition,
  type SessionRecord,
} from "../records/index.js";
import { branchMoved, idTaken, isExtensionConflict, isIdTaken, isCheckpointRemoved, tapeTaken } from "./conflicts.js";
import { loadShadow } from "./load-state.js";
import { buildRow } from "./new-row.js";
import type { NumberSource } from "./numbers.js";
import { type StateInput, changeShadow, replaceState, type SaveChange } from "./save-change.js";
import { matchesSaveFields, type SaveFields } from "./save-options.js";
import { buildCommit, type SessionCommit, type CommitParts } from "./commit.js";
import { describeBranch } from "./errors.js";
import type { Heads, LoadedRecord, SessionReader } from "./reader.js";

/** Who saves. */
export interface Author {
  /** The agent to note where the session has none yet. */
  readonly agent: string | undefined;
  /** Says whether it may build on these records; throws what to tell its user if not. */
  admit(heads: Heads): void;
}

/** What a run, or a checkpoint of a whole agent, adds to a save. */
export interface SaveExtension {
  /** Keep it out of the history: it is the head until the next checkpoint takes its place. */
  readonly hidden: boolean;
  /** Who may write the branch from now on. */
  readonly epoch: number;
  readonly held: boolean;
  /** Tapes that it takes for itself, the first numbered `tape`. */
  readonly tapes: number;
  /** Results that the state may refer to instead of being a second copy of them. */
  readonly recorded?: RecordedValues;
  /** The rest of the commit, told where the checkpoint will be. */
  build(place: CheckpointPlace & { readonly tape: number }): CommitParts & { readonly run?: RunPosition };
}

/** What the cursors of one session share: its record, as the last commit of this process left it. */
export interface SharedSession {
  loaded: LoadedRecord<SessionRecord> | undefined;
}

/** Records that look right and are refused again and again will always be. */
const MAX_TRIES = 10;

export class BranchCursor {
  readonly #reader: SessionReader;
  readonly #shared: SharedSession;
  readonly #numbers: NumberSource;
  readonly branchName: string;
  #branch: LoadedRecord<BranchRecord> | undefined;
  /** A branch that the next save creates. */
  #planned: BranchRecord | undefined;
  /** What the next save follows instead of the head: a checkpoint, or none. */
  #moved: { readonly row: CheckpointRow | undefined } | undefined;
  #shadow: Shadow | undefined;
  /** The head's state as `update` gave it, deep-frozen; only where nothing in it can be changed after all. */
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

  /** Can a save compare the caller's state at once, before the caller can change it? */
  get isReady(): boolean {
    const known = this.#shared.loaded !== undefined && this.#branch !== undefined;
    return !this.#turn && known && (this.#shadow !== undefined || !this.#branch?.record.head);
  }

  get isIdle(): boolean {
    return !this.#turn;
  }

  /** Has a run the right to write the branch, as far as is known? */
  get isHeld(): boolean {
    return this.#branch?.record.held ?? false;
  }

  /** Roughly the memory that the shadow takes. */
  get bytes(): number {
    return this.#shadow === undefined ? 0 : 1000 + 2 * (this.#branch?.record.head?.stateBytes ?? 0);
  }

  /** Forgets the shadow; it is read again when it is needed. */
  evict(): void {
    this.#shadow = undefined;
    this.#frozen = undefined;
  }

  /**
   * Forgets everything, when what is under way is done: that has read what fits together, and would go on with half of
   * it. Its commit fails by itself if it is no longer true.
   */
  invalidate(): void {
    if (!this.#turn) this.#reset();
    else void this.exclusive(async () => this.#reset());
  }

  #reset(): void {
    this.evict();
    this.#branch = undefined;
    this.#planned = undefined;
    this.#moved = undefined;
    this.#shared.loaded = undefined;
  }

  /** Runs work when all that was asked for before is done; at once, and without a turn of the event loop, if it is. */
  exclusive<T>(work: () => Promise<T>): Promise<T> {
    const before = this.#turn;
    let end = (): void => {};
    const turn = new Promise<void>((resolve) => (end = resolve));
    // Taken before the work begins: it may call what calls us again.
    this.#turn = turn;
    const mine = before ? before.then(work) : work();
    const finish = (): void => {
      if (this.#turn === turn) this.#turn = undefined;
      end();
    };
    mine.then(finish, finish);
    return mine;
  }

  /** Resolves when all that was asked for before is done. */
  async idle(): Promise<void> {
    await this.#turn;
  }

  /** Reads the records, and forgets the shadow if the head has another state. */
  async refresh(): Promise<Heads> {
    const heads = await this.#reader.heads(this.branchName);
    const number = heads.session?.record.number;
    // A session that was deleted and begun again may look the same in every other respect.
    const isSame = heads.branch?.value === this.#branch?.value || hasSameHead(heads.branch, this.#branch);
    if (!isSame || number !== this.sessionNumber) this.evict();
    this.#branch = heads.branch;
    this.#shared.loaded = heads.session;
    this.sessionNumber = number;
    return heads;
  }

  /** Takes over what was committed to the branch by other means than a save. */
  adoptCommit(built: SessionCommit): void {
    this.#reset();
    this.#branch = built.branch;
    this.#shared.loaded = built.session;
    this.sessionNumber = built.session.record.number;
  }

  /** The record of its session, as far as is known. */
  get session(): SessionRecord | undefined {
    return this.#shared.loaded?.record;
  }

  /** The newest checkpoint, as far as is known. */
  get head(): CheckpointRow | undefined {
    return this.#branch?.record.head;
  }

  /** The shadow of the head's state, where this process has it. */
  get shadow(): Shadow | undefined {
    return this.#shadow;
  }

  /** Keeps what was loaded as the shadow of the head, if the head is still that. */
  keepShadow(row: CheckpointRow, shadow: Shadow): void {
    if (this.#branch?.record.head?.id === row.id && this.#shadow === undefined) this.#shadow = shadow;
  }

  /** Prepares a branch that does not exist yet: the next save creates it. */
  prepareNewBranch(session: LoadedRecord<SessionRecord>, record: BranchRecord, shadow: Shadow | undefined): void {
    this.#shared.loaded = session;
    this.#planned = record;
    this.#shadow = shadow;
  }

  /** Prepares a branch that was just read for going on from another checkpoint, or from none: the next save does. */
  prepareReset(row: CheckpointRow | undefined, shadow: Shadow | undefined): void {
    this.evict();
    this.#moved = { row };
    this.#shadow = shadow;
  }

  /** Saves a state as the new head. */
  save(candidate: StateInput, options: SaveFields, author: Author, extension?: SaveExtension): Promise<CheckpointInfo> {
    const change = replaceState(candidate, this.#reader.context.registry, extension?.recorded);
    return this.#save(change, options, author, extension);
  }

  /** Saves what `change` makes of the shadow itself. */
  saveChange(change: (before: Shadow) => Shadow, options: SaveFields, author: Author): Promise<CheckpointInfo> {
    return this.#save(changeShadow(change), options, author);
  }

  /** Saves what `change` gives for the head's state, which it gets deep-frozen. */
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
      // Made of one head, it must not be saved on another: what that one brought would be lost.
      const same = heads.branch?.record.head?.id === head && heads.session?.record.number === number;
      if (!same) throw branchMoved(this.#reader.sessionId, this.branchName, heads);
    };
    const info = await this.save({ live: next }, options, { agent: author.agent, admit }, extension);
    if (pure) this.#frozen = next;
    return info;
  }

  get #name(): string {
    return describeBranch(this.#reader.sessionId, this.branchName);
  }

  /** Knows the records and the shadow of the head. Does not wait for anything where it knows them already. */
  #prepare(author: Author, needsState: boolean): Promise<void> | undefined {
    if (!this.#planned && !(this.#shared.loaded && this.#branch)) return this.#read(author, needsState);
    author.admit({ session: this.#shared.loaded, branch: this.#branch });
    if (this.#moved || !this.#branch?.record.head || this.#shadow !== undefined) return undefined;
    return this.#loadHead(this.#branch, needsState).then((found) =>
      found ? undefined : this.#read(author, needsState),
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
   * Loads the shadow of the head; `false` where the head is another one by now. A damaged one is done without where only
   * a whole state is to be saved on top of it: all of that is written anew.
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
      if (needsState) throw damagedHead(this.#name, error);
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
        // What is only asked for again, because nobody heard the answer, is there already and no conflict.
        const retry = options.id !== undefined && isSavepointError(error, "CONFLICT");
        const state = retry ? change.state?.() : undefined;
        const saved = state === undefined ? undefined : await this.#findSaved(state, options);
        if (saved) return saved;
        throw error;
      }
      const before = this.#shadow;
      const frozen = this.#frozen;
      // From here on the shadow is being changed: it is kept only when the commit has succeeded.
      this.evict();
      const shadow = change.apply(before, frozen);
      const branch = this.#branch?.record ?? this.#planned;
      const encoded = encodeShadow(shadow, branch?.tape ?? 0, branch?.nextItem ?? 0);
      const elsewhere = this.#planned !== undefined || this.#moved !== undefined;
      try {
        const info = await this.#commit(encoded, options, author, extension);
        this.#shadow = shadow;
        return info;
      } catch (error) {
        this.#reset();
        if (!isSavepointError(error, "CONFLICT")) throw error;
        const saved = await this.#findSaved(shadow, options);
        if (saved) return saved;
        if (elsewhere || isIdTaken(error) || isExtensionConflict(error)) throw error;
        // The branch moved under us: if the author may build on its new head, that is what comes next.
        change = change.rebase(shadow);
      }
    }
  }

  /** Commits an encoded state, numbering it anew for as long as only other branches of the session are in the way. */
  async #commit(
    encoded: EncodedState,
    options: SaveFields,
    author: Author,
    extension: SaveExtension | undefined,
  ): Promise<CheckpointInfo> {
    const { context, sessionId } = this.#reader;
    const [branchBefore, planned, moved] = [this.#branch, this.#planned, this.#moved];
    // What branches share, another one may have forgotten, and may forget again at every turn.
    const exists = branchBefore !== undefined || planned !== undefined;
    let known = this.#shared.loaded;
    if (!known && exists) known = (await this.#reader.heads(this.branchName)).session;
    const number = known?.record.number ?? (await this.#numbers.next());
    if (options.id !== undefined) {
      if (await this.#reader.isPlacedIdTaken(number, options.id)) throw idTaken(options.id, number);
      if (!this.#shared.loaded && exists) known = (await this.#reader.heads(this.branchName)).session;
    }
    this.#shared.loaded ??= known;
    for (let tries = 1; ; tries++) {
      const sessionBefore = this.#shared.loaded;
      // Another fork of this process may have taken the tape since it was planned, and told us its session; or the session
      // that it was planned in is deleted, and its rows are only there because they are not freed yet.
      const isPlanned = sessionBefore?.record.number === number && sessionBefore.record.nextTape === planned?.tape;
      if (planned && !isPlanned) throw tapeTaken(this.branchName);
      const now = context.now();
      const base = sessionBefore?.record ?? newSessionRecord(number, now);
      const found: BranchRecord = branchBefore?.record ??
        planned ?? {
          name: this.branchName,
          tape: 0,
          nextItem: 0,
          epoch: 0,
          held: false,
          hidden: false,
          createdAt: now,
          forkedFrom: undefined,
          head: undefined,
          headParentId: undefined,
        };
      const branch: BranchRecord = moved ? { ...found, head: moved.row, hidden: false } : found;
      const nextTape = planned ? planned.tape + 1 : base.nextTape;
      const more = extension?.build({ number, seq: base.nextSeq, tape: nextTape });
      const row = buildRow({ number, seq: base.nextSeq, branch }, encoded, options, context.newId, now, more?.run);
      // A hidden head becomes part of the history when a checkpoint in the middle of its step does.
      const stays = moved ? found.hidden : branch.hidden && row.parent === branch.head?.seq;
      const shown = stays && found.head ? [found.head] : [];
      const parentId = branch.hidden && shown.length === 0 ? branch.headParentId : branch.head?.id;
      const built = buildCommit({
        sessionId,
        sessionBefore,
        session: {
          ...base,
          agent: base.agent ?? author.agent,
          nextSeq: base.nextSeq + 1,
          nextTape: nextTape + (extension?.tapes ?? 0),
        },
        branchBefore,
        branch: {
          ...branch,
          nextItem: branch.nextItem + encoded.items.length,
          epoch: extension?.epoch ?? branch.epoch,
          held: extension?.held ?? false,
          hidden: extension?.hidden ?? false,
          head: row,
          headParentId: parentId,
        },
        rows: extension?.hidden ? shown : [...shown, row],
        items: encoded.items,
        blobs: encoded.blobs,
        requiredRows: [planned?.head, moved?.row].flatMap((built) => (built ? [built.seq] : [])),
        hasChosenId: options.id !== undefined,
        ...(more && { extension: more }),
      });
      // Other branches of this process go on from here at once; the store applies commits in order.
      this.#shared.loaded = built.session;
      try {
        await context.store.commit(built.commit);
      } catch (error) {
        this.#shared.loaded = undefined;
        if (!isSavepointError(error, "CONFLICT")) throw error;
        const session = await this.#afterConflict(error, base, { sessionBefore, branchBefore, planned, tries });
        author.admit({ session, branch: branchBefore });
        this.#shared.loaded = session;
        continue;
      }
      this.#branch = built.branch;
      this.#planned = undefined;
      this.#moved = undefined;
      this.sessionNumber = number;
      return this.#reader.toInfo(row, built.session.record.agent, parentId);
    }
  }

  /** The session to number a save by after a conflict, if only other branches were in the way; else throws. */
  async #afterConflict(
    conflict: SavepointError,
    base: SessionRecord,
    built: BuiltOn,
  ): Promise<LoadedRecord<SessionRecord> | undefined> {
    const { sessionBefore, branchBefore, planned, tries } = built;
    const { session, branch } = await this.#reader.heads(this.branchName);
    const moved = branch?.value !== branchBefore?.value || (session?.record.number ?? base.number) !== base.number;
    const gone = (!session && sessionBefore !== undefined) || isCheckpointRemoved(conflict);
    const tapeTaken = planned !== undefined && session?.record.nextTape !== planned.tape;
    if (moved || gone || isIdTaken(conflict) || isExtensionConflict(conflict) || tapeTaken) throw conflict;
    if (session?.value !== sessionBefore?.value || tries < MAX_TRIES) return session;
    throw new SavepointError("DAMAGED", `${this.#name} cannot go on: its records disagree with what is stored.`, {
      cause: conflict,
    });
  }

  /** The checkpoint with the id of these options, if it is there and says the same; `undefined` if there is none. */
  async #findSaved(shadow: Shadow, options: SaveFields): Promise<CheckpointInfo | undefined> {
    const { registry, store } = this.#reader.context;
    if (options.id === undefined) return undefined;
    const { session } = await this.#reader.heads(this.branchName);
    const row = session && (await this.#reader.find(session.record.number, options.id, undefined));
    if (!session || row?.id !== options.id) return undefined;
    const saved = await loadShadow(this.#reader, session.record.number, row);
    const info = await this.#reader.loadInfo(session.record.number, row, session.record.agent);
    if (
      equalsShadow(saved, shadowToValue(shadow, registry), registry) &&
      matchesSaveFields(row, info.parentId, options)
    ) {
      // Whoever wrote it may not have made it durable yet, or may have failed to: this commit does, or says so.
      await store.commit({ checks: [{ key: rowKey(session.record.number, row.seq), exists: true }] });
      return info;
    }
    throw new SavepointError(
      "CONFLICT",
      `Checkpoint ${JSON.stringify(options.id)} exists already, with other content. Save it under another id.`,
    );
  }
}

/** Pruning changes what a head follows, and nothing else about it. */
function hasSameHead(a: LoadedRecord<BranchRecord> | undefined, b: LoadedRecord<BranchRecord> | undefined): boolean {
  const [mine, other] = [a?.record.head, b?.record.head];
  if (!mine || !other || a?.record.tape !== b?.record.tape) return false;
  const { json, refs } = mine.skeleton;
  return mine.seq === other.seq && mine.id === other.id && json === other.skeleton.json && refs === other.skeleton.refs;
}

/** What the function given to `update` has returned, if that is a state. */
export function validateUpdateResult(next: unknown): unknown {
  if (next !== undefined && !types.isPromise(next)) return next;
  const wrong = next === undefined ? "nothing" : "a promise";
  throw new SavepointError(
    "INVALID_ARGUMENT",
    `The function given to update() returned ${wrong}. Return the next state at once; wait for what it needs before you call update().`,
  );
}

/** What a commit was built on. */
interface BuiltOn {
  readonly sessionBefore: LoadedRecord<SessionRecord> | undefined;
  readonly branchBefore: LoadedRecord<BranchRecord> | undefined;
  readonly planned: BranchRecord | undefined;
  readonly tries: number;
}

function damagedHead(name: string, cause: SavepointError): SavepointError<"DAMAGED"> {
  const advice = "latest() gives the newest whole state; save() that one, and the branch goes on from it.";
  return new SavepointError("DAMAGED", `${name} cannot be changed: ${cause.message} ${advice}`, { cause });
}
