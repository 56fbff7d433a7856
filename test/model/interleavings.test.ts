/**
 * Two operations on one session, in every order in which their reads and writes can follow each other: the second starts
 * before the n-th time that the first asks the store for anything, for every n there is. Then many, in random orders.
 */
import assert from "node:assert/strict";
import { setImmediate as nextTurn } from "node:timers/promises";
import fc from "fast-check";
import { describe, it } from "vitest";
import { type DamageEvent, Savepoint } from "../../src/index.js";
import { seeded } from "../support/states/history.js";
import { openMemoryStore, type Store } from "../../src/store.js";
import { attempt, judge, Ledger, OPERATIONS, prepareSession, type State, WRITES } from "./concurrent-operations.js";
import { isFull, runs } from "../support/runs.js";

/** Where the second operation happens. */
const PLACES = [
  "in another process, at once",
  "in another process, meanwhile",
  "in the same process, meanwhile",
] as const;
type Place = (typeof PLACES)[number];

/** What the first handle has in memory. */
const HANDLES = ["that knows the session", "that has looked", "that knows nothing"] as const;
type Knows = (typeof HANDLES)[number];

describe.each(PLACES)("two operations on a session, the second %s", (place) => {
  it.each(Object.keys(OPERATIONS))("leave everything consistent when the first is: %s", async (first) => {
    const offset = PLACES.indexOf(place) + Object.keys(OPERATIONS).indexOf(first);
    for (const [index, second] of WRITES.entries()) {
      // By default every pair of operations meets in one of the places, with one kind of handle.
      if (!isFull && (index + offset) % PLACES.length !== 0) continue;
      const knows = HANDLES[index % HANDLES.length] as Knows;
      for (const handle of isFull ? HANDLES : [knows]) {
        for (let at = 0, met = true; met; at++) {
          try {
            met = await meet([first, second], place, handle, at);
          } catch (error) {
            const where = `With "${second}" at call ${at}, by a handle ${handle}`;
            throw new Error(`${where}: ${(error as Error).message}`, { cause: error });
          }
        }
      }
    }
  });
});

/** @returns whether the first operation asked the store often enough for the second one to start */
async function meet(
  [first, second]: readonly [string, string],
  place: Place,
  knows: Knows,
  at: number,
): Promise<boolean> {
  const store = openMemoryStore();
  const ledger = new Ledger();
  const events: DamageEvent[] = [];
  const on = { damage: (event: DamageEvent) => void events.push(event) };
  let calls = Number.NEGATIVE_INFINITY;
  let other: Promise<unknown> | undefined;
  const gate = intercept(store, async (name, call) => {
    if (calls++ !== at) return call();
    // A store applies the commits of one process in the order in which they are asked for.
    const before = place === PLACES[2] && name === "commit" ? call() : undefined;
    other = attempt(second, two.session<State>("s"), two, ledger);
    if (place === PLACES[0]) await other;
    return before ?? call();
  });
  const one = await Savepoint.open(gate, { on });
  const two = place === PLACES[2] ? one : await Savepoint.open(store, { on });
  const setup = knows === HANDLES[0] ? one.session<State>("s") : (await Savepoint.open(store)).session<State>("s");
  await prepareSession(setup, ledger);
  const session = knows === HANDLES[0] ? setup : one.session<State>("s");
  if (knows === HANDLES[1]) await session.latest();

  calls = 0;
  const result = await attempt(first, session, one, ledger);
  const met = calls > at;
  judge(second, await other, ledger);
  judge(first, result, ledger);
  assert.deepEqual(events, []);
  await ledger.checkToTheEnd(store);
  return met;
}

describe("many operations on a session at once", () => {
  it("leave everything consistent in any order", async () => {
    const names = fc.array(fc.constantFrom(...Object.keys(OPERATIONS)), { minLength: 3, maxLength: 8 });
    await fc.assert(
      fc.asyncProperty(names, fc.integer({ min: 0, max: 2 ** 30 }), async (operations, seed) => {
        const random = seeded(seed);
        const store = openMemoryStore();
        const ledger = new Ledger();
        const events: DamageEvent[] = [];
        const open = async (): Promise<Savepoint> =>
          Savepoint.open(hesitate(store, random), {
            cacheBytes: random(2) ? 1 : 2 ** 27,
            on: { damage: (event) => void events.push(event) },
          });
        const processes = [await open(), await open()];
        await prepareSession((processes[0] as Savepoint).session("s"), ledger);
        // Some handles are shared by several operations.
        const handles = [0, 1, 0].map((n) => {
          const sp = processes[n] as Savepoint;
          return { sp, session: sp.session<State>("s") };
        });
        const outcomes = await Promise.all(
          operations.map((name) => {
            const { sp, session } = handles[random(3)] as (typeof handles)[number];
            return attempt(name, random(2) ? session : sp.session<State>("s"), sp, ledger);
          }),
        );
        for (const [index, outcome] of outcomes.entries()) judge(operations[index] as string, outcome, ledger);
        assert.deepEqual(events, []);
        await ledger.checkToTheEnd(store);
      }),
      { numRuns: runs(300) },
    );
  });
});

/** A store whose every call goes through `handle`. */
function intercept(store: Store, handle: (name: string, call: () => Promise<unknown>) => Promise<unknown>): Store {
  return new Proxy(store, {
    get(target, name) {
      const member = Reflect.get(target, name) as unknown;
      if (typeof member !== "function") return member;
      return (...args: unknown[]) =>
        handle(String(name), () => (member as (...all: unknown[]) => Promise<unknown>).apply(target, args));
    },
  });
}

/** A store as a process sees it: each answer takes a random time, commits are applied in the order of their calls. */
function hesitate(store: Store, random: (below: number) => number): Store {
  const wait = async (): Promise<void> => {
    for (let turns = random(4); turns > 0; turns--) await nextTurn();
  };
  let commits: Promise<unknown> = Promise.resolve();
  return intercept(store, async (name, call) => {
    if (name !== "commit") {
      await wait();
      return call();
    }
    const mine = commits.then(wait).then(call);
    commits = mine.catch(() => {});
    try {
      return await mine;
    } finally {
      await wait();
    }
  });
}
