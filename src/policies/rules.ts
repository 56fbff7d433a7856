/** The retention rules: which checkpoints of a session are kept, and why. Pure functions over rows. */
import { validateCount, validateFields, type Duration, invalidArgument, toMilliseconds } from "../util/index.js";
import { type CheckpointKind, expiryOf, type CheckpointRow } from "../records/index.js";

/**
 * Which checkpoints are kept. A checkpoint is kept if at least one of these options keeps it, and removed otherwise. Expired
 * checkpoints are always removed. With only `ttl` or `expired`, all unexpired checkpoints are kept.
 */
export interface RetentionOptions {
  /** Keeps this many of the newest checkpoints that were saved on each branch. */
  readonly keepLast?: number;
  /** Keeps the newest checkpoint of each of the last so many hours that have any. Hours, days and weeks are in UTC. */
  readonly keepHourly?: number;
  /** Keeps the newest checkpoint of each of the last so many days that have any. */
  readonly keepDaily?: number;
  /** Keeps the newest checkpoint of each of the last so many weeks that have any. Weeks start on Monday. */
  readonly keepWeekly?: number;
  /** Keeps all checkpoints that are younger than this. */
  readonly keepWithin?: Duration;
  /**
   * Keeps all checkpoints with a label.
   * @default true
   */
  readonly keepLabelled?: boolean;
  /**
   * Removes only checkpoints of these kinds.
   * @default all kinds
   */
  readonly kinds?: readonly CheckpointKind[];
  /**
   * The lifetime of checkpoints that were saved without one. After it they have expired and are removed, even if another
   * option would keep them; except labelled ones while `keepLabelled` is true.
   * @default none
   */
  readonly ttl?: Duration;
  /**
   * Removes only expired checkpoints. Cannot be combined with `keepLast`, `keepHourly`, `keepDaily`, `keepWeekly` or
   * `keepWithin`.
   * @default false
   */
  readonly expired?: boolean;
}

/** Why a checkpoint is kept. */
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
  | "within"
  | "unexpired";

/** Parsed {@link RetentionOptions}, with durations in milliseconds. */
export interface RetentionRules {
  readonly last: number;
  readonly hourly: number;
  readonly daily: number;
  readonly weekly: number;
  readonly within: number | undefined;
  readonly labelled: boolean;
  readonly kinds: readonly CheckpointKind[] | undefined;
  /** The lifetime of checkpoints that have none of their own. */
  readonly ttl: number | undefined;
  /** Whether all unexpired checkpoints are kept. */
  readonly unexpired: boolean;
}

const KEEPS = ["keepLast", "keepHourly", "keepDaily", "keepWeekly", "keepWithin"] as const;
const FIELDS = new Set<string>([...KEEPS, "keepLabelled", "kinds", "ttl", "expired"]);
const HOUR = 3_600_000;
const DAY = 24 * HOUR;
const WEEK = 7 * DAY;
/** 1970-01-01 was a Thursday. */
const FIRST_MONDAY = 4 * DAY;

/** Validates retention options. Throws `INVALID_ARGUMENT` if they are invalid, contradictory or keep nothing. */
export function parseRetentionOptions(options: RetentionOptions): RetentionRules {
  validateFields(options, "A retention policy", FIELDS);
  const { keepLast, keepHourly, keepDaily, keepWeekly, keepWithin, keepLabelled = true, kinds } = options;
  const counts = { keepLast, keepHourly, keepDaily, keepWeekly };
  for (const [name, count] of Object.entries(counts)) validateCount(count, `\`${name}\``);
  const within = keepWithin === undefined ? undefined : toMilliseconds(keepWithin, "keepWithin");
  const ttl = options.ttl === undefined ? undefined : toMilliseconds(options.ttl, "ttl");
  const kept = KEEPS.filter((name) => options[name] !== undefined);
  if (kept.length === 0 && ttl === undefined && !options.expired) {
    throw invalidArgument(
      `The retention options keep nothing. Set at least one of ${KEEPS.join(", ")}, ttl or expired.`,
    );
  }
  if (kept.length > 0 && options.expired) {
    throw invalidArgument(
      `\`expired\` removes only expired checkpoints and cannot be combined with ${kept.join(" and ")}. Remove one of them.`,
    );
  }
  return {
    last: keepLast ?? 0,
    hourly: keepHourly ?? 0,
    daily: keepDaily ?? 0,
    weekly: keepWeekly ?? 0,
    within,
    labelled: Boolean(keepLabelled),
    kinds: kinds && [...kinds],
    ttl,
    unexpired: kept.length === 0,
  };
}

/** When a checkpoint expires, by its own `ttl` or else by that of the rules; `undefined` if it never does. */
export function effectiveExpiry(
  row: CheckpointRow,
  { ttl, labelled }: RetentionRules,
  isLabelled: boolean,
): number | undefined {
  return expiryOf(row) ?? (ttl === undefined || (labelled && isLabelled) ? undefined : row.createdAt + ttl);
}

/** Why checkpoints are kept, by seq. Checkpoints without an entry can be removed. */
export function keepReasons(
  rows: readonly CheckpointRow[],
  retention: RetentionRules,
  now: number,
  isLabelled: (row: CheckpointRow) => boolean,
): Map<number, KeepReason[]> {
  const reasons = new Map<number, KeepReason[]>();
  const keep = (row: CheckpointRow, reason: KeepReason): void => {
    reasons.set(row.seq, [...(reasons.get(row.seq) ?? []), reason]);
  };
  const { last, hourly, daily, weekly, within, kinds, labelled, unexpired } = retention;
  const live: CheckpointRow[] = [];
  for (const row of rows) {
    if (kinds && !kinds.includes(row.kind)) keep(row, "kind");
    const deadline = effectiveExpiry(row, retention, isLabelled(row));
    if (deadline !== undefined && now > deadline) continue;
    live.push(row);
    if (labelled && isLabelled(row)) keep(row, "labelled");
    if (within !== undefined && row.createdAt > now - within) keep(row, "within");
    if (unexpired) keep(row, "unexpired");
  }
  for (const ofBranch of groupByBranch(live)) {
    const newestFirst = ofBranch.slice().reverse();
    for (const row of newestFirst.slice(0, last)) keep(row, "last");
    for (const row of newestOfEach(newestFirst, HOUR, 0, hourly)) keep(row, "hourly");
    for (const row of newestOfEach(newestFirst, DAY, 0, daily)) keep(row, "daily");
    for (const row of newestOfEach(newestFirst, WEEK, FIRST_MONDAY, weekly)) keep(row, "weekly");
  }
  return reasons;
}

/** The rows of each branch, in their order. */
export function groupByBranch(rows: readonly CheckpointRow[]): Iterable<CheckpointRow[]> {
  const branches = new Map<string, CheckpointRow[]>();
  for (const row of rows) {
    const ofBranch = branches.get(row.branch);
    if (ofBranch) ofBranch.push(row);
    else branches.set(row.branch, [row]);
  }
  return branches.values();
}

/** The newest row of each of the last `count` periods that have any. */
function newestOfEach(
  newestFirst: readonly CheckpointRow[],
  length: number,
  offset: number,
  count: number,
): CheckpointRow[] {
  const kept = new Map<number, CheckpointRow>();
  for (const row of newestFirst) {
    const period = Math.floor((row.createdAt - offset) / length);
    if (kept.has(period)) continue;
    if (kept.size >= count) break;
    kept.set(period, row);
  }
  return [...kept.values()];
}
