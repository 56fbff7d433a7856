/** Operations that meet on one session, and what must be true of it afterwards, in any order. */
import assert from "node:assert/strict";
import {
  type DamageEvent,
  isSavepointError,
  Savepoint,
  type SavepointErrorCode,
  type Session,
} from "../../src/index.js";
import type { Store } from "../../src/store.js";
import { message, messages } from "./sample-states.js";

export interface State {
  list: unknown[];
}
export type Handle = Session<State>;

/** Is this the state of a checkpoint, given that of its parent? */
type Description = (state: State, parent: State | undefined) => boolean;

/** What is known of acknowledged checkpoints: their states, or how they follow from their parents' states. */
export class Ledger {
  /** A session that is begun again may have other checkpoints under the same ids. */
  readonly #descriptions = new Map<string, Description[]>();
  /** Whether an operation removed acknowledged checkpoints. */
  removed = false;

  state(id: string, list: unknown[]): void {
    this.#describe(id, (state) => isSame(state.list, list));
  }

  added(id: string, element: unknown): void {
    this.#describe(id, (state, parent) => isSame(state.list, [...(parent?.list ?? []), element]));
  }

  /** Checks that everything stored was saved, and that nothing is missing unless it was removed. */
  async check(store: Store): Promise<void> {
    const events: DamageEvent[] = [];
    const sp = await Savepoint.open(store, { on: { damage: (event) => void events.push(event) } });
    const session = sp.session<State>("s");
    const infos = await session.history({ allBranches: true, order: "oldest" }).all();
    const states = new Map<string, State>();
    for (const { id, seq, parentId, kind } of infos) {
      const state = (await session.load(id))?.state as State;
      const parent = parentId === undefined ? undefined : states.get(parentId);
      const copied = kind === "recovery" || kind === "preOperation";
      const known = copied ? [() => isSame(state, parent)] : (this.#descriptions.get(id) ?? [() => true]);
      assert.ok(
        known.some((describes) => describes(state, parent)),
        `#${seq} (${id}) is not what was saved.`,
      );
      states.set(id, state);
    }
    const seqs = infos.map(({ seq }) => seq);
    const first = seqs[0] ?? 0;
    assert.deepEqual(
      seqs,
      seqs.map((_, n) => first + n),
    );
    if (!this.removed) for (const id of this.#descriptions.keys()) assert.ok(states.has(id), `${id} is lost.`);
    for (const { name, head } of await session.branches().all()) {
      const latest = await sp.session<State>("s", { branch: name }).latest();
      assert.deepEqual([latest?.id, latest?.skipped ?? []], [head?.id, []]);
    }
    assert.deepEqual(events, []);
  }

  /** Checks that a compaction keeps everything, and that a deletion removes everything. */
  async checkToTheEnd(store: Store): Promise<void> {
    const sp = await Savepoint.open(store);
    await sp.compact();
    await this.check(store);
    await sp.sessions.delete("s");
    await sp.compact();
    assert.deepEqual(await store.tapes({ from: "", to: "\u{10ffff}" }), []);
  }

  #describe(id: string, description: Description): void {
    this.#descriptions.set(id, [...(this.#descriptions.get(id) ?? []), description]);
  }
}

function isSame(a: unknown, b: unknown): boolean {
  return JSON.stringify(a) === JSON.stringify(b);
}

/** Checkpoints "a", "b" and "c" on `main`, and "x" on `side`, which was forked from "b". */
export async function prepareSession(session: Handle, ledger: Ledger): Promise<void> {
  for (const id of ["a", "b"]) ledger.state((await session.save({ list: messages(20) }, { id })).id, messages(20));
  const side = await session.fork("b", { branch: "side" });
  await add(side.append("/list", [message(21)], { id: "x" }), message(21), ledger);
  await add(session.append("/list", [message(22)], { id: "c" }), message(22), ledger);
}

export type Operation = (session: Handle, sp: Savepoint, ledger: Ledger) => Promise<unknown>;

let made = 0;
const marker = (): unknown => ({ ...message(0), id: `made ${made++}` });
const add = async (saving: Promise<{ id: string }>, element: unknown, ledger: Ledger): Promise<void> =>
  ledger.added((await saving).id, element);

export const OPERATIONS: Readonly<Record<string, Operation>> = {
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
    const change = (state: Readonly<State> | undefined): State => ({ list: [...(state?.list ?? []), element] });
    await add(session.update(change), element, ledger);
  },
  async "save with an id"(session, _, ledger) {
    const list = [...messages(10), message(5)];
    ledger.state((await session.save({ list }, { id: "chosen" })).id, list);
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
  clear: (session) => session.clear(),
  delete: (_, sp) => sp.sessions.delete("s"),
  async "delete and begin again"(_, sp, ledger) {
    await sp.sessions.delete("s");
    const list = [message(7)];
    const again = sp.session<State>("s");
    for (const id of ["a", "b", "c", "x"]) ledger.state((await again.save({ list }, { id })).id, list);
    await again.fork("b", { branch: "side" });
  },
  compact: (_, sp) => sp.compact(),
  latest: (session) => session.latest(),
  load: (session) => session.load("x"),
  "load in part": async (session) => assert.deepEqual((await session.load("x", { partial: true }))?.holes ?? [], []),
  history: (session) => session.history().all(),
  diff: (session) => session.diff("a", "x"),
};

const READS = ["latest", "load", "load in part", "history", "diff"];
const REMOVES = ["clear", "delete", "delete and begin again"];

/** Operations that can disturb others. */
export const WRITES = Object.keys(OPERATIONS).filter((name) => !READS.includes(name));

/** Performs an operation; a failure is returned, to be judged later. */
export function attempt(name: string, session: Handle, sp: Savepoint, ledger: Ledger): Promise<unknown> {
  if (REMOVES.includes(name)) ledger.removed = true;
  const operation = OPERATIONS[name] as Operation;
  return operation(session, sp, ledger).catch((error: unknown) => error);
}

const REMOVED: readonly SavepointErrorCode[] = [
  "CHECKPOINT_NOT_FOUND",
  "BRANCH_NOT_FOUND",
  "BRANCH_EXISTS",
  "SESSION_DELETED",
];

/** Writers may be late, and meet removed data. Readers find current data, or nothing. */
export function judge(name: string, outcome: unknown, { removed }: Ledger): void {
  if (!(outcome instanceof Error)) return;
  const expected: SavepointErrorCode[] = READS.includes(name) ? ["SESSION_DELETED"] : ["CONFLICT", ...REMOVED];
  if (name === "diff") expected.push("CHECKPOINT_NOT_FOUND");
  const met = expected.some((code) => isSavepointError(outcome, code) && (removed || code === "CONFLICT"));
  if (!met) throw new Error(`"${name}" failed: ${outcome.message}`, { cause: outcome });
}
