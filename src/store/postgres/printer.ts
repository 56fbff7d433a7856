/**
 * Prints the plan of a commit as SQL statements, which are sent together and are one transaction.
 *
 * There are two printers. {@link printCompact} writes one statement with a CTE for each part, and a second one if records are
 * deleted without a check. It costs the server the least. {@link printPortable} writes one statement for each part: it
 * changes one table once, and needs little of PostgreSQL. The parts are in parts.ts.
 */
import { createHash } from "node:crypto";
import { textArray } from "./arrays.js";
import { type CommitPlan, type ExpectedRecord, namedKeys, type RecordWrite } from "./commit-plan.js";
import type { PostgresValue, Statement } from "./driver.js";
import { DIV, MUL } from "./operators.js";
import * as part from "./parts.js";
import type { Part, PartKind, Tables } from "./parts.js";
import { refsSumOf, tagParameter } from "./rows.js";

export interface PrintOptions {
  readonly tables: Tables;
  /** The channel of notifications; without one, no notification is sent. */
  readonly channel: string | undefined;
  /** The value of `synchronous_commit`, if that of the server is not the right one. */
  readonly sync: "on" | "off" | undefined;
}

/** Prints the statements of a commit, in their order. */
export type Printer = (plan: CommitPlan, options: PrintOptions) => Statement[];

/** Larger commits are too rare for statements of their own. */
const MAX_PARTS = 16;

/**
 * One statement for almost every commit.
 *
 * Deletes without a check are a second statement: the first one may have waited for another commit, and does not see the records
 * that the other commit has added.
 */
export const printCompact: Printer = (plan, options) => {
  const { tables } = options;
  const { first, second } = listParts(plan, options, TAGS);
  if (first.length > MAX_PARTS) return [...first, ...second].map((each) => printPart(tables, each));
  const statements = first.length > 0 ? [printTogether(tables, first)] : [];
  for (const each of second) statements.push(printPart(tables, each));
  return statements;
};

/** One statement for each part. No notification is sent, and the durability is that of the server. */
export const printPortable: Printer = (plan, options) => {
  const { first, second } = listParts(plan, { ...options, channel: undefined }, VALUES);
  return [...first, ...second].map((each) => printPart(options.tables, each));
};

/** How a printer compares and locks records, and adds chunks. */
interface Comparison {
  /** Whether an expected value is sent beside its tag. */
  readonly sendsValue: boolean;
  readonly update: PartKind;
  readonly check: PartKind;
  readonly checkExists: PartKind;
  readonly remove: PartKind;
  readonly nextChunk: PartKind;
}

const TAGS: Comparison = {
  sendsValue: false,
  update: part.UPDATE,
  check: part.CHECK,
  checkExists: part.CHECK_EXISTS,
  remove: part.REMOVE,
  nextChunk: part.NEXT_CHUNK,
};
const VALUES: Comparison = {
  sendsValue: true,
  update: part.UPDATE_BY_VALUE,
  check: part.CHECK_BY_VALUE,
  checkExists: part.CHECK_EXISTS_FOR_UPDATE,
  remove: part.REMOVE_BY_VALUE,
  nextChunk: part.CHUNK,
};

/**
 * The parts of a plan: those of the first statement, and those that must see all commits that were made before the first
 * statement ended.
 */
function listParts(
  plan: CommitPlan,
  { channel, sync }: PrintOptions,
  comparison: Comparison,
): { first: Part[]; second: Part[] } {
  const first: Part[] = [];
  const second: Part[] = [];
  const expected = ({ key, before = "" }: ExpectedRecord): PostgresValue[] =>
    comparison.sendsValue ? [key, tagParameter(key, before), before] : [key, tagParameter(key, before)];
  const add = (kind: PartKind, values: PostgresValue[]): void => void first.push({ kind, values });
  const { clock = null } = plan;

  if (sync) add(part.SET_SYNC, [sync]);
  for (const update of plan.updates) {
    const { key, before, put } = update;
    if (before === undefined) add(part.UPDATE_ANY, addRow([key], put));
    else add(comparison.update, addRow(expected(update), put));
  }
  for (const check of plan.checks) {
    if (check.before === undefined) add(comparison.checkExists, [check.key]);
    else add(comparison.check, expected(check));
  }
  for (const removal of plan.removals) {
    if (removal.before === undefined) add(part.REMOVE_ANY, [removal.key]);
    else add(comparison.remove, expected(removal));
  }
  for (const key of plan.absent) add(part.INSERT_PLACEHOLDER, [key]);
  if (plan.notBefore !== undefined) add(part.CHECK_TIME, [plan.notBefore]);
  for (const hash of plan.usedBlobs) add(part.USE_BLOB, [hash, clock]);
  for (const put of plan.inserts) add(part.INSERT_NEW, addRow([put.key], put));
  for (const put of plan.upserts) add(part.UPSERT, addRow([put.key], put));
  for (const put of plan.optional) add(part.INSERT_IF_ABSENT, addRow([put.key], put));
  if (channel !== undefined) for (const name of plan.wakes) add(part.NOTIFY, [channel, name]);
  for (const [index, { tape, first: number, count, codec, sum, head, body }] of plan.chunks.entries()) {
    const isNext = plan.isNext && index === plan.chunks.length - 1;
    add(isNext ? comparison.nextChunk : part.CHUNK, [tape, number, count, codec, sum, head, body]);
  }

  if (plan.absent.length + plan.deletes.length > 0) {
    second.push({ kind: part.DELETE, values: [textArray([...plan.absent, ...plan.deletes])] });
  }
  if (plan.ranges.length > 0) {
    const named = textArray(namedKeys(plan));
    for (const { from, to } of plan.ranges) second.push({ kind: part.DELETE_RANGE, values: [from, to, named] });
  }
  // Stored after the checks of used blobs: a blob that a commit only uses must have existed before the commit.
  for (const { hash, codec, body } of plan.storedBlobs) {
    second.push({ kind: part.STORE_BLOB, values: [hash, clock, codec, body] });
  }
  return { first, second };
}

/** Appends the columns of a new version of a record, after its key. */
function addRow(values: PostgresValue[], { key, value, refs }: RecordWrite): PostgresValue[] {
  values.push(tagParameter(key, value), refsSumOf(key, refs), refs, value);
  return values;
}

/** How many statements are kept. There are a few dozen for each schema that is in use. */
const MAX_PRINTED = 1000;

interface PrintedStatement {
  readonly name: string;
  readonly text: string;
}

/** The SQL of statements by schema and shape. */
const printed = new WeakMap<Tables, Map<string, PrintedStatement>>();

function prepare(tables: Tables, shape: string, write: () => string): PrintedStatement {
  let statements = printed.get(tables);
  if (!statements) printed.set(tables, (statements = new Map()));
  let statement = statements.get(shape);
  if (!statement) {
    const text = write();
    const name = `savepoint_${createHash("sha256").update(text).digest("hex").slice(0, 16)}`;
    if (statements.size >= MAX_PRINTED) statements.clear();
    statements.set(shape, (statement = { name, text }));
  }
  return statement;
}

/** Prints one part as a statement. If it is counted and affects no row, a division by zero fails. */
function printPart(tables: Tables, { kind, values }: Part): Statement {
  const { name, text } = prepare(tables, kind.id, () => {
    const sql = kind.sql(tables, parametersOf(kind, 1));
    if (!kind.isCounted) return sql;
    return `WITH done AS (${sql}) SELECT 1 ${DIV} (SELECT pg_catalog.count(*) FROM done) AS done`;
  });
  return { name, text, values };
}

/**
 * Prints parts as one statement, which applies all of them or fails. If a counted part affects no row, the last part fails: the
 * count of the last chunk becomes null, or, without chunks, a division by zero fails.
 */
function printTogether(tables: Tables, parts: readonly Part[]): Statement {
  let shape = "";
  const values: PostgresValue[] = [];
  for (const each of parts) {
    shape += each.kind.id;
    for (const value of each.values) values.push(value);
  }
  const { name, text } = prepare(tables, shape, () => {
    const clauses: string[] = [];
    const counted: string[] = [];
    let next = 1;
    for (const [index, { kind }] of parts.entries()) {
      const parameters = parametersOf(kind, next);
      next += parameters.length;
      const name = `p${index}`;
      if ((kind === part.CHUNK || kind === part.NEXT_CHUNK) && index === parts.length - 1) {
        const factors = counted.map((each) => ` ${MUL} (SELECT 1 FROM ${each})`).join("");
        return `${withClauses(clauses)}${part.chunkWithFactors(kind, tables.chunk, parameters, factors)}`;
      }
      clauses.push(`${name} AS (${kind.sql(tables, parameters)})`);
      if (kind.isCounted) counted.push(name);
    }
    const counts = counted.map((name) => `(SELECT pg_catalog.count(*) FROM ${name})`);
    return `${withClauses(clauses)}SELECT 1 ${DIV} (${counts.join(` ${MUL} `) || "1"}) AS done`;
  });
  return { name, text, values };
}

const withClauses = (clauses: readonly string[]): string => (clauses.length > 0 ? `WITH ${clauses.join(",\n")}\n` : "");

function parametersOf({ types }: PartKind, first: number): string[] {
  return types.map((type, index) => `$${first + index}::${type}`);
}
