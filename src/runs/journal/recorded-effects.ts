/** The effects of a step, as the entries of its journal describe them. */
import { type ClassRegistry, equalsShadow, shadowToValue } from "../../state/index.js";
import { SavepointError } from "../../errors.js";
import type { EffectCall, EffectOutcome, EffectStart, EffectUsage, JournalOperation } from "./entry.js";

/** An effect that was recorded before this attempt of the step. */
export interface RecordedEffect {
  readonly index: number;
  readonly started: EffectStart;
  /** Whether its start is recorded, and no result since. */
  isUnknown: boolean;
  outcome: EffectOutcome | undefined;
  usage: EffectUsage | undefined;
  /** Its place among the results, in the order in which they were recorded; -1 without one. */
  order: number;
}

/** Kinds of effects whose results are returned synchronously. */
export const IMMEDIATE_KINDS: ReadonlySet<string> = new Set(["now", "random", "uuid"]);

/** The effects in a journal, by number and in the order of their results. */
export class RecordedEffects {
  readonly byIndex = new Map<number, RecordedEffect>();
  /** The effects with results, in the order in which the results were recorded. */
  readonly ordered: RecordedEffect[] = [];
  /** Tool calls that are kept by their ids when a step is restarted. */
  readonly #kept = new Map<string, RecordedEffect[]>();

  constructor(entries: readonly JournalOperation[]) {
    for (const entry of entries) this.#apply(entry);
    for (const [order, effect] of this.ordered.entries()) effect.order = order;
  }

  /** All tool calls that are kept from a restarted step. */
  get kept(): RecordedEffect[] {
    return [...this.#kept.values()].flat();
  }

  /** Removes and returns the first kept tool call with this name and id. */
  claimKept(call: EffectCall): RecordedEffect | undefined {
    return call.callId === undefined ? undefined : this.#kept.get(toolCallKey(call))?.shift();
  }

  #forgetOutcome(effect: RecordedEffect): void {
    effect.outcome = undefined;
    if (this.ordered.includes(effect)) this.ordered.splice(this.ordered.indexOf(effect), 1);
  }

  #apply(entry: JournalOperation): void {
    const effect = this.byIndex.get(entry.index);
    switch (entry.op) {
      case "kept": {
        const key = toolCallKey(entry.started);
        this.#kept.set(key, [...(this.#kept.get(key) ?? []), newEffect(entry.index, entry.started, entry.outcome)]);
        return;
      }
      case "start":
        if (effect) {
          this.#forgetOutcome(effect);
          effect.isUnknown = true;
        } else this.byIndex.set(entry.index, newEffect(entry.index, entry.started, undefined));
        return;
      case "again":
        if (!effect) return;
        effect.isUnknown = false;
        this.#forgetOutcome(effect);
        return;
      case "end": {
        const ended = effect ?? (entry.started && newEffect(entry.index, entry.started, entry.outcome));
        if (!ended)
          throw new SavepointError("DAMAGED", `The journal has a result of effect ${entry.index}, but not its start.`);
        this.byIndex.set(entry.index, ended);
        ended.isUnknown = false;
        ended.outcome = entry.outcome;
        ended.usage = entry.usage;
        if (!IMMEDIATE_KINDS.has(ended.started.kind)) this.ordered.push(ended);
      }
    }
  }
}

function newEffect(index: number, started: EffectStart, outcome: EffectOutcome | undefined): RecordedEffect {
  return { index, started, isUnknown: !outcome, outcome, usage: undefined, order: -1 };
}

function toolCallKey({ name, callId = "" }: EffectCall): string {
  return JSON.stringify([name, callId]);
}

/** Returns whether two calls have the same identity. */
export function isSameCall(recorded: EffectCall, called: EffectCall, registry: ClassRegistry): boolean {
  const { kind, name, callId, args } = recorded;
  if (kind !== called.kind || name !== called.name || callId !== called.callId) return false;
  if (args === undefined || called.args === undefined) return args === called.args;
  return equalsShadow(args, shadowToValue(called.args, registry), registry);
}

/** Describes a call for error messages. */
export function describeCall({ kind, name, callId, args }: EffectCall, registry: ClassRegistry): string {
  const id = callId === undefined ? "" : ` ${JSON.stringify(callId)}`;
  const given = args === undefined || kind === "llm" ? "" : ` with ${formatShort(shadowToValue(args, registry))}`;
  return name === kind ? `run.${kind}()${given}` : `run.${kind}() ${JSON.stringify(name)}${id}${given}`;
}

function formatShort(value: unknown): string {
  const text =
    JSON.stringify(value, (_, part: unknown) => (typeof part === "bigint" ? String(part) : part)) ?? "nothing";
  return text.length > 200 ? `${text.slice(0, 200)}…` : text;
}
