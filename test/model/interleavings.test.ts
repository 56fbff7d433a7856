/**
 * Two operations on one session, in every order in which their reads and writes can follow each other: the second starts
 * before the n-th time that the first asks the store for anything, for every n there is. Afterwards everything that was
 * acknowledged must be there as it was, and nothing may look damaged.
 */
import assert from "node:assert/strict";
import { describe, it } from "vitest";
import {
  type DamageEvent,
  isSavepointError,
  Savepoint,
  type SavepointErrorCode,
  type Session,
} from "../../src/index.js";
import { openMemoryStore, type Store } from "../../src/store/index.js";
import { message, messages } from "./sample-states.js";

interface State {
  list: unknown[];
}
type Handle = Session<State>;

/** What is known of the checkpoints that were acknowledged: their states, or what makes them of their parents'. */
class Ledger {
  readonly #states = new Map<string, State>();
  readonly #added = new Map<string, unknown>();
  /** May what was acknowledged be gone? */
  cleared = false;

  state(id: string, list: unknown[]): void {
    this.#states.set(id, { list });
    this.#added.delete(id);
  }

  added(id: string, element: unknown): void {
    this.#added.set(id, element);
  }

  async check(store: Store): Promise<void> {
    const events: DamageEvent[] = [];
    const sp = await Savepoint.open(store, { on: { damage: (event) => void events.push(event) } });
    const session = sp.session<State>("s");
    const infos = await session.history({ allBranches: true, order: "oldest" }).all();
    const found = new Map(infos.map((info) => [info.id, info]));
    const states = new Map<string, State>();
    for (const { id, parentId, kind } of infos) {
      const state = (await session.load(id))?.state as State;
      states.set(id, state);
      const parent = parentId === undefined ? undefined : states.get(parentId);
      if (this.#states.has(id)) assert.deepEqual(state, this.#states.get(id));
      if (this.#added.has(id)) assert.deepEqual(state.list, [...(parent?.list ?? []), this.#added.get(id)]);
      if (kind === "recovery" || kind === "preOperation") assert.deepEqual(state, parent);
    }
    const seqs = infos.map(({ seq }) => seq);
    assert.deepEqual(
      seqs,
      seqs.map((_, n) => (seqs[0] ?? 0) + n),
    );
    if (!this.cleared) for (const id of [...this.#states.keys(), ...this.#added.keys()]) assert.ok(found.has(id));
    for (const { name, head } of await session.branches().all()) {
      const latest = await sp.session<State>("s", { branch: name }).latest();
      assert.deepEqual([latest?.id, latest?.skipped ?? []], [head?.id, []]);
    }
    assert.deepEqual(events, []);
  }
}

interface Operation {
  readonly run: (session: Handle, sp: Savepoint, ledger: Ledger) => Promise<unknown>;
  /** It may take checkpoints or the session away from others. */
  readonly removes?: true;
}

let made = 0;
const marker = (): unknown => ({ ...message(0), id: `made ${made++}` });
const add = async (saving: Promise<{ id: string }>, element: unknown, ledger: Ledger): Promise<void> =>
  ledger.added((await saving).id, element);

/** Checkpoints "a", "b" and "c" are on `main`, "x" on `side`, which was forked from "b". */
const OPERATIONS: Record<string, Operation> = {
  async save(session, _, ledger) {
    const list = [...messages(30), marker()];
    ledger.state((await session.save({ list })).id, list);
  },
  async append(session, _, ledger) {
    const element = marker();
    await add(session.append("/list", [element]), element, ledger);
  },
  async update(session, _, ledger) {
    const element = marker();
    await add(
      session.update((state) => ({ list: [...(state?.list ?? []), element] })),
      element,
      ledger,
    );
  },
  async "save with an id"(session, _, ledger) {
    const list = [...messages(10), message(5)];
    const { id } = await session.save({ list }, { id: "chosen" });
    ledger.state(id, list);
  },
  async "save behind the head"(session, _, ledger) {
    const list = [...messages(30), marker()];
    ledger.state((await session.save({ list }, { parent: "c" })).id, list);
  },
  async "save behind an older one"(session, _, ledger) {
    const list = [...messages(30), marker()];
    ledger.state((await session.save({ list }, { parent: "a" })).id, list);
  },
  async "save on the other branch"(_, sp, ledger) {
    const element = marker();
    await add(sp.session("s", { branch: "side" }).append("/list", [element]), element, ledger);
  },
  async fork(session, _, ledger) {
    const element = marker();
    const fork = await session.fork("b", { branch: `fork ${made++}` });
    await add(fork.append("/list", [element]), element, ledger);
  },
  async "fork with a state"(session, _, ledger) {
    const list = [...messages(25), marker()];
    const id = `forked ${made++}`;
    await session.fork("x", { state: { list }, id });
    ledger.state(id, list);
  },
  rewind: (session) => session.rewind("x"),
  label: (session) => session.label("b", "label"),
  clear: { removes: true, run: (session) => session.clear() },
  delete: { removes: true, run: (_, sp) => sp.sessions.delete("s") },
  "delete and begin again": {
    removes: true,
    async run(_, sp, ledger) {
      await sp.sessions.delete("s");
      const list = [marker()];
      const again = sp.session<State>("s");
      for (const id of ["a", "b", "c", "x"]) ledger.state((await again.save({ list }, { id })).id, list);
      await again.fork("b", { branch: "side" });
    },
  },
  compact: (_, sp) => sp.compact(),
  latest: (session) => session.latest(),
  load: async (session) => void (await session.load("x")),
  "load in part": async (session) => assert.deepEqual((await session.load("x", { partial: true }))?.holes ?? [], []),
  history: (session) => session.history().all(),
  diff: (session) => session.diff("a", "x"),
} satisfies Record<string, Operation | Operation["run"]> as never;

const MEETINGS: readonly SavepointErrorCode[] = ["CONFLICT"];
const REMOVALS: readonly SavepointErrorCode[] = [
  "CHECKPOINT_NOT_FOUND",
  "BRANCH_NOT_FOUND",
  "BRANCH_EXISTS",
  "SESSION_DELETED",
];
const READS = ["latest", "load", "load in part", "history", "diff"];
/** What only reads disturbs nobody. */
const SECONDS = Object.keys(OPERATIONS).filter((name) => !READS.includes(name));

/** Where the second operation happens. */
const PLACES = [
  "in another process, at once",
  "in another process, meanwhile",
  "in the same process, meanwhile",
] as const;
/** What the first handle knows. */
const HANDLES = ["that knows the session", "that has looked", "that knows nothing"] as const;

async function meet(
  [first, second]: readonly [string, string],
  place: (typeof PLACES)[number],
  knows: (typeof HANDLES)[number],
  at: number,
): Promise<boolean> {
  const store = openMemoryStore();
  const ledger = new Ledger();
  const events: DamageEvent[] = [];
  const on = { damage: (event: DamageEvent) => void events.push(event) };
  let calls = Number.NEGATIVE_INFINITY;
  let other: Promise<unknown> | undefined;
  const gate = new Proxy(store, {
    get(target, name) {
      const member = Reflect.get(target, name) as unknown;
      if (typeof member !== "function") return member;
      return async (...args: unknown[]): Promise<unknown> => {
        const call = (): Promise<unknown> => (member as (...all: unknown[]) => Promise<unknown>).apply(target, args);
        if (calls++ !== at) return call();
        // A store applies the commits of one process in the order in which they are asked for.
        const before = place === PLACES[2] && name === "commit" ? call() : undefined;
        other = start();
        if (place === PLACES[0]) await other;
        return before ?? call();
      };
    },
  });
  const one = await Savepoint.open(gate, { on });
  const two = place === PLACES[2] ? one : await Savepoint.open(store, { on });
  const setup = knows === HANDLES[0] ? one.session<State>("s") : (await Savepoint.open(store)).session<State>("s");
  for (const id of ["a", "b"]) ledger.state((await setup.save({ list: messages(20) }, { id })).id, messages(20));
  const side = await setup.fork("b", { branch: "side" });
  await add(side.append("/list", [message(21)], { id: "x" }), message(21), ledger);
  await add(setup.append("/list", [message(22)], { id: "c" }), message(22), ledger);
  const session = knows === HANDLES[0] ? setup : one.session<State>("s");
  if (knows === HANDLES[1]) await session.latest();

  const run = (name: string, by: Handle, sp: Savepoint): Promise<unknown> => {
    const operation = OPERATIONS[name] as Operation | Operation["run"];
    const work = typeof operation === "function" ? operation : operation.run;
    if (typeof operation !== "function") ledger.cleared = true;
    return work(by, sp, ledger);
  };
  const start = (): Promise<unknown> => run(second, two.session<State>("s"), two).catch((error: unknown) => error);
  calls = 0;
  const result = await run(first, session, one).catch((error: unknown) => error);
  const met = calls > at;
  const results: [string, unknown][] = [
    [first, result],
    [second, await other],
  ];
  for (const [name, outcome] of results) {
    if (!(outcome instanceof Error)) continue;
    const allowed = [...MEETINGS, ...(ledger.cleared ? REMOVALS : [])].filter((code) =>
      isSavepointError(outcome, code),
    );
    if (allowed.length === 0) throw new Error(`"${name}" failed.`, { cause: outcome });
    // Reading finds what is there, or nothing.
    const told = isSavepointError(outcome, "SESSION_DELETED") || name === "diff";
    if (READS.includes(name) && !told) throw new Error(`"${name}" failed.`, { cause: outcome });
  }
  assert.deepEqual(events, []);
  await (await Savepoint.open(store, { on })).compact();
  await ledger.check(store);
  await (await Savepoint.open(store)).sessions.delete("s");
  await (await Savepoint.open(store)).compact();
  assert.deepEqual(await store.tapes({ from: "", to: "\u{10ffff}" }), []);
  return met;
}

describe.each(PLACES)("two operations on a session, the second %s", (place) => {
  it.each(Object.keys(OPERATIONS))("leave everything in order when the first is: %s", async (first) => {
    for (const [index, second] of SECONDS.entries()) {
      for (const knows of process.env["EVERY"] ? HANDLES : [HANDLES[index % 3] as (typeof HANDLES)[number]]) {
        for (let at = 0, met = true; met; at++) {
          try {
            met = await meet([first, second], place, knows, at);
          } catch (error) {
            const { message: why, cause } = error as Error;
            const below = cause instanceof Error ? ` ${cause.message}` : "";
            throw new Error(`With "${second}" at call ${at}, by a handle ${knows}: ${why}${below}`, { cause: error });
          }
        }
      }
    }
  });
});
