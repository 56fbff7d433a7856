import { partitionPoint } from "./partition-point.js";

/** A range of integers: `count` numbers from `start`. */
export interface Span {
  readonly start: number;
  readonly count: number;
}

/** A set of integers, kept as sorted ranges that neither overlap nor touch. */
export class IntervalSet {
  #spans: { start: number; end: number }[] = [];

  /** Adds a range and returns the parts of it that were not yet in the set. */
  add(start: number, count: number): Span[] {
    const end = start + count;
    if (count <= 0) return [];
    const from = partitionPoint(this.#spans, (span) => span.end < start);
    let to = from;
    const fresh: Span[] = [];
    let at = start;
    let merged = { start, end };
    for (; to < this.#spans.length; to++) {
      const span = this.#spans[to] as { start: number; end: number };
      if (span.start > end) break;
      if (span.start > at) fresh.push({ start: at, count: span.start - at });
      at = Math.max(at, span.end);
      merged = { start: Math.min(merged.start, span.start), end: Math.max(merged.end, span.end) };
    }
    if (at < end) fresh.push({ start: at, count: end - at });
    this.#spans.splice(from, to - from, merged);
    return fresh;
  }

  /** All ranges, in ascending order. */
  spans(): Span[] {
    return this.#spans.map(({ start, end }) => ({ start, count: end - start }));
  }
}
