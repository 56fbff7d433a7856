/**
 * The checkpoints of a run. One commit has the state, what the step has recorded, how the run stands, and its right to
 * say so.
 */
import { isSavepointError } from "../../errors.js";
import {
  type Author,
  type BranchCursor,
  type CommitParts,
  type Heads,
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

/** What is saved, and how. */
export interface RunCheckpoint {
  readonly state: unknown;
  readonly step: number;
  readonly status: CheckpointStatus;
  readonly trigger: string;
  readonly reason?: string | undefined;
  readonly usage: Usage;
  /** In the middle of a step, or where one ends and the next begins? */
  readonly midStep: boolean;
  /** Does it stay in the history? */
  readonly shown: boolean;
  /** Is the branch kept? Otherwise it is let go of in the same commit. */
  readonly held: boolean;
  /** The entries that belong to a checkpoint in the middle of a step; all of them, if it is not said. */
  readonly entries?: number;
  /** Milliseconds of work so far. */
  readonly worked: number;
  /** What the loop detector remembers when the step is over. */
  readonly loop: string;
  readonly failures?: number;
  readonly output?: { readonly value: unknown };
  /** How the run stands, if that changes. */
  readonly run?: Partial<RunRecord>;
  /** When it is due, if it is not over. */
  readonly runAt?: number | null;
  /** Is it the checkpoint that halts a cancelled run? No other is saved once a cancel is in the journal. */
  readonly isCancel?: boolean;
}

/** Whether inputs were left for the branch. */
interface Inbox {
  readonly key: string;
  /** That nothing was left since. A record that cannot be read cannot be checked. */
  readonly checks: readonly Check[];
  readonly waiting: boolean;
}

export class RunSaver {
  /** How the run stands. */
  run: RunRecord;
  readonly #reader: SessionReader;
  readonly #branch: string;
  readonly #agent: Agent;
  readonly #due: QueueEntry;
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
    this.#due = claim.queueEntry;
    const { epoch } = claim.journal;
    this.#author = {
      agent: agent.name,
      admit: ({ session, branch: known }: Heads) => {
        if (session?.record.number !== claim.number) throw sessionDeleted(reader.sessionId);
        if (!known?.record.held || known.record.epoch !== epoch) throw leaseLost(reader.sessionId, branch);
      },
    };
  }

  /** Results that are stored already: a state that they become part of refers to them. */
  addResults(results: readonly StoredResult[]): void {
    for (const result of results) this.#recorded.add(result);
  }

  /** Is there a checkpoint already of the moment when so many entries had been added? */
  hasCheckpoint(added: number): boolean {
    const { record } = this.#journal;
    const { run, seq } = this.#cursor.head ?? {};
    const here = seq === record.head && run?.midStep === true && run.journal?.count === record.count;
    return here && added <= this.#journal.added - this.#journal.pendingCount;
  }

  clearResults(): void {
    this.#recorded.clear();
  }

  async save(saving: RunCheckpoint): Promise<CheckpointInfo> {
    return this.#journal.exclusive(async () => {
      const { cancelReason } = this.#journal.record;
      if (cancelReason !== undefined && !saving.isCancel) throw new CancelledError(cancelReason);
      const entries = this.#journal.prepare(saving.midStep || saving.shown, saving.output);
      // What is written along with the state can be referred to as well.
      this.addResults(entries.newResults);
      for (;;) {
        const over = saving.run !== undefined && saving.run.status !== "waiting";
        const inbox = over ? await this.#readInbox() : undefined;
        try {
          return await this.#commit(saving, entries, inbox);
        } catch (error) {
          // What the state has taken is gone with it, and the rest is not where it was thought to be.
          this.clearResults();
          // An input was left meanwhile.
          if (!inbox || !isSavepointError(error, "CONFLICT") || !isConflictOn(error, inbox.key)) throw error;
        }
      }
    });
  }

  async #commit(saving: RunCheckpoint, entries: JournalBatch, inbox: Inbox | undefined): Promise<CheckpointInfo> {
    const journal = this.#journal;
    const { midStep, shown, held, step, status, trigger, usage, reason } = saving;
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
        write = this.#writeJournal(saving, entries, seq);
        return this.#parts(saving, write, seq, inbox);
      },
    };
    const options = parseSaveOptions(
      { step, kind: "automatic", status, trigger, usage, ...(reason !== undefined && { reason }) },
      registry,
    );
    const versioned = { ...options, version: this.#agent.definition.migrations.length };
    const info = await this.#cursor.exclusive(() =>
      this.#cursor.save({ live: saving.state }, versioned, this.#author, extension),
    );
    if (write) journal.markWritten(write);
    if (!held) journal.markReleased();
    if (!midStep) this.clearResults();
    if (saving.run) this.run = { ...this.run, ...saving.run, head: seq };
    if (shown) await enforceRetention(this.#reader, this.#cursor, info);
    return info;
  }

  /** In the middle of a step the journal goes on; at its end it begins anew behind what was written. */
  #writeJournal({ midStep, worked, loop, failures }: RunCheckpoint, entries: JournalBatch, seq: number): JournalWrite {
    const { record } = this.#journal;
    const change = { worked, failures: failures ?? (midStep ? record.failures : 0), cancelReason: undefined };
    return midStep
      ? this.#journal.planWrite(entries, { ...change, head: seq })
      : this.#journal.planWrite(entries, { ...change, loop }, seq);
  }

  /** What a checkpoint's commit has beside the checkpoint. */
  #parts(
    saving: RunCheckpoint,
    write: JournalWrite,
    seq: number,
    inbox: Inbox | undefined,
  ): CommitParts & { readonly run: RunPosition } {
    const { sessionId } = this.#reader;
    const { tape, first, boundary } = this.#journal.record;
    const puts = [...(write.parts.puts ?? [])];
    const checks = [...(write.parts.checks ?? [])];
    const deletes: string[] = [];
    const wakes: string[] = [];
    if (saving.run) {
      puts.push({
        key: runKey(sessionId, this.#branch),
        value: encodeRun({ ...this.run, ...saving.run, head: seq }, this.#reader.context.registry),
      });
      const at = this.#dueAfter(saving, inbox);
      const { priority, external } = this.#due;
      const due = at === undefined ? undefined : { ...newQueueEntry(this.#agent.name, at, priority), external };
      const change = changeQueueEntry(sessionId, this.#branch, this.#due, due);
      puts.push(...change.puts);
      deletes.push(...change.deletes);
      if (at === 0) wakes.push(this.#agent.name);
    }
    checks.push(...(inbox?.checks ?? []));
    const count = saving.shown ? write.countAfter(saving.entries) : 0;
    return {
      ...write.parts,
      checks,
      puts,
      ...(deletes.length > 0 && { deletes }),
      ...(wakes.length > 0 && { wakes }),
      run: {
        boundary,
        journal: count > 0 ? { tape, start: first, count } : undefined,
        midStep: saving.midStep,
        turn: this.run.turn,
        output: write.output === undefined ? undefined : { tape, start: write.output, count: 1 },
      },
    };
  }

  /** When somebody should look at it again; `undefined` where it is over. */
  #dueAfter(saving: RunCheckpoint, inbox: Inbox | undefined): number | null | undefined {
    const next = inbox?.waiting && saving.status === "completed" && this.#agent.definition.receive !== undefined;
    return saving.runAt === undefined && next ? 0 : saving.runAt;
  }

  async #readInbox(): Promise<Inbox> {
    const key = inboxKey(this.#reader.sessionId, this.#branch);
    const [record] = await this.#reader.context.store.get([key]);
    if (record && !("value" in record)) {
      // It is not for a run that is done to fail over it. Whoever goes on with the session is told again.
      this.#reader.reportDamage(undefined, undefined, record.unreadable);
      return { key, checks: [], waiting: true };
    }
    const value = record?.value;
    const { first, next } = value === undefined ? { first: 0, next: 0 } : decodeInbox(value);
    return { key, checks: [{ key, value }], waiting: next > first };
  }
}
