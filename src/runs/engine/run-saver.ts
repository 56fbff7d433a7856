/**
 * Saves the checkpoints of a run. One commit contains the state, the journal, the status of the run, and the checks that this
 * process still holds the branch.
 */
import { isSavepointError } from "../../errors.js";
import {
  type Author,
  type BranchCursor,
  type CommitParts,
  type Heads,
  checkRunRecord,
  isConflictOn,
  type SaveExtension,
  sessionDeleted,
  type SessionReader,
  parseSaveOptions,
} from "../../sessions/index.js";
import {
  changeQueueEntry,
  type CheckpointInfo,
  type CheckpointStatus,
  decodeInbox,
  type QueueEntry,
  encodeRun,
  inboxKey,
  newQueueEntry,
  type RunPosition,
  runKey,
  type RunRecord,
  type Usage,
} from "../../records/index.js";
import { enforceRetention } from "../../retention/index.js";
import { RecordedValues } from "../../state/index.js";
import type { Check } from "../../store/index.js";
import type { Agent } from "../agent/index.js";
import type { Claim } from "../claims/index.js";
import {
  CancelledError,
  type Journal,
  type JournalWrite,
  leaseLost,
  type JournalBatch,
  type StoredResult,
} from "../journal/index.js";

/** A checkpoint of a run that is to be saved. */
export interface RunCheckpoint {
  readonly state: unknown;
  readonly step: number;
  readonly status: CheckpointStatus;
  readonly trigger: string;
  readonly reason?: string | undefined;
  readonly usage: Usage;
  /** Whether it is in the middle of a step. Otherwise it ends a step, and a new journal starts. */
  readonly midStep: boolean;
  /** Whether it stays in the history. */
  readonly shown: boolean;
  /** Whether the branch stays claimed. Otherwise it is released in the same commit. */
  readonly held: boolean;
  /** The number of entries that belong to a checkpoint in the middle of a step. @default all */
  readonly entries?: number;
  /** Milliseconds of work so far. */
  readonly worked: number;
  /** The memory of the loop detector at the end of the step. */
  readonly loop: string;
  readonly failures?: number;
  readonly output?: { readonly value: unknown };
  /** Changes to the record of the run. */
  readonly run?: Partial<RunRecord>;
  /** When the run is ready again; `null` if it waits for an answer; missing if it has ended. */
  readonly runAt?: number | null;
  /** Whether it is the checkpoint that halts a cancelled run. No other is saved once a cancel is in the journal. */
  readonly isCancel?: boolean;
}

/** The inbox of the branch, when its run ends. */
interface InboxState {
  readonly key: string;
  /** The check that no input was queued since. A damaged record cannot be checked. */
  readonly checks: readonly Check[];
  readonly hasInput: boolean;
}

export class RunSaver {
  /** The record of the run, as it was last saved. */
  run: RunRecord;
  readonly #reader: SessionReader;
  readonly #branch: string;
  readonly #agent: Agent;
  readonly #queueEntry: QueueEntry;
  readonly #journal: Journal;
  readonly #cursor: BranchCursor;
  readonly #recorded: RecordedValues;
  readonly #author: Author;

  constructor(
    reader: SessionReader,
    branch: string,
    agent: Agent,
    claim: Claim,
    journal: Journal,
    cursor: BranchCursor,
  ) {
    this.#reader = reader;
    this.#branch = branch;
    this.#agent = agent;
    this.#journal = journal;
    this.#cursor = cursor;
    this.#recorded = new RecordedValues(reader.context.registry);
    this.run = claim.run;
    this.#queueEntry = claim.queueEntry;
    const { epoch } = claim.journal;
    this.#author = {
      agent: agent.name,
      admit: ({ session, branch: known }: Heads) => {
        if (session?.record.number !== claim.number) throw sessionDeleted(reader.sessionId);
        if (!known?.record.held || known.record.epoch !== epoch) throw leaseLost(reader.sessionId, branch);
      },
    };
  }

  /** Adds results that are stored in the journal. A state that contains them refers to them. */
  addResults(results: readonly StoredResult[]): void {
    for (const result of results) this.#recorded.add(result);
  }

  /** Returns whether the head is a checkpoint that contains the first `added` entries. */
  hasCheckpoint(added: number): boolean {
    const { record } = this.#journal;
    const { run, seq } = this.#cursor.head ?? {};
    const isHead = seq === record.head && run?.midStep === true && run.journal?.count === record.count;
    return isHead && added <= this.#journal.added - this.#journal.pendingCount;
  }

  clearResults(): void {
    this.#recorded.clear();
  }

  /** Saves a checkpoint, with all pending entries of the journal. Throws {@link CancelledError} if the run was cancelled. */
  async save(checkpoint: RunCheckpoint): Promise<CheckpointInfo> {
    return this.#journal.exclusive(async () => {
      const { cancelReason } = this.#journal.record;
      if (cancelReason !== undefined && !checkpoint.isCancel) throw new CancelledError(cancelReason);
      const entries = this.#journal.prepare(checkpoint.output);
      // The state may also refer to results that are written in the same commit.
      this.addResults(entries.newResults);
      for (;;) {
        const isEnd = checkpoint.run !== undefined && checkpoint.run.status !== "waiting";
        const inbox = isEnd ? await this.#readInbox() : undefined;
        try {
          return await this.#commit(checkpoint, entries, inbox);
        } catch (error) {
          // It is no longer known where the results are stored.
          this.clearResults();
          // Repeated if an input was queued in the meantime.
          if (!inbox || !isSavepointError(error, "CONFLICT") || !isConflictOn(error, inbox.key)) throw error;
        }
      }
    });
  }

  async #commit(
    checkpoint: RunCheckpoint,
    entries: JournalBatch,
    inbox: InboxState | undefined,
  ): Promise<CheckpointInfo> {
    const journal = this.#journal;
    const { midStep, shown, held, step, status, trigger, usage, reason } = checkpoint;
    const registry = this.#reader.context.registry;
    let write: JournalWrite | undefined;
    let seq = 0;
    const extension: SaveExtension = {
      hidden: !shown,
      epoch: journal.record.epoch,
      held,
      tapes: 0,
      recorded: this.#recorded,
      build: (place) => {
        seq = place.seq;
        write = this.#writeJournal(checkpoint, entries, seq);
        return this.#parts(checkpoint, write, seq, inbox);
      },
    };
    const options = parseSaveOptions(
      { step, kind: "automatic", status, trigger, usage, ...(reason !== undefined && { reason }) },
      registry,
    );
    const versioned = { ...options, version: this.#agent.definition.migrations.length };
    const info = await this.#cursor.exclusive(() =>
      this.#cursor.save({ live: checkpoint.state }, versioned, this.#author, extension),
    );
    if (write) journal.markWritten(write);
    if (!held) journal.markReleased();
    if (!midStep) this.clearResults();
    if (checkpoint.run) this.run = { ...this.run, ...checkpoint.run, head: seq };
    if (shown) await enforceRetention(this.#reader, this.#cursor, info);
    return info;
  }

  /** Plans the journal's part: it continues in the middle of a step, and a new one starts behind its entries at the end of one. */
  #writeJournal(
    { midStep, shown, worked, loop, failures, run }: RunCheckpoint,
    entries: JournalBatch,
    seq: number,
  ): JournalWrite {
    const { record } = this.#journal;
    const endsTurn = run !== undefined && run.status !== "waiting";
    const change = { worked, failures: failures ?? (midStep ? record.failures : 0), cancelReason: undefined, endsTurn };
    return midStep
      ? this.#journal.planWrite(entries, { ...change, head: seq })
      : this.#journal.planWrite(entries, { ...change, loop }, { seq, shown });
  }

  /** The parts of the commit besides the checkpoint. */
  #parts(
    checkpoint: RunCheckpoint,
    write: JournalWrite,
    seq: number,
    inbox: InboxState | undefined,
  ): CommitParts & { readonly run: RunPosition } {
    const { sessionId } = this.#reader;
    const { tape, first, boundary, listedFrom = first } = this.#journal.record;
    const puts = [...(write.parts.puts ?? [])];
    const deletes: string[] = [];
    const wakes: string[] = [];
    if (checkpoint.run) {
      puts.push({
        key: runKey(sessionId, this.#branch),
        value: encodeRun({ ...this.run, ...checkpoint.run, head: seq }, this.#reader.context.registry),
      });
      const at = this.#readyAtAfter(checkpoint, inbox);
      const { priority, external } = this.#queueEntry;
      const next = at === undefined ? undefined : { ...newQueueEntry(this.#agent.name, at, priority), external };
      const change = changeQueueEntry(sessionId, this.#branch, this.#queueEntry, next);
      puts.push(...change.puts);
      deletes.push(...change.deletes);
      if (at === 0) wakes.push(this.#agent.name);
    }
    const count = write.countAfter(checkpoint.entries);
    // Entries that a checkpoint in the middle of a step does not contain may be copies too.
    const listed = Math.max(0, first + count - listedFrom);
    return {
      ...write.parts,
      checks: [...(write.parts.checks ?? []), ...(inbox?.checks ?? [])],
      puts,
      deletes,
      wakes,
      run: {
        boundary,
        journal: count > 0 ? { tape, start: first, count } : undefined,
        history: listed > 0 ? { tape, start: listedFrom, count: listed } : undefined,
        midStep: checkpoint.midStep,
        turn: this.run.turn,
        output: write.output === undefined ? undefined : { tape, start: write.output, count: 1 },
      },
    };
  }

  /** When the run is ready again; `undefined` if it has ended. A queued input makes it ready immediately. */
  #readyAtAfter(checkpoint: RunCheckpoint, inbox: InboxState | undefined): number | null | undefined {
    const { receive, open } = this.#agent.definition;
    const next = inbox?.hasInput && checkpoint.status === "completed" && receive !== undefined && !open;
    return checkpoint.runAt === undefined && next ? 0 : checkpoint.runAt;
  }

  async #readInbox(): Promise<InboxState> {
    const key = inboxKey(this.#reader.sessionId, this.#branch);
    const [record] = await this.#reader.context.store.get([key]);
    if (record && !("value" in record)) {
      // A completed run must not fail because of it. The next process that runs the session reports it again.
      this.#reader.reportDamage(undefined, undefined, record.unreadable);
      return { key, checks: [], hasInput: true };
    }
    const value = record?.value;
    const { first, next } = value === undefined ? { first: 0, next: 0 } : decodeInbox(value);
    return { key, checks: [checkRunRecord(key, value)], hasInput: next > first };
  }
}
