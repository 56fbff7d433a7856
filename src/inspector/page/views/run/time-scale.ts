/** The horizontal axis of a timeline: long waits are shortened, so that the work between them stays visible. Pure. */

export interface Interval {
  readonly from: number;
  readonly to: number;
}

/** A wait that is drawn shorter than it was. */
export interface Gap extends Interval {
  /** Where it is drawn, from 0 to 1. */
  readonly left: number;
  readonly right: number;
}

export interface TimeScale {
  /** Where a time is drawn, from 0 to 1. */
  readonly at: (time: number) => number;
  readonly gaps: readonly Gap[];
}

/** All shortened gaps together take at most this share of the time that was worked. */
const GAP_SHARE = 0.5;
/** Gaps of fewer milliseconds stay as they are. */
const MIN_GAP = 300;

/** @param busy when something ran, in any order; they may overlap */
export function buildTimeScale(busy: readonly Interval[], from: number, to: number): TimeScale {
  const merged = mergeIntervals(busy, from, to);
  const worked = merged.reduce((sum, each) => sum + (each.to - each.from), 0);
  const pieces = toPieces(merged, from, to);
  const waits = pieces.filter(({ isBusy }) => !isBusy);
  const longest = Math.max(MIN_GAP, (worked * GAP_SHARE) / Math.max(1, waits.length));
  const widths = pieces.map(({ isBusy, from: start, to: end }) =>
    isBusy ? end - start : Math.min(end - start, longest),
  );
  const total = widths.reduce((sum, width) => sum + width, 0) || 1;
  let left = 0;
  const placed = pieces.map((piece, index) => {
    const right = left + (widths[index] as number) / total;
    const result = { ...piece, left, right, isShortened: piece.to - piece.from > (widths[index] as number) * 1.5 };
    left = right;
    return result;
  });
  return {
    at(time) {
      const piece = placed.find((each) => time <= each.to) ?? placed.at(-1);
      if (!piece || piece.to === piece.from) return piece ? piece.left : 0;
      const share = Math.min(1, Math.max(0, (time - piece.from) / (piece.to - piece.from)));
      return piece.left + share * (piece.right - piece.left);
    },
    gaps: placed
      .filter(({ isBusy, isShortened }) => !isBusy && isShortened)
      .map(({ from: start, to: end, left: begin, right }) => ({ from: start, to: end, left: begin, right })),
  };
}

function mergeIntervals(intervals: readonly Interval[], from: number, to: number): Interval[] {
  const sorted = intervals
    .map((each) => ({ from: Math.max(from, each.from), to: Math.min(to, each.to) }))
    .filter((each) => each.to > each.from)
    .sort((a, b) => a.from - b.from);
  const merged: { from: number; to: number }[] = [];
  for (const each of sorted) {
    const last = merged.at(-1);
    if (last && each.from <= last.to) last.to = Math.max(last.to, each.to);
    else merged.push({ ...each });
  }
  return merged;
}

function toPieces(busy: readonly Interval[], from: number, to: number): (Interval & { readonly isBusy: boolean })[] {
  const pieces: (Interval & { readonly isBusy: boolean })[] = [];
  let at = from;
  for (const each of busy) {
    if (each.from > at) pieces.push({ from: at, to: each.from, isBusy: false });
    pieces.push({ ...each, isBusy: true });
    at = each.to;
  }
  if (to > at) pieces.push({ from: at, to, isBusy: false });
  return pieces;
}
