/** Combines the entries of a journal into effects. */
import type { CheckpointRow } from "../../records/index.js";
import type { SessionReader } from "../../sessions/index.js";
import type { Hole, Piece } from "../../state/index.js";
import { type CurrentStep, isOfStep } from "./current-step.js";
import { CallCounter, EffectRecord, type EntryClaim } from "./effect-record.js";
import type { EntryResult } from "./entry-pages.js";
import type { JournalOperation, StepMark } from "./entry.js";
import { describeEffect, type JournalEntry, type JournalHole, type JournalOptions } from "./journal-entry.js";

/** Entries that belong together, and the checkpoint that lists them. */
export interface EntrySource {
  /** `undefined` for the entries of the current step that no checkpoint lists yet. */
  readonly row: CheckpointRow | undefined;
  readonly piece: Piece | undefined;
  readonly turn: number;
  /** Why the checkpoint that lists them cannot be read. */
  readonly unreadable?: string;
}

/** An effect, and where it is listed. */
class ListedEffect extends EffectRecord {
  source: EntrySource;
  readonly step: number | undefined;
  readonly turn: number | undefined;
  worker: string | undefined;

  constructor(index: number, nth: number, source: EntrySource, mark: StepMark | undefined) {
    super(index, nth);
    this.source = source;
    this.step = mark?.step;
    this.turn = mark?.turn;
  }
}

export type Listed = JournalEntry | JournalHole;

/** Combines the entries of consecutive checkpoints into effects. */
export class EffectTracker {
  readonly #reader: SessionReader;
  readonly #options: JournalOptions;
  readonly #isRunning: boolean;
  readonly #current: CurrentStep | undefined;
  #effects = new Map<number, ListedEffect>();
  #calls = new CallCounter();
  #mark: StepMark | undefined;
  #claim: EntryClaim | undefined;

  /**
   * @param isRunning whether effects without a result at the end are in progress
   * @param current the unfinished step, if its effects are described completely
   */
  constructor(reader: SessionReader, options: JournalOptions, isRunning: boolean, current?: CurrentStep) {
    this.#reader = reader;
    this.#options = options;
    this.#isRunning = isRunning;
    this.#current = current;
  }

  /** Adds entries of one source. Returns the effects that are complete, in the order of their numbers. */
  add(source: EntrySource, results: readonly EntryResult[]): Listed[] {
    const done: Listed[] = [];
    for (const result of results) {
      if ("unreadable" in result) {
        done.push(...this.end(), toHole(source, result.unreadable));
        continue;
      }
      const { mark, worker } = result.entry;
      if (mark && !mark.continues) done.push(...this.end());
      if (mark) [this.#mark, this.#claim] = [mark, { epoch: mark.epoch, worker }];
      // A tool call that is kept when its step is restarted is listed already.
      if (!isRepeated(result.entry)) this.#apply(source, result.entry, result.holes);
    }
    return [...done, ...this.#takeSettled()];
  }

  /** Ends the step. Returns the remaining effects. */
  end(isLast = false): Listed[] {
    const rest = [...this.#effects.values()].sort((a, b) => a.index - b.index);
    this.#effects = new Map();
    this.#calls = new CallCounter();
    return rest.flatMap((effect) => this.#describe(effect, isLast));
  }

  #apply(source: EntrySource, entry: JournalOperation, holes: readonly Hole[]): void {
    const { index } = entry;
    let effect = this.#effects.get(index);
    if (!effect) {
      effect = new ListedEffect(index, this.#calls.next(entry), source, this.#mark);
      this.#effects.set(index, effect);
    }
    effect.add(entry, this.#claim);
    effect.holes.push(...holes);
    effect.source = source;
    effect.worker = this.#claim?.worker ?? effect.worker;
  }

  /** Removes and describes the effects with results, up to the first effect without a result. */
  #takeSettled(): Listed[] {
    const settled: Listed[] = [];
    for (const effect of [...this.#effects.values()].sort((a, b) => a.index - b.index)) {
      if (effect.operations.at(-1)?.op !== "end") break;
      this.#effects.delete(effect.index);
      settled.push(...this.#describe(effect, false));
    }
    return settled;
  }

  #describe(effect: ListedEffect, isLast: boolean): Listed[] {
    const { source, step, turn, worker, holes } = effect;
    const { row } = source;
    const entry = describeEffect(effect, {
      registry: this.#reader.context.registry,
      open: isLast && this.#isRunning ? "running" : "unknown",
      values: this.#options.values ?? "full",
      turn: turn ?? source.turn,
      step: step ?? row?.step,
      worker,
      holes,
      inStep: this.#current && isOfStep(this.#current, row) ? this.#current : undefined,
      checkpoint: row && { seq: row.seq, id: row.id },
    });
    return entry ? [entry] : [];
  }
}

function isRepeated(entry: JournalOperation): boolean {
  return entry.op === "kept" || (entry.op === "end" && entry.isKept === true);
}

export function toHole({ row, turn }: EntrySource, reason: string): JournalHole {
  return { kind: "hole", turn, reason, checkpoint: row && { seq: row.seq, id: row.id } };
}
