/** After random saves, forks, rewinds, pins and waits, a save leaves no checkpoint that the policy does not keep. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { RetentionOptions, Session } from "../../src/index.js";
import { STORES, useData } from "./stores.js";
import { runs } from "../support/runs.js";

const HOUR = 3_600_000;
/** The time after which another saving process has noticed pins, labels, and lifetimes hidden by an expired one. */
const NOTICED = 60_001;

const count = fc.nat({ max: 4 });
const time = fc.integer({ min: 0, max: 8 }).map((hours) => hours * HOUR);
const options: fc.Arbitrary<RetentionOptions> = fc.oneof(
  fc.record({
    keepLast: count,
    kinds: fc.constantFrom(["automatic" as const], ["automatic" as const, "manual" as const]),
  }),
  fc.record({ keepLast: count, keepWithin: time }),
  fc.record({ keepWithin: time, keepLabelled: fc.boolean() }),
  fc.record({ keepHourly: count, keepDaily: count }),
  fc.record({ keepLast: count, ttl: time, keepLabelled: fc.boolean() }),
  fc.record({ ttl: time }),
  fc.constant({ expired: true }),
);
const at = fc.nat(9);
const action = fc.oneof(
  {
    weight: 12,
    arbitrary: fc.record({
      kind: fc.constant("save" as const),
      at,
      ttl: fc.option(time, { nil: undefined, freq: 4 }),
      label: fc.constantFrom(undefined, undefined, undefined, "label"),
      as: fc.constantFrom("automatic" as const, "manual" as const),
    }),
  },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant("fork" as const), at }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant("rewind" as const), at }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant("pin" as const), at, pinned: fc.boolean() }) },
  {
    weight: 1,
    arbitrary: fc.record({ kind: fc.constant("label" as const), at, label: fc.constantFrom("x", undefined) }),
  },
  { weight: 4, arbitrary: fc.record({ kind: fc.constant("wait" as const), hours: fc.integer({ min: 1, max: 20 }) }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("policy" as const), options }) },
);
type Action = typeof action extends fc.Arbitrary<infer T> ? T : never;

const saveOf = (at: number, ttl?: number): Action => ({ kind: "save", at, ttl, label: undefined, as: "automatic" });

/** A pinned checkpoint that has expired hides that another process has saved one that expires later. */
const HIDDEN_EXPIRY: [RetentionOptions, Action[]] = [
  { keepLast: 0, keepWithin: 2 * HOUR },
  [
    saveOf(0, HOUR),
    { kind: "pin", at: 0, pinned: true },
    saveOf(1),
    { kind: "wait", hours: 2 },
    saveOf(0, 0),
    saveOf(0),
    { kind: "wait", hours: 1 },
    saveOf(3),
  ],
];

/** A label that kept a checkpoint was removed by another process. */
const LABEL_TAKEN: [RetentionOptions, Action[]] = [
  { ttl: 6 * HOUR },
  [
    saveOf(0),
    saveOf(0),
    { kind: "label", at: 1, label: "x" },
    { kind: "wait", hours: 13 },
    saveOf(0),
    { kind: "label", at: 1, label: undefined },
    saveOf(0),
  ],
];

/** A pin was removed by another process, and the checkpoint that it kept has expired since. */
const pinTaken = (before: RetentionOptions, after: RetentionOptions): [RetentionOptions, Action[]] => [
  before,
  [
    saveOf(0),
    { kind: "wait", hours: 4 },
    saveOf(0),
    { kind: "pin", at: 1, pinned: true },
    { kind: "policy", options: after },
    saveOf(0),
    { kind: "pin", at: 5, pinned: false },
    { kind: "wait", hours: 10 },
    saveOf(0),
  ],
];

const EXAMPLES = [
  HIDDEN_EXPIRY,
  LABEL_TAKEN,
  pinTaken({ ttl: 7 * HOUR }, { ttl: 6 * HOUR }),
  pinTaken({ keepWithin: 7 * HOUR }, { keepWithin: 6 * HOUR }),
];

describe.each(STORES.slice(0, 1))("retention policies on $name, at random", (kind) => {
  const data = useData(kind);

  it("are applied after each save, and change no state that stays", async () => {
    const clock = { now: 0 };
    const savepoints = [await data.open({ now: () => clock.now }), await data.open({ now: () => clock.now })] as const;
    const [sp] = savepoints;
    let run = 0;
    await fc.assert(
      fc.asyncProperty(options, fc.array(action, { minLength: 10, maxLength: 60 }), async (first, actions) => {
        const id = `s${run++}`;
        let policy = first;
        await sp.retention.set({ session: id }, policy);
        // Both Savepoints know the policy.
        clock.now += 1000;
        const states = new Map<string, unknown>();
        const names = ["main"];
        const infos = (): Promise<{ id: string; seq: number }[]> => sp.session(id).history({ allBranches: true }).all();
        /** No checkpoint is left that the policy does not keep, except the previous heads of rewinds. */
        const check = async (): Promise<void> => {
          const { gone } = await sp.prune({ session: id, dryRun: true, ...policy });
          const heads = (await sp.session(id).branches().all()).map(({ head }) => head);
          const isWayBack = (seq: number): boolean =>
            heads.some((head) => head?.seq === seq + 1 && head.kind === "recovery");
          expect(gone.filter(({ seq }) => !isWayBack(seq))).toEqual([]);
        };
        for (const [n, each] of actions.entries()) {
          const all = await infos();
          const index = "at" in each ? each.at : 0;
          const target = all[index % Math.max(1, all.length)]?.id;
          const session: Session = (savepoints[index % 2] as typeof sp).session(id, {
            branch: names[index % names.length] as string,
          });
          if (each.kind === "wait") clock.now += each.hours * (HOUR / 2);
          else if (each.kind === "policy") {
            policy = each.options;
            await sp.retention.set({ session: id }, policy);
            clock.now += NOTICED;
          } else if (each.kind === "save") {
            const { ttl, label, as } = each;
            const said = { kind: as, ...(ttl !== undefined && { ttl }), ...(label !== undefined && { label }) };
            states.set((await session.save({ n }, said)).id, { n });
            await check();
          } else if (target === undefined) continue;
          else if (each.kind === "fork") names.push((await session.fork(target)).branch);
          else if (each.kind === "pin" || each.kind === "label") {
            if (each.kind === "pin") await session.pin(target, each.pinned);
            else await session.label(target, each.label);
            clock.now += NOTICED;
          } else if (await session.head()) {
            await session.rewind(target);
            await check();
          }
        }
        for (const info of await infos()) {
          const state = (await sp.session(id).load(info.id))?.state;
          expect(state).toEqual(states.get(info.id) ?? state);
          expect(state).toBeDefined();
        }
      }),
      { numRuns: runs(150, 12), examples: EXAMPLES },
    );
  });
});
