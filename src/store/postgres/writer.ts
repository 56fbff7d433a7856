/**
 * Applies groups of commits, each with one statement: one round trip, and one wait for the disk of the server.
 *
 * If the connection is cut, it is unknown whether the statement was executed. It is sent again, and its checks prevent that it
 * is applied twice: if a check then fails, and exactly the records and items of the commit are stored, it was applied. For
 * items that the store numbers, it is enough that the items are stored: the counter may have been increased by others since,
 * and numbering the items again would add them twice.
 */
import { SavepointError } from "../../errors.js";
import { LruMap } from "../../util/index.js";
import { commitConflict, type CommitOutcome, type FailedCheck, testHooksOf } from "../shared/index.js";
import { type ChunkRow, type CompressedBody, compressBlobs, unpackChunk } from "../chunks/index.js";
import type { Commit, Frame } from "../contract/index.js";
import { textArray } from "./arrays.js";
import type { PostgresConnection } from "./connection.js";
import { fastCommit, type CommitStatement, statementName } from "./fast-commit.js";
import { fastGroup } from "./fast-group.js";
import { errorDetailOf, postgresFailure, sqlStateOf } from "./errors.js";
import { RESEND, COMMIT_PARAMETERS, CONFLICT_STATE } from "./functions.js";
import type { PostgresOptions, PostgresWritePoint } from "./options.js";
import { type CommitPlan, planCommit } from "./commit-plan.js";
import { isIntact, RECORD_COLUMNS, type PostgresRecordRow } from "./rows.js";
import { readItems } from "./chunk-reader.js";
import { EQ } from "./operators.js";

/** The most commits in one statement. Each is a subtransaction, and more than 64 are slow in PostgreSQL. */
const MAX_GROUP = 60;
/** The number of counters whose values are cached. */
const MAX_COUNTERS = 10_000;
/** How often a commit is retried because another process appended to the same tape. Each time, another one has made progress. */
const MAX_TRIES = 1000;
/** SQLSTATEs of values that the server cannot store, and of the division by zero by which a plain statement fails. */
const INVALID_DATA = /^(22|23|54)/;

/** Why a commit was not applied: the keys that failed, an earlier commit that has to be sent again, or an error. */
type Rejection = readonly string[] | typeof RESEND | SavepointError | undefined;

/** Counters that were just read. */
interface CounterReads {
  readonly damaged: ReadonlySet<string>;
  readonly fresh: ReadonlySet<string>;
}

export class PostgresWriter {
  readonly #connection: PostgresConnection;
  readonly #options: PostgresOptions;
  readonly #channel: string;
  readonly #usesPlainStatements: boolean;
  readonly #onApplied: (commit: Commit) => void;
  readonly #probe: (point: PostgresWritePoint) => void;
  /** The last known values of counters; `undefined` for a counter that does not exist. */
  readonly #counters = new LruMap<string, string | undefined>(MAX_COUNTERS);

  /** @param onApplied called for each commit that was applied */
  constructor(
    connection: PostgresConnection,
    channel: string,
    options: PostgresOptions & { readonly syncs: boolean },
    onApplied: (commit: Commit) => void,
  ) {
    this.#connection = connection;
    this.#channel = channel;
    this.#options = options;
    this.#onApplied = onApplied;
    // Only the function can set a durability other than the default of the server.
    this.#usesPlainStatements = options.syncs && options.durability !== "process";
    this.#probe = testHooksOf(options).probe ?? (() => {});
  }

  async apply(commits: readonly Commit[]): Promise<readonly CommitOutcome[]> {
    const outcomes: CommitOutcome[] = [];
    while (outcomes.length < commits.length) {
      const group = commits.slice(outcomes.length, outcomes.length + MAX_GROUP);
      const { done, failure } = await this.#applyGroup(group);
      outcomes.push(...done);
      // Earlier groups stay applied. Later ones would wait for the same failure again.
      if (failure) while (outcomes.length < commits.length) outcomes.push(failure);
    }
    return outcomes;
  }

  /** Applies one group. Commits whose assumptions about counters were wrong are planned and sent again. */
  async #applyGroup(commits: readonly Commit[]): Promise<{ done: CommitOutcome[]; failure?: SavepointError }> {
    const outcomes = new Map<Commit, CommitOutcome>();
    const done = (): CommitOutcome[] => commits.map((commit) => outcomes.get(commit) as CommitOutcome);
    let left = [...commits];
    try {
      const blobs = await compressBlobs(commits, this.#options.compress ?? true);
      for (let tries = 0; left.length > 0; tries++) {
        this.#probe("begin");
        const reads = await this.#readCounters(left, tries > 0);
        const again: Commit[] = [];
        for (const [commit, outcome] of await this.#send(left, blobs, reads)) {
          if (outcome !== "again") outcomes.set(commit, outcome);
          else if (tries < MAX_TRIES) again.push(commit);
          else
            outcomes.set(
              commit,
              new SavepointError("BUSY", "Writing failed: other processes keep appending to the same tape. Try again."),
            );
        }
        left = again;
      }
      return { done: done() };
    } catch (error) {
      const failure = postgresFailure(error, this.#connection.url, "Writing to");
      for (const commit of left) outcomes.set(commit, failure);
      return { done: done(), failure };
    }
  }

  async #send(
    commits: readonly Commit[],
    blobs: ReadonlyMap<string, CompressedBody>,
    { damaged, fresh }: CounterReads,
  ): Promise<[commit: Commit, outcome: CommitOutcome | "again"][]> {
    const outcomes: [Commit, CommitOutcome | "again"][] = [];
    const planned: [Commit, CommitPlan][] = [];
    const assumed = new Map(countersOf(commits).map((key) => [key, this.#counters.get(key)]));
    // A damaged counter fails only the commits that need it.
    for (const key of damaged) assumed.set(key, "damaged");
    const durable = this.#options.durability !== "process";
    for (const commit of commits) {
      try {
        const clock = this.#options.now && Math.floor(this.#options.now());
        const plan = planCommit(commit, { clock, durable, channel: this.#channel, counters: assumed, fresh, blobs });
        for (const { key, value, ifAbsent } of plan.written) {
          if (assumed.has(key) && (!ifAbsent || assumed.get(key) === undefined)) assumed.set(key, value);
        }
        planned.push([commit, plan]);
      } catch (error) {
        if (!(error instanceof SavepointError)) throw error;
        outcomes.push([commit, error]);
      }
    }
    const { failed, uncertain } = await this.#execute(planned.map(([, plan]) => plan));
    this.#probe("committed");
    for (const [index, [commit, plan]] of planned.entries()) {
      const keys = failed[index];
      if (keys instanceof SavepointError) {
        outcomes.push([commit, keys]);
        continue;
      }
      const applied = !keys || (uncertain && (await this.#isApplied(plan)));
      // In order: no commit is applied before an earlier one.
      if (!applied && (keys === RESEND || outcomes.at(-1)?.[1] === "again")) {
        outcomes.push([commit, "again"]);
      } else if (applied) {
        for (const [key, value] of plan.counters) this.#counters.set(key, value);
        this.#onApplied(commit);
        outcomes.push([commit, { firsts: plan.firsts }]);
      } else {
        const named = keys as readonly string[];
        const real = named.filter((key) => !plan.assumed.has(key));
        const again = real.length === 0 && named.some((key) => plan.counters.has(key));
        outcomes.push([commit, again ? "again" : commitConflict(sortByCheck(real.length > 0 ? real : named, commit))]);
      }
    }
    return outcomes;
  }

  /** Returns for each commit why it was rejected, or `undefined`; and whether an earlier attempt may have applied them. */
  async #execute(plans: readonly CommitPlan[]): Promise<{ failed: Rejection[]; uncertain: boolean }> {
    if (plans.length === 0) return { failed: [], uncertain: false };
    let uncertain = false;
    const onUncertain = (): void => void (uncertain = true);
    const { schema } = this.#connection;
    if (this.#usesPlainStatements && (await this.#executePlain(plans, onUncertain))) {
      return { failed: plans.map(() => undefined), uncertain };
    }
    const values = plans.flatMap((each) => each.values());
    const calls = plans.map((_, index) => {
      const first = index * COMMIT_PARAMETERS.length;
      const parameters = COMMIT_PARAMETERS.map((__, offset) => `$${first + offset + 1}`).join(",");
      return `${schema}.savepoint_${plans.length > 1 ? "try_" : ""}commit(${parameters}) AS c${index}`;
    });
    const sql = `SELECT ${calls.join(", ")}`;
    const name = plans.length === 1 ? statementName(sql) : undefined;
    const running = this.#connection.query(sql, values, "Writing to", { ...(name && { name }), onUncertain });
    this.#probe("sent");
    try {
      const { rows } = await running;
      const [row] = rows as Record<string, string | null>[];
      // A single commit that fails raises an error; of several, each returns the keys that failed.
      return {
        failed: plans.map((_, index) => (plans.length > 1 ? keysOf(row?.[`c${index}`]) : undefined)),
        uncertain,
      };
    } catch (error) {
      const cause = error instanceof SavepointError ? error.cause : error;
      const state = sqlStateOf(cause) ?? "";
      if (plans.length > 1 && INVALID_DATA.test(state)) return this.#executeEach(plans, uncertain);
      if (plans.length > 1 || state !== CONFLICT_STATE) throw error;
      return { failed: [keysOf(errorDetailOf(cause)) ?? []], uncertain };
    }
  }

  /** Applies commits one by one, if one of them contains invalid data, so that the others do not fail with it. */
  async #executeEach(
    plans: readonly CommitPlan[],
    before: boolean,
  ): Promise<{ failed: Rejection[]; uncertain: boolean }> {
    const failed: Rejection[] = [];
    let uncertain = before;
    for (const plan of plans) {
      // A commit whose assumption was wrong is sent again, and so are all later ones.
      if (failed.some((keys) => keys === RESEND)) {
        failed.push(RESEND);
        continue;
      }
      try {
        const alone = await this.#execute([plan]);
        const [keys] = alone.failed;
        uncertain ||= alone.uncertain;
        const isAssumption =
          Array.isArray(keys) && keys.length > 0 && keys.every((key: string) => plan.assumed.has(key));
        failed.push(isAssumption && !(uncertain && (await this.#isApplied(plan))) ? RESEND : keys);
      } catch (error) {
        const failure = postgresFailure(error, this.#connection.url, "Writing to");
        if (!INVALID_DATA.test(sqlStateOf(failure.cause) ?? "")) throw failure;
        failed.push(failure);
      }
    }
    return { failed, uncertain };
  }

  /** Applies commits with a plain statement. Returns false if the function has to apply them, or to report why they fail. */
  async #executePlain(plans: readonly CommitPlan[], onUncertain: () => void): Promise<boolean> {
    const { schema } = this.#connection;
    const [plan] = plans;
    const fast: CommitStatement | undefined =
      plan && plans.length === 1 ? fastCommit(schema, plan) : fastGroup(schema, plans);
    if (!fast) return false;
    const { name, sql, values } = fast;
    const running = this.#connection.query(sql, values, "Writing to", { ...(name && { name }), onUncertain });
    this.#probe("sent");
    try {
      await running;
      return true;
    } catch (error) {
      // A check failed, or a commit contains invalid data: the function applies each commit separately.
      if (INVALID_DATA.test(sqlStateOf(error instanceof SavepointError ? error.cause : error) ?? "")) return false;
      throw error;
    }
  }

  /** Whether everything that a commit writes is stored. */
  async #isApplied({ written, deleted, rows, assumed }: CommitPlan): Promise<boolean> {
    if (assumed.size > 0 && rows.length > 0) return this.#areStored(rows);
    const puts = written.filter(({ ifAbsent }) => !ifAbsent);
    if (puts.length + deleted.length + rows.length === 0) return false;
    const keys = [...puts.map(({ key }) => key), ...deleted];
    const found = await this.#records(keys);
    const isSame = puts.every(
      ({ key, value, refs }) => found.get(key)?.value === value && found.get(key)?.refs === refs,
    );
    if (!isSame || deleted.some((key) => found.has(key))) return false;
    return this.#areStored(rows);
  }

  /** Whether these items are stored. They may have been packed with others meanwhile. */
  async #areStored(rows: readonly ChunkRow[]): Promise<boolean> {
    const spans = rows.map(({ tape, first, count }) => ({ tape, start: first, count }));
    const stored = await readItems(this.#connection, spans);
    const wanted = rows.flatMap((row) => unpackChunk(row)) as readonly Frame[];
    return wanted.every(({ json, refs }, index) => {
      const item = stored[index];
      return item !== undefined && "json" in item && item.json === json && item.refs === refs;
    });
  }

  /** Reads counters that are not cached; all of them, if an assumption was wrong. */
  async #readCounters(commits: readonly Commit[], again: boolean): Promise<CounterReads> {
    const keys = new Set(countersOf(commits).filter((key) => again || !this.#counters.has(key)));
    const damaged = new Set<string>();
    const found = keys.size === 0 ? new Map<string, PostgresRecordRow>() : await this.#records([...keys]);
    for (const key of keys) {
      const row = found.get(key);
      if (row && !isIntact(row)) {
        this.#counters.delete(key);
        damaged.add(key);
      } else this.#counters.set(key, row?.value);
    }
    return { damaged, fresh: keys };
  }

  async #records(keys: readonly string[]): Promise<Map<string, PostgresRecordRow>> {
    const sql = `SELECT ${RECORD_COLUMNS} FROM ${this.#connection.schema}.savepoint_record WHERE key ${EQ} ANY ($1::pg_catalog.text[])`;
    const rows = await this.#connection.rows<PostgresRecordRow>(sql, [textArray(keys)]);
    return new Map(rows.map((row) => [row.key, row]));
  }
}

/** The counters that number the items of these commits. */
function countersOf(commits: readonly Commit[]): string[] {
  return commits.flatMap(({ items = [] }) => items.flatMap((batch) => ("counter" in batch ? [batch.counter] : [])));
}

/** The failed conditions of a commit in the order of its checks, with the tags of those. */
function sortByCheck(keys: readonly string[], { checks = [] }: Commit): FailedCheck[] {
  const place = (key: string): number => {
    const index = checks.findIndex((check) => check.key === key);
    return index < 0 ? checks.length : index;
  };
  const sorted = [...new Set(keys)].sort((a, b) => place(a) - place(b));
  return sorted.map((key) => checks[place(key)] ?? { key });
}

function keysOf(failed: string | null | undefined): readonly string[] | typeof RESEND | undefined {
  if (failed === RESEND) return RESEND;
  return failed ? (JSON.parse(failed) as string[]) : undefined;
}
