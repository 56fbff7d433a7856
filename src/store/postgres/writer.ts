/**
 * Applies a group of commits with one statement: one round trip, one wait for the server's disk.
 *
 * When the connection is cut, nobody knows whether the statement was done. It is sent again. What it checks keeps it from
 * being done twice; where a check then fails, and what the commit wanted to write is exactly what is there, it was done.
 * Of items that the store numbers it is enough that they are there: a counter that others have raised since says nothing,
 * and to number them once more would be to add them twice.
 */
import { SavepointError } from "../../errors.js";
import { commitConflict, type CommitOutcome, type FailedCheck, testHooksOf } from "../shared/index.js";
import { compress, type CompressedBody, RAW, type ChunkRow, unpackChunk } from "../chunks/index.js";
import type { Commit, Frame } from "../contract/index.js";
import { textArray } from "./arrays.js";
import type { Connection } from "./connection.js";
import { fastCommit, type CommitStatement, statementName } from "./fast-commit.js";
import { fastGroup } from "./fast-group.js";
import { errorDetailOf, postgresFailure, sqlStateOf } from "./errors.js";
import { RESEND, COMMIT_PARAMETERS, CONFLICT_STATE } from "./functions.js";
import type { PostgresOptions, PostgresWritePoint } from "./options.js";
import { type CommitPlan, planCommit } from "./commit-plan.js";
import { isIntact, RECORD_COLUMNS, type RecordRow } from "./rows.js";
import { readItems } from "./chunk-reader.js";

/** Commits of one statement: each is a subtransaction, and of more than 64 PostgreSQL keeps track less well. */
const MAX_STATEMENT = 60;
/** Counters whose values are remembered. */
const MAX_COUNTERS = 10_000;
/** Others who append to the same tape are first, again and again: each time one of them has made progress. */
const MAX_TRIES = 1000;
/** Errors by which the server says that what it was given cannot be: texts, sizes, and what a fast statement divides by. */
const OWN_FAULT = /^(22|23|54)/;

/** What kept a commit out: keys that were in the way, that one before it is to be sent again, or that it cannot be. */
type Failed = readonly string[] | typeof RESEND | SavepointError | undefined;

/** What was found out about counters just now. */
interface Learned {
  readonly damaged: ReadonlySet<string>;
  readonly fresh: ReadonlySet<string>;
}

export class Writer {
  readonly #connection: Connection;
  readonly #options: PostgresOptions;
  readonly #channel: string;
  readonly #fast: boolean;
  readonly #onApplied: (commit: Commit) => void;
  readonly #probe: (point: PostgresWritePoint) => void;
  /** What counters held when they were last seen. */
  readonly #counters = new Map<string, string | undefined>();

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
    this.#probe = testHooksOf(options).probe ?? (() => {});
  }

  async apply(commits: readonly Commit[]): Promise<readonly CommitOutcome[]> {
    const outcomes: CommitOutcome[] = [];
    while (outcomes.length < commits.length) {
      const group = commits.slice(outcomes.length, outcomes.length + MAX_STATEMENT);
      const { done, failure } = await this.#applyTogether(group);
      outcomes.push(...done);
      // What was applied before stays so. What comes after would wait for the same failure once more.
      if (failure) while (outcomes.length < commits.length) outcomes.push(failure);
    }
    return outcomes;
  }

  /** Those whose counters did not hold what was believed are planned anew; all others are done. */
  async #applyTogether(commits: readonly Commit[]): Promise<{ done: CommitOutcome[]; failure?: SavepointError }> {
    const outcomes = new Map<Commit, CommitOutcome>();
    const done = (): CommitOutcome[] => commits.map((commit) => outcomes.get(commit) as CommitOutcome);
    let left = [...commits];
    try {
      const blobs = await this.#pack(commits);
      for (let tries = 0; left.length > 0; tries++) {
        this.#probe("begin");
        const learned = await this.#learnCounters(left, tries > 0);
        const again: Commit[] = [];
        for (const [commit, outcome] of await this.#send(left, blobs, learned)) {
          if (outcome !== "again") outcomes.set(commit, outcome);
          else if (tries < MAX_TRIES) again.push(commit);
          else
            outcomes.set(commit, new SavepointError("BUSY", "Others append to the same tape all the time; try again."));
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
    { damaged, fresh }: Learned,
  ): Promise<[commit: Commit, outcome: CommitOutcome | "again"][]> {
    const outcomes: [Commit, CommitOutcome | "again"][] = [];
    const planned: [Commit, CommitPlan][] = [];
    const believed = new Map(countersOf(commits).map((key) => [key, this.#counters.get(key)]));
    // What no number is refuses those who need one, and nobody else.
    for (const key of damaged) believed.set(key, "damaged");
    const durable = this.#options.durability !== "process";
    for (const commit of commits) {
      try {
        const clock = this.#options.now && Math.floor(this.#options.now());
        const plan = planCommit(commit, { clock, durable, channel: this.#channel, counters: believed, fresh, blobs });
        for (const { key, value, ifAbsent } of plan.written) {
          if (believed.has(key) && (!ifAbsent || believed.get(key) === undefined)) believed.set(key, value);
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
      // In their order: nothing is done before what comes before it.
      if (!applied && (keys === RESEND || outcomes.at(-1)?.[1] === "again")) {
        outcomes.push([commit, "again"]);
      } else if (applied) {
        for (const [key, value] of plan.counters) this.#know(key, value);
        this.#onApplied(commit);
        outcomes.push([commit, { firsts: plan.firsts }]);
      } else {
        const named = keys as readonly string[];
        const real = named.filter((key) => !plan.assumed.has(key));
        const again = real.length === 0 && named.some((key) => plan.counters.has(key));
        outcomes.push([commit, again ? "again" : commitConflict(inOrder(real.length > 0 ? real : named, commit))]);
      }
    }
    return outcomes;
  }

  /** For each what kept it out, or `undefined`; and whether it may have been done by an earlier attempt. */
  async #execute(plans: readonly CommitPlan[]): Promise<{ failed: Failed[]; uncertain: boolean }> {
    if (plans.length === 0) return { failed: [], uncertain: false };
    let uncertain = false;
    const onUncertain = (): void => void (uncertain = true);
    const { schema } = this.#connection;
    if (this.#fast && (await this.#executeFast(plans, onUncertain))) {
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
      // A single commit that fails raises an error; of several, each says what was in its way.
      return {
        failed: plans.map((_, index) => (plans.length > 1 ? keysOf(row?.[`c${index}`]) : undefined)),
        uncertain,
      };
    } catch (error) {
      const cause = error instanceof SavepointError ? error.cause : error;
      const state = sqlStateOf(cause) ?? "";
      if (plans.length > 1 && OWN_FAULT.test(state)) return this.#executeEach(plans, uncertain);
      if (plans.length > 1 || state !== CONFLICT_STATE) throw error;
      return { failed: [keysOf(errorDetailOf(cause)) ?? []], uncertain };
    }
  }

  /** One by one, where one of them cannot be stored: the others are not to fail with it. */
  async #executeEach(plans: readonly CommitPlan[], before: boolean): Promise<{ failed: Failed[]; uncertain: boolean }> {
    const failed: Failed[] = [];
    let uncertain = before;
    for (const plan of plans) {
      // One whose guess was wrong is sent again, and so is all that comes after it.
      if (failed.some((keys) => keys === RESEND)) {
        failed.push(RESEND);
        continue;
      }
      try {
        const alone = await this.#execute([plan]);
        const [keys] = alone.failed;
        uncertain ||= alone.uncertain;
        const isGuess = Array.isArray(keys) && keys.length > 0 && keys.every((key: string) => plan.assumed.has(key));
        failed.push(isGuess && !(uncertain && (await this.#isApplied(plan))) ? RESEND : keys);
      } catch (error) {
        const failure = postgresFailure(error, this.#connection.url, "Writing to");
        if (!OWN_FAULT.test(sqlStateOf(failure.cause) ?? "")) throw failure;
        failed.push(failure);
      }
    }
    return { failed, uncertain };
  }

  /** `false` where the function has to do it, or to say why it cannot be done. */
  async #executeFast(plans: readonly CommitPlan[], onUncertain: () => void): Promise<boolean> {
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
      // A part of it has not done what it should, or one of them is what the server cannot store: the others are not to fail with it.
      if (OWN_FAULT.test(sqlStateOf(error instanceof SavepointError ? error.cause : error) ?? "")) return false;
      throw error;
    }
  }

  /** Is all there that a commit wanted to write? */
  async #isApplied({ written, deleted, rows, assumed }: CommitPlan): Promise<boolean> {
    if (assumed.size > 0 && rows.length > 0) return this.#areStored(rows);
    const wanted = written.filter(({ ifAbsent }) => !ifAbsent);
    if (wanted.length + deleted.length + rows.length === 0) return false;
    const keys = [...wanted.map(({ key }) => key), ...deleted];
    const found = await this.#records(keys);
    const same = wanted.every(
      ({ key, value, refs }) => found.get(key)?.value === value && found.get(key)?.refs === refs,
    );
    if (!same || deleted.some((key) => found.has(key))) return false;
    return this.#areStored(rows);
  }

  /** Are these the items that are there? They may have been packed with others meanwhile. */
  async #areStored(rows: readonly ChunkRow[]): Promise<boolean> {
    const spans = rows.map(({ tape, first, count }) => ({ tape, start: first, count }));
    const stored = await readItems(this.#connection, spans);
    const wanted = rows.flatMap((row) => unpackChunk(row)) as readonly Frame[];
    return wanted.every(({ json, refs }, index) => {
      const item = stored[index];
      return item !== undefined && "json" in item && item.json === json && item.refs === refs;
    });
  }

  /** Finds out what counters hold, of which nothing is known or what was believed was wrong. */
  async #learnCounters(commits: readonly Commit[], again: boolean): Promise<Learned> {
    const keys = new Set(countersOf(commits).filter((key) => again || !this.#counters.has(key)));
    const damaged = new Set<string>();
    const found = keys.size === 0 ? new Map<string, RecordRow>() : await this.#records([...keys]);
    for (const key of keys) {
      const row = found.get(key);
      if (row && !isIntact(row)) {
        this.#counters.delete(key);
        damaged.add(key);
      } else this.#know(key, row?.value);
    }
    return { damaged, fresh: keys };
  }

  #know(key: string, value: string | undefined): void {
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
  async #pack(commits: readonly Commit[]): Promise<ReadonlyMap<string, CompressedBody>> {
    const packed = new Map<string, CompressedBody>();
    for (const { blobs = [] } of commits) {
      for (const { hash, bytes } of blobs) {
        if (!bytes || packed.has(hash)) continue;
        packed.set(hash, this.#options.compress === false ? { codec: RAW, body: bytes } : await compress(bytes));
      }
    }
    return packed;
  }
}

/** The counters by which items of these commits are numbered. */
function countersOf(commits: readonly Commit[]): string[] {
  return commits.flatMap(({ items = [] }) => items.flatMap((run) => ("counter" in run ? [run.counter] : [])));
}

/** In the order in which the commit names them. */
function inOrder(keys: readonly string[], { checks = [] }: Commit): FailedCheck[] {
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
