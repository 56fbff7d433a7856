/**
 * Applies a group of commits with one statement: one round trip, one wait for the server's disk.
 *
 * When the connection is cut, nobody knows whether the statement was done. It is sent again. What it checks keeps it from
 * being done twice; where a check then fails, and what the commit wanted to write is exactly what is there, it was done.
 */
import { SavepointError } from "../../errors.js";
import { commitConflict } from "../conflict.js";
import type { Outcome } from "../group-commit.js";
import { compress, type Packed, RAW } from "../packing/compression.js";
import type { Commit } from "../store.js";
import { textArray } from "./arrays.js";
import type { Connection } from "./connection.js";
import { fastCommit, isRefused, statementName } from "./fast-commit.js";
import { detailOf, stateOf } from "./failure.js";
import { AGAIN, COMMIT_PARAMETERS, CONFLICT_STATE } from "./functions.js";
import type { PostgresOptions, PostgresWritePoint } from "./options.js";
import { type Belief, DAMAGED, type PlannedCommit, planCommit } from "./plan-commit.js";
import { isWhole, RECORD_COLUMNS, type RecordRow } from "./rows.js";
import { findRuns } from "./run-reader.js";

/** Commits of one statement: each is a subtransaction, and of more than 64 PostgreSQL keeps track less well. */
const MAX_STATEMENT = 60;
/** Counters whose values are remembered. */
const MAX_COUNTERS = 10_000;
/** Others who append to the same tape are first, again and again: each time one of them has made progress. */
const MAX_TRIES = 1000;

export class Writer {
  readonly #connection: Connection;
  readonly #options: PostgresOptions;
  readonly #channel: string;
  readonly #fast: boolean;
  readonly #onApplied: (commit: Commit) => void;
  readonly #probe: (point: PostgresWritePoint) => void;
  /** What counters held when they were last seen. Of those that did not hold anything nothing is remembered. */
  readonly #counters = new Map<string, string>();

  /** @param onApplied told of each commit that was applied */
  constructor(
    connection: Connection,
    channel: string,
    options: PostgresOptions & { readonly syncs: boolean },
    onApplied: (commit: Commit) => void,
  ) {
    this.#connection = connection;
    this.#channel = channel;
    this.#options = options;
    this.#onApplied = onApplied;
    // Only the function can ask for another durability than what the server has for everybody.
    this.#fast = options.syncs && options.durability !== "process";
    this.#probe = options.probe ?? (() => {});
  }

  async apply(commits: readonly Commit[]): Promise<readonly Outcome[]> {
    const outcomes: Outcome[] = [];
    for (let from = 0; from < commits.length; from += MAX_STATEMENT) {
      outcomes.push(...(await this.#applyTogether(commits.slice(from, from + MAX_STATEMENT))));
    }
    return outcomes;
  }

  /** Those whose counters did not hold what was believed are planned anew; all others are done. */
  async #applyTogether(commits: readonly Commit[]): Promise<Outcome[]> {
    const blobs = await this.#pack(commits);
    const outcomes = new Map<Commit, Outcome>();
    let left = [...commits];
    for (let tries = 0; left.length > 0; tries++) {
      this.#probe("begin");
      const believed = await this.#learnCounters(left, tries > 0);
      const again: Commit[] = [];
      for (const [commit, outcome] of await this.#send(left, blobs, believed)) {
        if (outcome !== "again") outcomes.set(commit, outcome);
        else if (tries < MAX_TRIES) again.push(commit);
        else
          outcomes.set(commit, new SavepointError("BUSY", "Others append to the same tape all the time; try again."));
      }
      left = again;
    }
    return commits.map((commit) => outcomes.get(commit) as Outcome);
  }

  async #send(
    commits: readonly Commit[],
    blobs: ReadonlyMap<string, Packed>,
    believed: Map<string, Belief>,
  ): Promise<[commit: Commit, outcome: Outcome | "again"][]> {
    const outcomes: [Commit, Outcome | "again"][] = [];
    const planned: [Commit, PlannedCommit][] = [];
    const durable = this.#options.durability !== "process";
    for (const commit of commits) {
      try {
        const clock = this.#options.now?.();
        const plan = planCommit(commit, { clock, durable, channel: this.#channel, counters: believed, blobs });
        for (const [key, value] of plan.counters) believed.set(key, value);
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
      // In their order: nothing is looked at, or done, before what comes before it.
      if (keys === AGAIN || outcomes.at(-1)?.[1] === "again") {
        outcomes.push([commit, "again"]);
        continue;
      }
      const applied = !keys || (uncertain && (await this.#isApplied(plan)));
      if (applied) {
        for (const [key, value] of plan.counters) this.#know(key, value);
        this.#onApplied(commit);
        outcomes.push([commit, { firsts: plan.firsts }]);
      } else {
        const real = keys.filter((key) => !plan.guessed.has(key));
        const again = real.length === 0 && keys.some((key) => plan.counters.has(key));
        outcomes.push([commit, again ? "again" : commitConflict(inOrder(real.length > 0 ? real : keys, commit))]);
      }
    }
    return outcomes;
  }

  /** For each the keys that were in the way, or `undefined`; and whether it may have been done by an earlier attempt. */
  async #execute(
    plans: readonly PlannedCommit[],
  ): Promise<{ failed: (readonly string[] | typeof AGAIN | undefined)[]; uncertain: boolean }> {
    if (plans.length === 0) return { failed: [], uncertain: false };
    let uncertain = false;
    const onUncertain = (): void => void (uncertain = true);
    const { schema } = this.#connection;
    const [plan] = plans;
    if (this.#fast && plan && plans.length === 1 && (await this.#executeFast(plan, onUncertain))) {
      return { failed: [undefined], uncertain };
    }
    const values = plans.flatMap((each) => each.values());
    const calls = plans.map((_, index) => {
      const first = index * COMMIT_PARAMETERS.length;
      const parameters = COMMIT_PARAMETERS.map((__, offset) => `$${first + offset + 1}`).join(",");
      return `${schema}.savepoint_${plans.length > 1 ? "try_" : ""}commit(${parameters}) AS c${index}`;
    });
    const sql = `SELECT ${calls.join(", ")}`;
    const name = plans.length === 1 ? statementName(sql) : undefined;
    const running = this.#connection.run(sql, values, "Writing to", { ...(name && { name }), onUncertain });
    this.#probe("sent");
    try {
      const { rows } = await running;
      const [row] = rows as Record<string, string | null>[];
      // A single commit that fails raises an error; of several, each says what was in its way.
      return {
        failed: plans.map((_, index) => (plans.length > 1 ? keysOf(row?.[`c${index}`]) : undefined)),
        uncertain,
      };
    } catch (error) {
      const cause = error instanceof SavepointError ? error.cause : error;
      if (plans.length > 1 || stateOf(cause) !== CONFLICT_STATE) throw error;
      return { failed: [keysOf(detailOf(cause)) ?? []], uncertain };
    }
  }

  /** `false` where the function has to do it, or to say why it cannot be done. */
  async #executeFast({ plain, records, rows }: PlannedCommit, onUncertain: () => void): Promise<boolean> {
    const fast = plain ? fastCommit(this.#connection.schema, records, rows) : undefined;
    if (!fast) return false;
    const { name, sql, values } = fast;
    const running = this.#connection.run(sql, values, "Writing to", { name, onUncertain });
    this.#probe("sent");
    try {
      await running;
      return true;
    } catch (error) {
      if (isRefused(stateOf(error instanceof SavepointError ? error.cause : error))) return false;
      throw error;
    }
  }

  /** Is all there that a commit wanted to write? */
  async #isApplied({ written, deleted, rows }: PlannedCommit): Promise<boolean> {
    const wanted = written.filter(({ ifAbsent }) => !ifAbsent);
    if (wanted.length + deleted.length + rows.length === 0) return false;
    const keys = [...wanted.map(({ key }) => key), ...deleted];
    const found = await this.#records(keys);
    const same = wanted.every(
      ({ key, value, refs }) => found.get(key)?.value === value && found.get(key)?.refs === refs,
    );
    if (!same || deleted.some((key) => found.has(key))) return false;
    const runs = await findRuns(
      this.#connection,
      rows.map(({ tape, first, count }) => ({ tape, start: first, count })),
    );
    const stored = new Set(runs.map(({ tape, first, sum }) => `${tape} ${first} ${sum}`));
    return rows.every(({ tape, first, sum }) => stored.has(`${tape} ${first} ${sum}`));
  }

  /** What the counters of these commits hold: those of which nothing is known are looked at, or all of them. */
  async #learnCounters(commits: readonly Commit[], all: boolean): Promise<Map<string, Belief>> {
    const believed = new Map<string, Belief>();
    for (const { items = [] } of commits) {
      for (const run of items) if ("counter" in run) believed.set(run.counter, this.#counters.get(run.counter));
    }
    const unknown = [...believed].filter(([, value]) => all || value === undefined).map(([key]) => key);
    if (unknown.length === 0) return believed;
    const found = await this.#records(unknown);
    for (const key of unknown) {
      const row = found.get(key);
      this.#counters.delete(key);
      believed.set(key, row && !isWhole(row) ? DAMAGED : row?.value);
    }
    return believed;
  }

  #know(key: string, value: string): void {
    this.#counters.delete(key);
    this.#counters.set(key, value);
    const [oldest] = this.#counters.keys();
    if (this.#counters.size > MAX_COUNTERS && oldest !== undefined) this.#counters.delete(oldest);
  }

  async #records(keys: readonly string[]): Promise<Map<string, RecordRow>> {
    const sql = `SELECT ${RECORD_COLUMNS} FROM ${this.#connection.schema}.savepoint_record WHERE key = ANY ($1::text[])`;
    const rows = await this.#connection.rows<RecordRow>(sql, [textArray(keys)]);
    return new Map(rows.map((row) => [row.key, row]));
  }

  /** Compresses the bytes that come with these commits. */
  async #pack(commits: readonly Commit[]): Promise<ReadonlyMap<string, Packed>> {
    const packed = new Map<string, Packed>();
    for (const { blobs = [] } of commits) {
      for (const { hash, bytes } of blobs) {
        if (!bytes || packed.has(hash)) continue;
        packed.set(hash, this.#options.compress === false ? { codec: RAW, body: bytes } : await compress(bytes));
      }
    }
    return packed;
  }
}

/** In the order in which the commit names them. */
function inOrder(keys: readonly string[], { checks = [] }: Commit): string[] {
  const place = (key: string): number => {
    const index = checks.findIndex((check) => check.key === key);
    return index < 0 ? checks.length : index;
  };
  return [...new Set(keys)].sort((a, b) => place(a) - place(b));
}

function keysOf(failed: string | null | undefined): readonly string[] | typeof AGAIN | undefined {
  if (failed === AGAIN) return AGAIN;
  return failed ? (JSON.parse(failed) as string[]) : undefined;
}
