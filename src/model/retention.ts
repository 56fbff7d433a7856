/** Which checkpoints stay when a session is pruned, and why. Pure: it looks at rows, and never at states. */
import { type Duration, toMilliseconds } from "../store/duration.js";
import { checkCount, checkFields, invalidArgument } from "./arguments.js";
import type { CheckpointKind } from "./checkpoint.js";
import type { Row } from "./records.js";

/** What is kept. A checkpoint stays if any of these wants it; what none wants goes. */
export interface RetentionOptions {
  /** The newest so many of each branch, counting those that were saved on it. */
  readonly keepLast?: number;
  /** The newest of each of the last so many hours, days or weeks in which there are any; by UTC, weeks from Monday. */
  readonly keepHourly?: number;
  readonly keepDaily?: number;
  readonly keepWeekly?: number;
  /** All that are younger. */
  readonly keepWithin?: Duration;
  /**
   * All that have a label.
   * @default true
   */
  readonly keepLabelled?: boolean;
  /**
   * Only checkpoints of these kinds may go.
   * @default all kinds
   */
  readonly kinds?: readonly CheckpointKind[];
}

/** Why a checkpoint stays. */
export type KeepReason =
  | "head"
  | "pinned"
  | "needed"
  | "labelled"
  | "kind"
  | "last"
  | "hourly"
  | "daily"
  | "weekly"
  | "within";

/** Options, checked. */
export interface Retention {
  readonly last: number;
  readonly hourly: number;
  readonly daily: number;
  readonly weekly: number;
  readonly within: number | undefined;
  readonly labelled: boolean;
  readonly kinds: readonly CheckpointKind[] | undefined;
}

const FIELDS = new Set(["keepLast", "keepHourly", "keepDaily", "keepWeekly", "keepWithin", "keepLabelled", "kinds"]);
const HOUR = 3_600_000;
const DAY = 24 * HOUR;
const WEEK = 7 * DAY;
/** 1970 began on a Thursday. */
const FIRST_MONDAY = 4 * DAY;

export function takeRetention(options: RetentionOptions): Retention {
  checkFields(options, "What is kept", FIELDS);
  const { keepLast, keepHourly, keepDaily, keepWeekly, keepWithin, keepLabelled = true, kinds } = options;
  const counts = { keepLast, keepHourly, keepDaily, keepWeekly };
  for (const [name, count] of Object.entries(counts)) checkCount(count, `\`${name}\``);
  const within = keepWithin === undefined ? undefined : toMilliseconds(keepWithin, "keepWithin");
  if (within === undefined && Object.values(counts).every((count) => count === undefined)) {
    throw invalidArgument("Nothing says what is kept. Give keepLast, keepHourly, keepDaily, keepWeekly or keepWithin.");
  }
  return {
    last: keepLast ?? 0,
    hourly: keepHourly ?? 0,
    daily: keepDaily ?? 0,
    weekly: keepWeekly ?? 0,
    within,
    labelled: Boolean(keepLabelled),
    kinds: kinds && [...kinds],
  };
}

/** The reasons for which checkpoints stay, by seq; those that go have none. */
export function keepReasons(
  rows: readonly Row[],
  retention: Retention,
  now: number,
  isLabelled: (row: Row) => boolean,
): Map<number, KeepReason[]> {
  const reasons = new Map<number, KeepReason[]>();
  const keep = (row: Row, reason: KeepReason): void => {
    reasons.set(row.seq, [...(reasons.get(row.seq) ?? []), reason]);
  };
  const { last, hourly, daily, weekly, within, kinds, labelled } = retention;
  for (const row of rows) {
    if (kinds && !kinds.includes(row.kind)) keep(row, "kind");
    if (labelled && isLabelled(row)) keep(row, "labelled");
    if (within !== undefined && row.createdAt > now - within) keep(row, "within");
  }
  for (const ofBranch of byBranch(rows)) {
    const newestFirst = ofBranch.slice().reverse();
    for (const row of newestFirst.slice(0, last)) keep(row, "last");
    for (const row of newestOfEach(newestFirst, HOUR, 0, hourly)) keep(row, "hourly");
    for (const row of newestOfEach(newestFirst, DAY, 0, daily)) keep(row, "daily");
    for (const row of newestOfEach(newestFirst, WEEK, FIRST_MONDAY, weekly)) keep(row, "weekly");
  }
  return reasons;
}

function byBranch(rows: readonly Row[]): Iterable<Row[]> {
  const branches = new Map<string, Row[]>();
  for (const row of rows) {
    const known = branches.get(row.branch);
    if (known) known.push(row);
    else branches.set(row.branch, [row]);
  }
  return branches.values();
}

/** The newest of each of the last `count` stretches of time in which there are any. */
function newestOfEach(newestFirst: readonly Row[], length: number, offset: number, count: number): Row[] {
  const kept = new Map<number, Row>();
  for (const row of newestFirst) {
    const stretch = Math.floor((row.createdAt - offset) / length);
    if (kept.has(stretch)) continue;
    if (kept.size >= count) break;
    kept.set(stretch, row);
  }
  return [...kept.values()];
}
