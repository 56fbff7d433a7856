/** Which checkpoints stay when a session is pruned, and why. Pure: it looks at rows, and never at states. */
import { validateCount, validateFields, type Duration, invalidArgument, toMilliseconds } from "../util/index.js";
import { type CheckpointKind, expiryOf, type CheckpointRow } from "../records/index.js";

/**
 * What is kept. A checkpoint stays if any of these wants it; what none wants goes. What has expired goes in any case. Where
 * only `ttl` or `expired` is given, all else stays.
 */
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
  /**
   * A lifetime for those that were saved without one: after it they have expired, and go whatever else wants them; but for
   * labelled ones, while `keepLabelled` is true.
   * @default none
   */
  readonly ttl?: Duration;
  /**
   * Remove only what has expired. Needs no other option, and takes no `keepLast`, `keepHourly` and the like.
   * @default false
   */
  readonly expired?: boolean;
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
  | "within"
  | "unexpired";

/** Options, checked. */
export interface RetentionRules {
  readonly last: number;
  readonly hourly: number;
  readonly daily: number;
  readonly weekly: number;
  readonly within: number | undefined;
  readonly labelled: boolean;
  readonly kinds: readonly CheckpointKind[] | undefined;
  /** The lifetime of those that have none of their own. */
  readonly ttl: number | undefined;
  /** Does all stay that has not expired? */
  readonly unexpired: boolean;
}

const KEEPS = ["keepLast", "keepHourly", "keepDaily", "keepWeekly", "keepWithin"] as const;
const FIELDS = new Set<string>([...KEEPS, "keepLabelled", "kinds", "ttl", "expired"]);
const HOUR = 3_600_000;
const DAY = 24 * HOUR;
const WEEK = 7 * DAY;
/** 1970 began on a Thursday. */
const FIRST_MONDAY = 4 * DAY;

export function parseRetentionOptions(options: RetentionOptions): RetentionRules {
  validateFields(options, "What is kept", FIELDS);
  const { keepLast, keepHourly, keepDaily, keepWeekly, keepWithin, keepLabelled = true, kinds } = options;
  const counts = { keepLast, keepHourly, keepDaily, keepWeekly };
  for (const [name, count] of Object.entries(counts)) validateCount(count, `\`${name}\``);
  const within = keepWithin === undefined ? undefined : toMilliseconds(keepWithin, "keepWithin");
  const ttl = options.ttl === undefined ? undefined : toMilliseconds(options.ttl, "ttl");
  const kept = KEEPS.filter((name) => options[name] !== undefined);
  if (kept.length === 0 && ttl === undefined && !options.expired) {
    throw invalidArgument(`Nothing says what is kept. Give ${KEEPS.join(", ")}, ttl or expired.`);
  }
  if (kept.length > 0 && options.expired) {
    throw invalidArgument(
      `\`expired\` removes only what has expired: leave out ${kept.join(" and ")}, or \`expired\`.`,
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

/** When a checkpoint expires: by what was said of itself, or else of all; `undefined` if it never does. */
export function effectiveExpiry(
  row: CheckpointRow,
  { ttl, labelled }: RetentionRules,
  isLabelled: boolean,
): number | undefined {
  return expiryOf(row) ?? (ttl === undefined || (labelled && isLabelled) ? undefined : row.createdAt + ttl);
}

/** The reasons for which checkpoints stay, by seq; those that go have none. */
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

export function groupByBranch(rows: readonly CheckpointRow[]): Iterable<CheckpointRow[]> {
  const branches = new Map<string, CheckpointRow[]>();
  for (const row of rows) {
    const known = branches.get(row.branch);
    if (known) known.push(row);
    else branches.set(row.branch, [row]);
  }
  return branches.values();
}

/** The newest of each of the last `count` stretches of time in which there are any. */
function newestOfEach(
  newestFirst: readonly CheckpointRow[],
  length: number,
  offset: number,
  count: number,
): CheckpointRow[] {
  const kept = new Map<number, CheckpointRow>();
  for (const row of newestFirst) {
    const stretch = Math.floor((row.createdAt - offset) / length);
    if (kept.has(stretch)) continue;
    if (kept.size >= count) break;
    kept.set(stretch, row);
  }
  return [...kept.values()];
}
