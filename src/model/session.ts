/** One line of work of an agent: its checkpoints, and what can be done with them. */
import { isSavepointError, SavepointError } from "../errors.js";
import { appendToShadow } from "../state/append.js";
import type { Change } from "../state/change.js";
import { cloneValue } from "../state/clone.js";
import type { Hole } from "../state/decode.js";
import { diffStates } from "../state/diff.js";
import { parsePointer } from "../state/pointer.js";
import type { Shadow } from "../state/shadow.js";
import { shadowToValue } from "../state/value.js";
import type { BranchCursor } from "./branch-cursor.js";
import { type BranchInfo, forkAt, forkWithState, rewindBranch } from "./branches.js";
import type { Checkpoint, CheckpointInfo, CheckpointRef, SaveOptions, SkippedCheckpoint } from "./checkpoint.js";
import { clearSession } from "./clear.js";
import type { Cursors } from "./cursors.js";
import { type HistoryOptions, walkHistory } from "./history.js";
import { checkBranchName } from "./ids.js";
import { findWhole } from "./latest.js";
import { createListing, type Listing } from "./listing.js";
import { loadShadow } from "./load-state.js";
import { attachLabel, attachPin } from "./notes.js";
import { MAIN, type Row } from "./records.js";
import type { Heads, SessionReader } from "./session-reader.js";

/** How a session is opened. */
export interface SessionOptions {
  /** The agent whose work it is. Naming one creates none; a session belongs to the first agent that saves in it. */
  readonly agent?: string;
  /**
   * The branch to work on.
   * @default "main"
   */
  readonly branch?: string;
}

/** How a checkpoint is loaded. */
export interface LoadOptions {
  /**
   * Return what is left of a damaged state, with its holes named, instead of failing with `DAMAGED`.
   * @default false
   */
  readonly partial?: boolean;
}

/** How a branch is made. */
export interface ForkOptions<State = unknown> extends Omit<SaveOptions, "parent"> {
  /** @default a generated name that begins with "~" */
  readonly branch?: string;
  /** A state to start the branch with, saved as its first checkpoint. Without it the branch starts at the checkpoint itself. */
  readonly state?: State;
}

/** What a handle needs of the Savepoint it came from. */
export interface SessionHost {
  readonly cursors: Cursors;
  /** Rises when the session is deleted by this process. */
  generation(sessionId: string): number;
  checkOpen(): void;
}

/**
 * A handle on a session. Making one reads and writes nothing.
 *
 * A handle remembers the head it last saw: if another writer has moved the branch since, saving is `CONFLICT` until
 * `latest()` or `head()` has looked again. A handle that has seen nothing yet builds on whatever is there.
 */
export class Session<State = unknown> {
  readonly id: string;
  readonly branch: string;
  readonly agent: string | undefined;
  readonly #host: SessionHost;
  readonly #reader: SessionReader;
  readonly #named: boolean;
  readonly #generation: number;
  /** The session's number and head, as this handle last saw them. */
  #seen: { readonly number: number; readonly head: string | undefined } | undefined;

  /** Use `sp.session(id)`. */
  constructor(host: SessionHost, reader: SessionReader, options: SessionOptions) {
    this.#host = host;
    this.#reader = reader;
    this.id = reader.sessionId;
    this.branch = options.branch ?? MAIN;
    this.agent = options.agent;
    this.#named = options.branch !== undefined;
    this.#generation = host.generation(this.id);
  }

  /**
   * Saves a state as the new head of the branch. The whole state is handed over, only what changed is written.
   *
   * The state is read before this returns; changing it afterwards does not change what is saved.
   */
  async save(state: State, options: SaveOptions = {}): Promise<CheckpointInfo> {
    const cursor = this.#cursor();
    const { registry } = this.#reader.context;
    const ready = cursor.isReady && options.parent === undefined;
    const candidate = ready ? { live: state } : { copy: cloneValue(state, registry) };
    return this.#write(cursor, async () => {
      if (options.parent === undefined) return this.#noted(await cursor.save(candidate, options, this.#admit));
      return this.#saveAfter(cursor, options.parent, candidate as { copy: Shadow }, options);
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
    options: Omit<SaveOptions, "parent"> = {},
  ): Promise<CheckpointInfo> {
    const keys = parsePointer(path);
    const { registry } = this.#reader.context;
    const copies = elements.map((element) => shadowToValue(cloneValue(element, registry), registry));
    const cursor = this.#cursor();
    const change = (shadow: Shadow): Shadow => appendToShadow(shadow, keys, copies, registry);
    return this.#write(cursor, async () => this.#noted(await cursor.saveChange(change, options, this.#admit)));
  }

  /**
   * Saves what `change` makes of the head's state. It gets the state deep-frozen and returns the next one, sharing with
   * it what stays; what it returns is frozen too. Only what is new is looked at.
   *
   * @param change gets `undefined` where nothing was saved yet
   */
  async update(
    change: (state: Readonly<State> | undefined) => State | Promise<State>,
    options: Omit<SaveOptions, "parent"> = {},
  ): Promise<CheckpointInfo> {
    const cursor = this.#cursor();
    const apply = change as (state: unknown) => unknown;
    return this.#write(cursor, async () => this.#noted(await cursor.update(apply, options, this.#admit)));
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
      const found = await findWhole(this.#reader, cursor, (heads) => this.#see(heads));
      if (!found) return undefined;
      const { registry } = this.#reader.context;
      return this.#checkpoint(found.info, found.shadow, [], found.skipped, registry);
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
      const info = await this.#reader.describe(number, row, agent);
      return this.#checkpoint(info, shadow, holes, [], this.#reader.context.registry);
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
      for await (const { record } of reader.branches()) {
        const { name, head, headParentId, createdAt } = record;
        yield { name, createdAt, head: head && reader.toInfo(head, session?.record.agent, headParentId) };
      }
    });
  }

  /**
   * Opens a branch at a checkpoint and returns a handle on it. Costs one record; with `state`, a save more.
   */
  async fork(ref: CheckpointRef, options: ForkOptions<State> = {}): Promise<Session<State>> {
    const { branch: name, state, ...saveOptions } = options;
    if (name !== undefined) checkBranchName(name);
    const copy = state === undefined ? undefined : cloneValue(state, this.#reader.context.registry);
    const { number, row } = await this.#require(ref);
    const branch =
      copy === undefined
        ? await forkAt(this.#reader, number, row, name)
        : (await forkWithState(this.#reader, this.#host.cursors, number, row, name, copy, saveOptions)).branch;
    const agent = this.agent === undefined ? {} : { agent: this.agent };
    return new Session<State>(this.#host, this.#reader, { ...agent, branch });
  }

  /**
   * Goes back: the state of an earlier checkpoint becomes the newest again. The head is kept first, as a checkpoint of
   * kind `preOperation`; nothing is lost. One transaction.
   */
  async rewind(ref: CheckpointRef): Promise<CheckpointInfo> {
    const { row } = await this.#require(ref);
    const cursor = this.#cursor();
    return this.#write(cursor, async () => this.#noted(await rewindBranch(this.#reader, cursor, row, this.#admit)));
  }

  /** What changed from one checkpoint to another. Reads only what differs. */
  async diff(from: CheckpointRef, to: CheckpointRef): Promise<Change[]> {
    const [a, b] = [await this.#require(from), await this.#require(to)];
    return diffStates(a.row, b.row, this.#reader.stateReader(a.number), this.#reader.context.registry);
  }

  /** Gives a checkpoint a label, or takes it away with `undefined`. */
  async label(ref: CheckpointRef, label: string | undefined): Promise<void> {
    const { number, row } = await this.#require(ref);
    await attachLabel(this.#reader, number, row, label);
  }

  /** Pins a checkpoint, so that pruning never removes it; or unpins it. */
  async pin(ref: CheckpointRef, pinned = true): Promise<void> {
    const { number, row } = await this.#require(ref);
    await attachPin(this.#reader, number, row, pinned);
  }

  /** Removes all checkpoints and branches. The session lives on, and numbers its checkpoints onwards. Returns how many. */
  async clear(): Promise<number> {
    const cursor = this.#cursor();
    return this.#write(cursor, async () => {
      const removed = await clearSession(this.#reader, (heads) => this.#bind(heads));
      this.#host.cursors.resetSession(this.id);
      if (this.#seen) this.#seen = { number: this.#seen.number, head: undefined };
      return removed;
    });
  }

  #cursor(): BranchCursor {
    this.#host.checkOpen();
    if (this.#generation !== this.#host.generation(this.id)) throw this.#deleted();
    const cursor = this.#host.cursors.get(this.#reader, this.branch);
    cursor.agent = this.agent;
    return cursor;
  }

  async #write<T>(cursor: BranchCursor, work: () => Promise<T>): Promise<T> {
    try {
      return await cursor.exclusive(work);
    } finally {
      this.#host.cursors.settle(cursor);
    }
  }

  /** Saves on this branch, on another whose head the parent is, or on a new one. */
  async #saveAfter(
    cursor: BranchCursor,
    parent: string,
    candidate: { readonly copy: Shadow },
    options: SaveOptions,
  ): Promise<CheckpointInfo> {
    const heads = await cursor.refresh();
    this.#see(heads);
    const { session, branch } = heads;
    const row = session && (await this.#reader.find(session.record.number, parent, undefined));
    if (!session || !row) throw this.#notFound(parent);
    const own = row.branch === this.branch || branch?.record.head?.seq === row.seq;
    const target = own ? cursor : this.#host.cursors.get(this.#reader, row.branch);
    const extend = (): Promise<CheckpointInfo | undefined> => saveOnHead(target, row, candidate, options);
    const extended = own ? await extend() : this.#named ? undefined : await target.exclusive(extend);
    if (extended) return own ? this.#noted(extended) : extended;
    if (!this.#named) {
      return forkWithState(
        this.#reader,
        this.#host.cursors,
        session.record.number,
        row,
        undefined,
        candidate.copy,
        options,
      );
    }
    throw new SavepointError(
      "CONFLICT",
      `${parent} is not the head of branch ${JSON.stringify(this.branch)} of session ${JSON.stringify(this.id)}. Fork it, or save without naming a parent.`,
    );
  }

  /** May this handle build on these records? */
  readonly #admit = (heads: Heads): void => {
    this.#bind(heads);
    const { session, branch } = heads;
    if (session?.record.agent !== undefined && this.agent !== undefined && session.record.agent !== this.agent) {
      throw new SavepointError(
        "AGENT_MISMATCH",
        `Session ${JSON.stringify(this.id)} belongs to agent ${JSON.stringify(session.record.agent)}, not ${JSON.stringify(this.agent)}. Use another session id.`,
      );
    }
    if (session && !branch && this.branch !== MAIN) throw this.#noBranch();
    if (!session && this.branch !== MAIN) throw this.#noBranch();
    const head = branch?.record.head;
    if (this.#seen && this.#seen.head !== head?.id) {
      throw new SavepointError(
        "CONFLICT",
        `Another writer has moved branch ${JSON.stringify(this.branch)} of session ${JSON.stringify(this.id)} to ${head ? `#${head.seq}` : "no checkpoint"} since this handle last looked. Call latest() and save on top of it, or fork.`,
        { details: { sessionId: this.id, branch: this.branch, head: head?.id } },
      );
    }
  };

  /** A handle stays with the session it first met: one that was deleted since is refused. */
  #bind({ session }: Heads): void {
    if (this.#seen && session?.record.number !== this.#seen.number) throw this.#deleted();
  }

  #see(heads: Heads): void {
    this.#bind(heads);
    const { session, branch } = heads;
    if (session) this.#seen = { number: session.record.number, head: branch?.record.head?.id };
  }

  /** Notes a checkpoint that this handle has made. */
  #noted(info: CheckpointInfo): CheckpointInfo {
    const number = this.#host.cursors.get(this.#reader, this.branch).sessionNumber;
    if (number !== undefined) this.#seen = { number, head: info.id };
    return info;
  }

  async #readHeads(): Promise<Heads> {
    const cursor = this.#cursor();
    await cursor.exclusive(async () => {});
    const heads = await this.#reader.heads(this.branch);
    this.#bind(heads);
    return heads;
  }

  async #find(ref: CheckpointRef): Promise<{ number: number; row: Row; agent: string | undefined } | undefined> {
    const { session, branch } = await this.#readHeads();
    if (!session) return undefined;
    const { number, agent } = session.record;
    const row = await this.#reader.find(number, ref, branch?.record.head);
    return row && { number, row, agent };
  }

  async #require(ref: CheckpointRef): Promise<{ number: number; row: Row; agent: string | undefined }> {
    const found = await this.#find(ref);
    if (!found) throw this.#notFound(ref);
    return found;
  }

  #checkpoint(
    info: CheckpointInfo,
    shadow: Shadow,
    holes: readonly Hole[],
    skipped: readonly SkippedCheckpoint[],
    registry: SessionReader["context"]["registry"],
  ): Checkpoint<State> {
    return { ...info, state: shadowToValue(shadow, registry) as State, holes, skipped };
  }

  #notFound(ref: CheckpointRef): SavepointError {
    const name = typeof ref === "string" ? JSON.stringify(ref) : `with ${JSON.stringify(ref)}`;
    return new SavepointError(
      "CHECKPOINT_NOT_FOUND",
      `Session ${JSON.stringify(this.id)} has no checkpoint ${name}. history({ allBranches: true }) lists those it has.`,
    );
  }

  #noBranch(): SavepointError {
    return new SavepointError(
      "BRANCH_NOT_FOUND",
      `Session ${JSON.stringify(this.id)} has no branch ${JSON.stringify(this.branch)}. Make it with fork(checkpoint, { branch }).`,
    );
  }

  #deleted(): SavepointError {
    return new SavepointError(
      "SESSION_DELETED",
      `Session ${JSON.stringify(this.id)} was deleted. To start it afresh, open a new handle with sp.session().`,
    );
  }
}

/** Saves on top of `row` if it is the head of the branch, and stays it; `undefined` if not. */
async function saveOnHead(
  cursor: BranchCursor,
  row: Row,
  candidate: { readonly copy: Shadow },
  options: SaveOptions,
): Promise<CheckpointInfo | undefined> {
  const isHead = (heads: Heads): boolean => heads.branch?.record.head?.seq === row.seq;
  if (!isHead(await cursor.refresh())) return undefined;
  let moved = false;
  try {
    return await cursor.save(candidate, options, (heads) => {
      moved = !isHead(heads);
      if (moved) throw new SavepointError("CONFLICT", `Another writer has moved the branch on from ${row.id}.`);
    });
  } catch (error) {
    if (moved) return undefined;
    throw error;
  }
}
