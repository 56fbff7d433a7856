/**
 * A branch as this process last knew it: its records, and the shadow of its head's state. All saves of a branch go
 * through its cursor, one after another.
 *
 * The cursor is only a memory: each commit checks that what it was built on is still true, and on any failure the cursor
 * forgets everything and reads anew.
 */
import { isSavepointError, SavepointError } from "../errors.js";
import { cloneValue } from "../state/clone.js";
import { encodeShadow, type EncodedState } from "../state/encode.js";
import { reviseShadow, newShadow, settleState } from "../state/revise.js";
import { isSame } from "../state/same.js";
import type { Shadow } from "../state/shadow.js";
import { freezeState, shadowToValue } from "../state/value.js";
import type { CheckpointInfo, SaveOptions } from "./checkpoint.js";
import { checkId } from "./ids.js";
import { loadShadow } from "./load-state.js";
import type { NumberSource } from "./numbers.js";
import { type BranchRecord, encodeMetadata, type Row, type SessionRecord } from "./records.js";
import { buildCommit, type BuiltCommit } from "./session-commit.js";
import type { Heads, Known, SessionReader } from "./session-reader.js";

/** A state to save: the caller's own, to be compared at once; or a private copy, for when it may change meanwhile. */
export type Candidate = { readonly live: unknown } | { readonly copy: Shadow };

/** Says whether a handle may build on these records; throws what to tell its user if not. */
export type Admit = (heads: Heads) => void;

/** What the cursors of one session share: its record, as the last commit of this process left it. */
export interface SharedSession {
  known: Known<SessionRecord> | undefined;
}

/** How the next shadow is made from the one before it, if there is one. `frozen` is that one's state, deep-frozen. */
type Revise = (before: Shadow | undefined, frozen?: unknown) => Shadow;

export class BranchCursor {
  readonly #reader: SessionReader;
  readonly #shared: SharedSession;
  readonly #numbers: NumberSource;
  readonly branchName: string;
  #branch: Known<BranchRecord> | undefined;
  /** A branch that the next save creates. */
  #planned: BranchRecord | undefined;
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
    const known = this.#shared.known !== undefined && this.#branch !== undefined;
    return !this.#turn && known && (this.#shadow !== undefined || !this.#branch?.record.head);
  }

  get isIdle(): boolean {
    return !this.#turn;
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

  /** Forgets everything. */
  reset(): void {
    this.evict();
    this.#branch = undefined;
    this.#planned = undefined;
    this.#shared.known = undefined;
  }

  /** Runs work when all that was asked for before is done; at once, and without a turn of the event loop, if it is. */
  exclusive<T>(work: () => Promise<T>): Promise<T> {
    const mine = this.#turn ? this.#turn.then(work) : work();
    const turn = mine.then(
      () => {},
      () => {},
    );
    this.#turn = turn;
    void turn.then(() => {
      if (this.#turn === turn) this.#turn = undefined;
    });
    return mine;
  }

  /** Reads the records, and forgets the shadow if the branch has moved. */
  async refresh(): Promise<Heads> {
    const heads = await this.#reader.heads(this.branchName);
    if (heads.branch?.value !== this.#branch?.value) this.evict();
    this.#branch = heads.branch;
    this.#shared.known = heads.session;
    this.sessionNumber = heads.session?.record.number;
    return heads;
  }

  /** Takes over what was committed to the branch by other means than a save. */
  committed(built: BuiltCommit): void {
    this.reset();
    this.#branch = built.branch;
    this.#shared.known = built.session;
    this.sessionNumber = built.session.record.number;
  }

  /** The shadow of the head's state, where this process has it. */
  get shadow(): Shadow | undefined {
    return this.#shadow;
  }

  /** Keeps what was loaded as the shadow of the head, if the head is still that. */
  keep(row: Row, shadow: Shadow): void {
    if (this.#branch?.record.head?.id === row.id && this.#shadow === undefined) this.#shadow = shadow;
  }

  /** Prepares a branch that does not exist yet: the next save creates it. */
  plan(session: Known<SessionRecord>, record: BranchRecord, shadow: Shadow): void {
    this.#shared.known = session;
    this.#planned = record;
    this.#shadow = shadow;
  }

  /** Saves a state as the new head. */
  save(candidate: Candidate, options: SaveOptions, admit: Admit): Promise<CheckpointInfo> {
    const { registry } = this.#reader.context;
    return this.#save(options, admit, (before, frozen) => {
      if (before === undefined)
        return "copy" in candidate ? settleState(candidate.copy) : newShadow(candidate.live, registry);
      const value = "copy" in candidate ? shadowToValue(candidate.copy, registry) : candidate.live;
      return reviseShadow(before, value, registry, frozen);
    });
  }

  /** Saves what `change` makes of the shadow itself. */
  async saveChange(change: (before: Shadow) => Shadow, options: SaveOptions, admit: Admit): Promise<CheckpointInfo> {
    return this.#save(options, admit, (before) => {
      if (before !== undefined) return change(before);
      throw new SavepointError("CHECKPOINT_NOT_FOUND", `${this.#name} has no checkpoint yet. Save a state first.`);
    });
  }

  /** Saves what `change` gives for the head's state, which it gets deep-frozen. */
  async update(change: (state: unknown) => unknown, options: SaveOptions, admit: Admit): Promise<CheckpointInfo> {
    const { registry } = this.#reader.context;
    await this.#prepare(admit);
    let before = this.#frozen;
    if (before === undefined && this.#shadow !== undefined) {
      before = shadowToValue(this.#shadow, registry);
      if (freezeState(before, registry)) this.#frozen = before;
    }
    const pureBefore = this.#frozen;
    const next = await change(before);
    if (next === undefined) {
      throw new SavepointError(
        "INVALID_ARGUMENT",
        "The function given to update() returned nothing. Return the next state; the one it gets is frozen.",
      );
    }
    const pure = freezeState(next, registry, pureBefore);
    const info = await this.save({ live: next }, options, admit);
    if (pure) this.#frozen = next;
    return info;
  }

  get #name(): string {
    return `Session ${JSON.stringify(this.#reader.sessionId)}, branch ${JSON.stringify(this.branchName)},`;
  }

  /** Knows the records and the shadow of the head. Does not wait for anything where it knows them already. */
  #prepare(admit: Admit): Promise<void> | undefined {
    if (this.#planned || (this.#shared.known && this.#branch)) {
      admit({ session: this.#shared.known, branch: this.#branch });
      const head = this.#branch?.record.head;
      return head && this.#shadow === undefined ? this.#loadHead(head) : undefined;
    }
    return this.refresh().then((heads) => {
      admit(heads);
      const head = heads.branch?.record.head;
      return head && this.#shadow === undefined ? this.#loadHead(head) : undefined;
    });
  }

  async #loadHead(head: Row): Promise<void> {
    const { number } = (this.#shared.known as Known<SessionRecord>).record;
    this.#shadow = await loadShadow(this.#reader, number, head);
  }

  async #save(options: SaveOptions, admit: Admit, revise: Revise): Promise<CheckpointInfo> {
    const { registry } = this.#reader.context;
    let attempt = revise;
    for (;;) {
      const prepared = this.#prepare(admit);
      if (prepared) await prepared;
      const metadata = encodeMetadata(options.metadata, registry);
      const before = this.#shadow;
      const frozen = this.#frozen;
      // From here on the shadow is being changed: it is kept only when the commit has succeeded.
      this.evict();
      const shadow = attempt(before, frozen);
      const branch = this.#branch?.record ?? this.#planned;
      const encoded = encodeShadow(shadow, branch?.tape ?? 0, branch?.nextItem ?? 0);
      try {
        const info = await this.#commit(encoded, options, metadata);
        this.#shadow = shadow;
        return info;
      } catch (error) {
        const planned = this.#planned;
        this.reset();
        if (!isSavepointError(error, "CONFLICT")) throw error;
        const existing = options.id === undefined ? undefined : await this.#sameAgain(options.id, shadow, options);
        if (existing) return existing;
        if (planned) throw error;
        // The branch moved under us. If this handle may build on the new head (admit says so), the state as it was
        // when it was given is compared with that one; it may have been changed by its owner since.
        const copy = cloneValue(shadowToValue(shadow, registry), registry);
        attempt = (other) =>
          other === undefined ? settleState(copy) : reviseShadow(other, shadowToValue(copy, registry), registry);
      }
    }
  }

  /** Commits an encoded state, numbering it anew for as long as only other branches of the session are in the way. */
  async #commit(encoded: EncodedState, options: SaveOptions, metadata: Shadow | undefined): Promise<CheckpointInfo> {
    const { context, sessionId } = this.#reader;
    const number = this.#shared.known?.record.number ?? (await this.#numbers.next());
    for (;;) {
      const sessionBefore = this.#shared.known;
      const branchBefore = this.#branch;
      const now = context.now();
      const base: SessionRecord = sessionBefore?.record ?? {
        number,
        agent: undefined,
        createdAt: now,
        nextSeq: 0,
        nextTape: 1,
      };
      const branch: BranchRecord = branchBefore?.record ??
        this.#planned ?? {
          name: this.branchName,
          tape: 0,
          nextItem: 0,
          epoch: 0,
          createdAt: now,
          from: undefined,
          head: undefined,
          headParentId: undefined,
        };
      const row = newRow(base.nextSeq, branch, encoded, options, metadata, context.newId, now);
      const built = buildCommit({
        sessionId,
        sessionBefore,
        session: {
          ...base,
          agent: base.agent ?? this.agent,
          nextSeq: base.nextSeq + 1,
          nextTape: this.#planned ? this.#planned.tape + 1 : base.nextTape,
        },
        branchBefore,
        branch: {
          ...branch,
          nextItem: branch.nextItem + encoded.items.length,
          head: row,
          headParentId: branch.head?.id,
        },
        rows: [row],
        items: encoded.items,
        blobs: encoded.blobs,
        builtOn: this.#planned?.head ? [this.#planned.head.seq] : [],
      });
      // Other branches of this process go on from here at once; the store applies commits in order.
      this.#shared.known = built.session;
      try {
        await context.store.commit(built.commit);
      } catch (error) {
        this.#shared.known = undefined;
        if (!isSavepointError(error, "CONFLICT")) throw error;
        this.#shared.known = await this.#afterConflict(error, number, sessionBefore);
        continue;
      }
      this.#branch = built.branch;
      this.#planned = undefined;
      this.sessionNumber = number;
      return this.#reader.toInfo(row, built.session.record.agent, branch.head?.id);
    }
  }

  /** The session to number a save by after a conflict, if only other branches were in the way; else throws. */
  async #afterConflict(
    conflict: SavepointError,
    number: number,
    sessionBefore: Known<SessionRecord> | undefined,
  ): Promise<Known<SessionRecord> | undefined> {
    const { session, branch } = await this.#reader.heads(this.branchName);
    const moved = branch?.value !== this.#branch?.value || (session?.record.number ?? number) !== number;
    const gone = !session && sessionBefore !== undefined;
    const idTaken = (conflict.details["keys"] as string[]).some((key) => key.startsWith("i"));
    const tapeTaken = this.#planned !== undefined && session?.record.nextTape !== this.#planned.tape;
    if (moved || gone || idTaken || tapeTaken) throw conflict;
    if (session?.value !== sessionBefore?.value) return session;
    if (this.#planned)
      throw new SavepointError("CHECKPOINT_NOT_FOUND", `${this.#name} was to start from a checkpoint that is gone.`);
    throw new SavepointError("DAMAGED", `${this.#name} cannot go on: its records disagree with what is stored.`, {
      cause: conflict,
    });
  }

  /** The agent to note when the session has none yet. */
  agent: string | undefined;

  /** The checkpoint with this id, if it is there and says the same; `undefined` if there is none. */
  async #sameAgain(id: string, shadow: Shadow, options: SaveOptions): Promise<CheckpointInfo | undefined> {
    const { context } = this.#reader;
    const { session } = await this.#reader.heads(this.branchName);
    const row = session && (await this.#reader.find(session.record.number, id, undefined));
    if (!session || !row) return undefined;
    const saved = await loadShadow(this.#reader, session.record.number, row);
    const info = await this.#reader.describe(session.record.number, row, session.record.agent);
    if (isSame(saved, shadowToValue(shadow, context.registry), context.registry) && saysTheSame(info, options))
      return info;
    throw new SavepointError(
      "CONFLICT",
      `Checkpoint ${JSON.stringify(id)} exists already, with other content. Save it under another id.`,
    );
  }
}

function saysTheSame(info: CheckpointInfo, options: SaveOptions): boolean {
  const { parent, ...fields } = options;
  if (parent !== undefined && parent !== info.parentId) return false;
  return Object.entries(fields).every(
    ([key, value]) =>
      value === undefined || JSON.stringify(info[key as keyof CheckpointInfo]) === JSON.stringify(value),
  );
}

function newRow(
  seq: number,
  branch: BranchRecord,
  encoded: EncodedState,
  options: SaveOptions,
  metadata: Shadow | undefined,
  newId: () => string,
  now: number,
): Row {
  const parent = branch.head;
  const { skeleton, items, blobs, stateBytes } = encoded;
  let storedBytes = Buffer.byteLength(skeleton.json) + skeleton.refs.length;
  for (const { json, refs } of items) storedBytes += Buffer.byteLength(json) + refs.length;
  for (const bytes of blobs.values()) storedBytes += bytes.length;
  return {
    seq,
    id: options.id === undefined ? newId() : checkId(options.id, "checkpoint id"),
    tape: branch.tape,
    branch: branch.name,
    parent: parent?.seq,
    grandparent: parent?.parent,
    createdAt: now,
    step: options.step ?? (parent ? parent.step + 1 : 0),
    kind: options.kind ?? "manual",
    status: options.status ?? "running",
    reason: options.reason,
    label: options.label === undefined ? undefined : checkId(options.label, "label"),
    description: options.description,
    trigger: options.trigger,
    resumeHint: options.resumeHint,
    tasksCompleted: options.tasksCompleted ?? 0,
    usage: options.usage,
    metadata,
    pinned: options.pinned ?? false,
    stateBytes,
    storedBytes: storedBytes + ROW_OVERHEAD,
    skeleton,
  };
}

/** What a row takes beside its skeleton: its id twice, its fields, keys and checksums. */
const ROW_OVERHEAD = 120;
