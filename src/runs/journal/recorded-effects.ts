/**
 * The effects of one step: which were recorded before a crash, which are under way, and in which order the step gets
 * their results.
 *
 * Effects are told apart by the order in which the step starts them. Results are given to the step one at a time, in the
 * order in which they came, and the step runs until it waits for something before it gets the next one. So a step that
 * is run again, and gets what was recorded in the same order, does the same thing again, whatever ran in parallel.
 */
import { type ClassRegistry, equalsShadow, shadowToValue } from "../../state/index.js";
import { setImmediate as turn } from "node:timers/promises";
import type { EffectCall, EffectUsage, JournalOperation, EffectOutcome, EffectStart } from "./entry.js";

/** An effect that was recorded before this attempt of the step. */
export interface RecordedEffect {
  readonly index: number;
  readonly started: EffectStart;
  /** Is there an entry that says it was begun, and nothing since that says how it ended? */
  isUnknown: boolean;
  outcome: EffectOutcome | undefined;
  usage: EffectUsage | undefined;
  /** Its place among the results, in the order in which they came. */
  order: number;
  waiting?: () => void;
}

/** Effects whose results the step gets at once: they wait for nothing. */
export const IMMEDIATE_KINDS: ReadonlySet<string> = new Set(["now", "random", "uuid"]);

/** What the entries of a journal say about the effects of a step. */
export class RecordedEffects {
  readonly byIndex = new Map<number, RecordedEffect>();
  /** Results of tools that are kept by the ids of their calls, when a step begins anew. */
  readonly #kept = new Map<string, RecordedEffect[]>();
  readonly #ordered: RecordedEffect[] = [];

  constructor(entries: readonly JournalOperation[]) {
    for (const entry of entries) {
      if (entry.op === "kept") {
        const { index, started, outcome } = entry;
        const kept = { index, started, isUnknown: !outcome, outcome, usage: undefined, order: -1 };
        this.#kept.set(nameOf(started), [...(this.#kept.get(nameOf(started)) ?? []), kept]);
        continue;
      }
      const known = this.byIndex.get(entry.index);
      if (entry.op === "start") {
        if (known) known.isUnknown = true;
        else this.#add(entry.index, entry.started, true);
      } else if (entry.op === "again" && known) {
        known.isUnknown = false;
        known.outcome = undefined;
        const place = this.#ordered.indexOf(known);
        if (place >= 0) this.#ordered.splice(place, 1);
      } else if (entry.op === "end") {
        const effect = known ?? this.#add(entry.index, entry.started as EffectStart, false);
        effect.isUnknown = false;
        effect.outcome = entry.outcome;
        effect.usage = entry.usage;
        if (!IMMEDIATE_KINDS.has(effect.started.kind)) this.#ordered.push(effect);
      }
    }
    for (const [order, effect] of this.#ordered.entries()) effect.order = order;
  }

  get ordered(): readonly RecordedEffect[] {
    return this.#ordered;
  }

  /** All that are kept, in order. */
  get kept(): RecordedEffect[] {
    return [...this.#kept.values()].flat();
  }

  /** What is kept of a call: the first of those with its name and id goes to the first that asks. */
  claimKept(call: EffectCall): RecordedEffect | undefined {
    return call.callId === undefined ? undefined : this.#kept.get(nameOf(call))?.shift();
  }

  #add(index: number, started: EffectStart, unknown: boolean): RecordedEffect {
    const effect: RecordedEffect = {
      index,
      started,
      isUnknown: unknown,
      outcome: undefined,
      usage: undefined,
      order: -1,
    };
    this.byIndex.set(index, effect);
    return effect;
  }
}

function nameOf({ name, callId = "" }: EffectCall): string {
  return JSON.stringify([name, callId]);
}

/** Is it the same call? */
export function isSameCall(recorded: EffectCall, called: EffectCall, registry: ClassRegistry): boolean {
  const { kind, name, callId, args } = recorded;
  if (kind !== called.kind || name !== called.name || callId !== called.callId) return false;
  if (args === undefined || called.args === undefined) return args === called.args;
  return equalsShadow(args, shadowToValue(called.args, registry), registry);
}

/** A call for messages. */
export function describeCall({ kind, name, callId, args }: EffectCall, registry: ClassRegistry): string {
  const id = callId === undefined ? "" : ` ${JSON.stringify(callId)}`;
  const given = args === undefined || kind === "llm" ? "" : ` with ${show(shadowToValue(args, registry))}`;
  return name === kind ? `run.${kind}()${given}` : `run.${kind}() ${JSON.stringify(name)}${id}${given}`;
}

function show(value: unknown): string {
  const text =
    JSON.stringify(value, (_, part: unknown) => (typeof part === "bigint" ? String(part) : part)) ?? "nothing";
  return text.length > 200 ? `${text.slice(0, 200)}…` : text;
}

/** How long a result that has come waits for one that came before it and that the step has not asked for again. */
const PATIENCE = 5000;

/** Who is told about deliveries. */
export interface DeliveryListener {
  /** The step does not ask for what it had asked for before. */
  stuck(effect: RecordedEffect): void;
  /** It has been given what there is, and had its turn. */
  quiet(): void;
}

/** Gives the step its results, one at a time. */
export class Deliveries {
  readonly #recorded: readonly RecordedEffect[];
  readonly #told: DeliveryListener;
  #next = 0;
  readonly #live: (() => void)[] = [];
  #resting = false;
  /** Recorded results that were asked for and not given yet. */
  #asked = 0;
  #patience: NodeJS.Timeout | undefined;
  /** Results given so far. */
  count = 0;

  constructor(deliverRecorded: readonly RecordedEffect[], told: DeliveryListener) {
    this.#recorded = deliverRecorded;
    this.#told = told;
  }

  /** The recorded result that comes next and was not given yet. */
  get missing(): RecordedEffect | undefined {
    return this.#recorded[this.#next];
  }

  /** Has the step been given all there is, and had its turn since? */
  get isQuiet(): boolean {
    return !this.#resting && this.#live.length === 0;
  }

  /** The step has asked for something that was recorded. */
  recorded(effect: RecordedEffect, give: () => void): void {
    effect.waiting = give;
    this.#asked++;
    this.#pump();
  }

  /** A result has come. */
  deliverLive(give: () => void): void {
    this.#live.push(give);
    this.#pump();
  }

  /** Resolves when the step has been given all that it has asked for. */
  async drained(): Promise<void> {
    while (!this.isQuiet || this.missing?.waiting) await turn();
  }

  /** Something waits for what the step has not asked for: if it does not, it does something else than it did. */
  startTimeout(): void {
    const { missing } = this;
    if (missing) this.#patience ??= setTimeout(() => this.#told.stuck(missing), PATIENCE);
  }

  close(): void {
    clearTimeout(this.#patience);
    this.#live.length = 0;
    this.#resting = true;
  }

  #pump(): void {
    if (this.#resting) return;
    const { missing } = this;
    const give = missing ? missing.waiting : this.#live.shift();
    if (!give) {
      if (missing && this.#live.length + this.#asked > 0) this.startTimeout();
      return;
    }
    if (missing) {
      this.#next++;
      this.#asked--;
    }
    clearTimeout(this.#patience);
    this.#patience = undefined;
    this.count++;
    this.#resting = true;
    give();
    setImmediate(() => {
      this.#resting = false;
      this.#pump();
      if (this.isQuiet) this.#told.quiet();
    });
  }
}
