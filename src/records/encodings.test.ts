import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type BranchRecord, decodeBranch, encodeBranch } from "./branch.js";
import { type CheckpointRow, decodeRow, encodeRow } from "./checkpoint-row.js";
import { unnamedBranch } from "./ids.js";
import { decodeSession, encodeSession, type SessionRecord } from "./session.js";

/** Generates plain objects with these fields. */
const record = <T extends object>(fields: { [Key in keyof T]: fc.Arbitrary<T[Key]> }): fc.Arbitrary<T> =>
  fc.record(fields, { noNullPrototype: true }) as fc.Arbitrary<T>;
const text = fc.string({ unit: "binary" });
const maybe = <T>(value: fc.Arbitrary<T>): fc.Arbitrary<T | undefined> => fc.option(value, { nil: undefined });
const count = fc.nat({ max: 2 ** 31 });

/** A row on `main` (tape 0), on a named branch or on an unnamed one. */
/** A history of some items that ends where the journal ends. */
function historyOf(run: {
  readonly tape: number;
  readonly journal: { readonly start: number; readonly count: number } | undefined;
  readonly history: number | undefined;
}): { tape: number; start: number; count: number } | undefined {
  if (run.history === undefined) return undefined;
  const end = run.journal ? run.journal.start + run.journal.count : run.history;
  const count = Math.min(run.history, end);
  return { tape: run.tape, start: end - count, count };
}

const row: fc.Arbitrary<CheckpointRow> = record({
  seq: fc.oneof(fc.nat({ max: 5 }), count),
  id: fc.oneof(fc.uuid({ version: 7 }), fc.string({ minLength: 1 })),
  place: fc.oneof(
    fc.constant({ tape: 0, branch: "main" }),
    fc.integer({ min: 1, max: 99 }).map((tape) => ({ tape, branch: unnamedBranch(tape) })),
    fc.integer({ min: 1, max: 99 }).map((tape) => ({ tape, branch: `named ${tape}` })),
  ),
  back: fc.tuple(fc.nat({ max: 4 }), fc.nat({ max: 4 })),
  createdAt: count,
  step: count,
  kind: fc.constantFrom("automatic" as const, "manual" as const, "preOperation" as const, "recovery" as const),
  status: fc.constantFrom("queued" as const, "running" as const, "failed" as const, "halted" as const),
  reason: maybe(text),
  label: maybe(text),
  description: maybe(text),
  trigger: maybe(text),
  resumeHint: maybe(text),
  tasksCompleted: count,
  usage: maybe(record({ tokens: count, cost: fc.double({ noNaN: true, noDefaultInfinity: true }).map((n) => n + 0) })),
  metadata: maybe(fc.constantFrom({ a: 1 }, { $: ["date", "1970-01-01T00:00:00.000Z"] })),
  pinned: fc.boolean(),
  ttl: maybe(count),
  stateBytes: count,
  storedBytes: count,
  skeleton: record({ json: fc.json(), refs: fc.constantFrom("", "0+1", "3:0+1;#ab") }),
  version: maybe(count),
  inRun: maybe(
    record({
      back: count,
      tape: count,
      journal: maybe(record({ start: count, count: fc.integer({ min: 1, max: 99 }) })),
      history: maybe(fc.integer({ min: 1, max: 99 })),
      midStep: fc.boolean(),
      turn: count,
      output: maybe(count),
    }),
  ),
}).map(({ place, back: [toParent, toGrandparent], inRun, ...rest }) => {
  const parent = toParent > 0 && rest.seq >= toParent ? rest.seq - toParent : undefined;
  const hasGrandparent = parent !== undefined && toGrandparent > 0 && parent >= toGrandparent;
  const run = inRun && {
    boundary: Math.max(0, rest.seq - inRun.back),
    journal: inRun.journal && { tape: inRun.tape, ...inRun.journal },
    history: historyOf(inRun),
    midStep: inRun.midStep,
    turn: inRun.turn,
    output: inRun.output === undefined ? undefined : { tape: inRun.tape, start: inRun.output, count: 1 },
  };
  return {
    ...rest,
    ...place,
    parent,
    grandparent: hasGrandparent ? parent - toGrandparent : undefined,
    run,
  } as CheckpointRow;
});

describe("encoded records", () => {
  it("decode to the same row", () => {
    fc.assert(
      fc.property(row, (each) => {
        expect(decodeRow(each.seq, encodeRow(each), each.skeleton.refs)).toStrictEqual(each);
      }),
      { numRuns: 1000 },
    );
  });

  it("decode to the same branch, with or without a head", () => {
    const branch: fc.Arbitrary<BranchRecord> = record({
      name: fc.string({ minLength: 1 }),
      tape: count,
      nextItem: count,
      epoch: count,
      held: fc.boolean(),
      hidden: fc.boolean(),
      createdAt: count,
      forkedFrom: maybe(count),
      head: maybe(row),
      headParentId: fc.constant(undefined),
    });
    fc.assert(
      fc.property(branch, maybe(text), (each, headParentId) => {
        const whole = each.head ? { ...each, headParentId } : each;
        expect(decodeBranch(encodeBranch(whole))).toStrictEqual(whole);
      }),
    );
  });

  it("decode to the same session", () => {
    const session: fc.Arbitrary<SessionRecord> = record({
      number: count,
      agent: maybe(fc.uuid()),
      createdAt: count,
      nextSeq: count,
      nextTape: count,
      checkpoints: count,
      policy: fc.constant(undefined),
      earliestExpiry: maybe(count),
    });
    fc.assert(
      fc.property(session, (each) => {
        expect(decodeSession(encodeSession(each))).toStrictEqual(each);
      }),
    );
  });

  it("take about a hundred bytes for a row with default fields", () => {
    const plain: CheckpointRow = {
      seq: 5000,
      id: "0199e0a5-1234-7000-8000-00000000abcd",
      tape: 0,
      branch: "main",
      parent: 4999,
      grandparent: 4998,
      createdAt: 0x0199e0a51234,
      step: 5000,
      kind: "manual",
      status: "running",
      reason: undefined,
      label: undefined,
      description: undefined,
      trigger: undefined,
      resumeHint: undefined,
      tasksCompleted: 0,
      usage: undefined,
      metadata: undefined,
      pinned: false,
      ttl: undefined,
      stateBytes: 5_000_000,
      storedBytes: 1200,
      skeleton: { json: `{"messages":{"$":["array",0]}}`, refs: "0+5000" },
      version: undefined,
      run: undefined,
    };
    expect(encodeRow(plain).length).toBeLessThan(120);
  });
});
