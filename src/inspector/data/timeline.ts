/** The journal as spans: what ran when, in parallel with what, and where another process continued. Pure. */
import type { CheckpointInfo, JournalEntry, JournalHole, Usage } from "../../index.js";
import type { Takeover, TimelineSpan, TimelineStep } from "../api.js";
import { isSameStep, keyOfEffect } from "./journal-pages.js";
import { cut, omitUndefined } from "./views.js";

const MAX_MESSAGE = 500;
/** Durations are measured by another clock than times, in milliseconds. */
const CLOCK_SLACK = 50;

/** A claim of the run within a step: its first and its last recorded time. */
interface StepClaim {
  readonly epoch: number;
  readonly worker: string | undefined;
  from: number;
  to: number;
}

/** The effects of a step, oldest first. */
interface StepEntries {
  readonly effects: JournalEntry[];
  readonly holes: string[];
}

/**
 * Builds the steps of a page, newest first.
 *
 * @param entries newest first
 * @param older the newest effect of the step before the page
 * @param checkpoints those of the page, to know where the run has waited
 */
export function buildTimeline(
  entries: readonly (JournalEntry | JournalHole)[],
  older: JournalEntry | undefined,
  checkpoints: readonly CheckpointInfo[],
): TimelineStep[] {
  const groups = groupSteps(entries);
  const waits = checkpoints.filter(({ status }) => status === "waiting").map(({ createdAt }) => createdAt);
  return groups.map(({ effects, holes }, index) => {
    const before = groups[index + 1]?.effects.at(-1) ?? (index === groups.length - 1 ? older : undefined);
    return toStep(effects, holes, before, waits);
  });
}

function groupSteps(entries: readonly (JournalEntry | JournalHole)[]): StepEntries[] {
  const groups: StepEntries[] = [];
  for (const entry of entries) {
    let group = groups.at(-1);
    const first = group?.effects[0];
    if (!group || (entry.kind !== "hole" && first && !isSameStep(first, entry))) {
      group = { effects: [], holes: [] };
      groups.push(group);
    }
    if (entry.kind === "hole") group.holes.push(entry.reason);
    else group.effects.unshift(entry);
  }
  return groups;
}

function toStep(
  effects: readonly JournalEntry[],
  holes: readonly string[],
  before: JournalEntry | undefined,
  waits: readonly number[],
): TimelineStep {
  const claims = claimsOf(effects);
  const spans = toSpans(effects, claims);
  const [first] = effects;
  // A step without a checkpoint is in progress, even if none of its effects is.
  const isOpen = spans.some(({ endedAt }) => endedAt === undefined) || effects.some(({ checkpoint }) => !checkpoint);
  const previous = before && first && before.turn === first.turn ? claimsOf([before]).at(-1) : undefined;
  const idle = [...(before ? [before] : []), ...effects].filter(({ kind }) => kind === "sleep" || kind === "ask");
  const isWait = (from: number, to: number): boolean =>
    waits.some((at) => at >= from - CLOCK_SLACK && at < to) ||
    idle.some((effect) => {
      const endedAt = endOf(effect) ?? to;
      return effect.startedAt <= from && endedAt >= from && endedAt <= to;
    });
  return omitUndefined({
    turn: first?.turn ?? 0,
    step: first?.step,
    startedAt: Math.min(...spans.map(({ startedAt }) => startedAt), ...(spans.length > 0 ? [] : [0])),
    endedAt: isOpen ? undefined : Math.max(0, ...spans.map(({ endedAt = 0 }) => endedAt)),
    seq: effects.flatMap(({ checkpoint }) => checkpoint?.seq ?? []).at(-1),
    usage: sumUsage(effects),
    spans,
    takeovers: toTakeovers(previous && claims[0]?.epoch !== previous.epoch ? [previous, ...claims] : claims, isWait),
    holes,
  });
}

/** When an effect has ended; `undefined` if it has not. */
function endOf({ outcome, startedAt, executedAt, answeredAt, duration, claims }: JournalEntry): number | undefined {
  if (outcome !== "recorded" && outcome !== "failed") return undefined;
  if (answeredAt !== undefined) return Math.max(startedAt, answeredAt);
  return duration === undefined ? (claims.at(-1)?.to ?? startedAt) : (executedAt ?? startedAt) + duration;
}

/** All claims under which effects were recorded, in their order. */
function claimsOf(effects: readonly JournalEntry[]): StepClaim[] {
  const byEpoch = new Map<number, StepClaim>();
  for (const { epoch, worker, from, to } of effects.flatMap(({ claims }) => claims)) {
    const known = byEpoch.get(epoch);
    if (!known) byEpoch.set(epoch, { epoch, worker, from, to });
    else [known.from, known.to] = [Math.min(known.from, from), Math.max(known.to, to)];
  }
  return [...byEpoch.values()].sort((a, b) => a.epoch - b.epoch);
}

function toTakeovers(claims: readonly StepClaim[], isWait: (from: number, to: number) => boolean): Takeover[] {
  return claims.slice(1).map((claim, index) => {
    const old = claims[index] as StepClaim;
    // A sleep that both of them have recorded lasts longer than the first claim.
    const lastAt = Math.min(old.to, claim.from);
    return omitUndefined({
      from: old.epoch,
      to: claim.epoch,
      lastAt,
      at: claim.from,
      kind: isWait(lastAt, claim.from) ? ("resumed" as const) : ("interrupted" as const),
      fromWorker: old.worker,
      toWorker: claim.worker,
    });
  });
}

function toSpans(effects: readonly JournalEntry[], claims: readonly StepClaim[]): TimelineSpan[] {
  const lanes: number[] = [];
  return [...effects]
    .sort((a, b) => a.startedAt - b.startedAt || a.index - b.index)
    .map((effect) => {
      const { index, kind, name, callId, startedAt, attempts, outcome, error } = effect;
      const { settledBy, usage, until, worker } = effect;
      const last = effect.claims.at(-1);
      const endedAt = endOf(effect);
      const free = lanes.findIndex((busyUntil) => busyUntil <= startedAt);
      const lane = free < 0 ? lanes.length : free;
      lanes[lane] = Math.max(endedAt ?? Number.POSITIVE_INFINITY, startedAt + 1);
      return omitUndefined({
        key: keyOfEffect(effect),
        index,
        kind,
        name: cut(name, MAX_MESSAGE),
        callId,
        startedAt,
        endedAt,
        lane,
        attempts,
        replays: endedAt !== undefined && last ? claims.filter(({ epoch }) => epoch > last.epoch).length : 0,
        outcome,
        settledBy,
        error: error && cut(`${error.name}: ${error.message}`, MAX_MESSAGE),
        usage,
        until,
        worker,
        epoch: last?.epoch,
      });
    });
}

function sumUsage(effects: readonly JournalEntry[]): Usage | undefined {
  const used = effects.flatMap(({ usage }) => (usage ? [usage] : []));
  if (used.length === 0) return undefined;
  const total = (field: keyof Usage): number => used.reduce((sum, usage) => sum + (usage[field] ?? 0), 0);
  return { tokens: total("tokens"), cost: total("cost") };
}
