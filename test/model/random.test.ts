/** Random work on two sessions, compared at every step with a model that keeps deep copies. */
import assert from "node:assert/strict";
import { join } from "node:path";
import fc from "fast-check";
import { describe, it } from "vitest";
import { applyChanges, type DamageEvent, Savepoint, type Session } from "../../src/index.js";
import { edit, type EditedState, newEditedState } from "../support/states/edited-state.js";
import { exactText, seeded } from "../support/states/history.js";
import { openStore, type Store } from "../../src/store.js";
import { makeFolder, removeFolder } from "../store/temporary-folder.js";
import { type ModelCheckpoint, ModelSession } from "./session-model.js";
import { runs } from "../support/runs.js";

const KINDS = [
  ["save", 12],
  ["append", 6],
  ["update", 6],
  ["saveBehind", 3],
  ["fork", 4],
  ["forkWithState", 3],
  ["rewind", 4],
  ["label", 2],
  ["pin", 1],
  ["load", 3],
  ["diff", 4],
  ["compact", 2],
  ["reopen", 2],
  ["clear", 1],
  ["delete", 1],
] as const;
type Kind = (typeof KINDS)[number][0];

interface Step {
  readonly kind: Kind;
  readonly session: number;
  /** Picks a branch, a checkpoint, what is edited. */
  readonly seeds: readonly [number, number, number];
}

const small = fc.nat({ max: 2 ** 20 });
const steps: fc.Arbitrary<Step[]> = fc.array(
  fc.record({
    kind: fc.oneof(...KINDS.map(([kind, weight]) => ({ weight, arbitrary: fc.constant(kind) }))),
    session: fc.nat({ max: 1 }),
    seeds: fc.tuple(small, small, small),
  }),
  { minLength: 1, maxLength: 40, size: "max" },
);

/** A session under test: the model, and per branch the handle and the state that its owner continues to change. */
class Subject {
  model = new ModelSession();
  readonly handles = new Map<string, Session<EditedState>>();
  readonly states = new Map<string, EditedState>();

  constructor(readonly id: string) {}
}

class World {
  readonly #subjects = [new Subject("one"), new Subject("two")];
  readonly #events: DamageEvent[] = [];
  #sp!: Savepoint;

  constructor(
    readonly store: Store,
    readonly cacheBytes: number,
  ) {}

  async open(): Promise<void> {
    await this.#sp?.close();
    const on = { damage: (event: DamageEvent) => void this.#events.push(event) };
    this.#sp = await Savepoint.open(this.store, { cacheBytes: this.cacheBytes, on });
    for (const subject of this.#subjects) subject.handles.clear();
  }

  async run({ kind, session, seeds: [a, b, c] }: Step): Promise<void> {
    const subject = this.#subjects[session] as Subject;
    const { model } = subject;
    const random = seeded(c);
    const names = [...model.branches.keys()];
    const branch = names[a % Math.max(1, names.length)] ?? "main";
    const handle = this.#handle(subject, branch);
    const head = model.branches.get(branch);
    const picked = model.checkpoints[b % Math.max(1, model.checkpoints.length)];
    switch (kind) {
      case "save": {
        const state = this.#state(subject, branch, random);
        edit(state, random);
        const saving = handle.save(state, c % 3 ? {} : { label: `label ${c % 5}` });
        const taken = structuredClone(state);
        edit(state, random); // changes after the call are not saved
        model.note(await saving, branch, head, taken);
        break;
      }
      case "append": {
        if (!head) return;
        const elements = Array.from({ length: random(4) }, (_, n) => ({ n, text: "added ".repeat(random(60)) }));
        const next = structuredClone(head.state) as EditedState;
        next.messages.push(...structuredClone(elements));
        model.note(await handle.append("/messages", elements), branch, head, next);
        subject.states.delete(branch);
        break;
      }
      case "update": {
        let next: EditedState | undefined;
        const info = await handle.update((before) => {
          assert.equal(exactText(before), head ? head.text : "undefined");
          next = { ...(before ?? newEditedState(random)), note: `updated ${c}` };
          if (c % 2) next.messages = [...next.messages, { n: c }];
          return next;
        });
        model.note(info, branch, head, next);
        subject.states.delete(branch);
        break;
      }
      case "saveBehind": {
        if (!picked) return;
        const state = structuredClone(picked.state) as EditedState;
        edit(state, random);
        const info = await this.#handle(subject, "").save(state, { parent: picked.id });
        // The head of its own branch, or of main, is extended; any other parent opens a branch.
        const extended = [picked.branch, "main"].find((name) => model.branches.get(name) === picked);
        if (extended === undefined) assert.match(info.branch, /^~/);
        assert.equal(model.branches.has(info.branch), extended !== undefined);
        model.note(info, extended ?? info.branch, picked, state);
        subject.states.delete(info.branch);
        break;
      }
      case "fork": {
        if (!picked) return;
        const fork = await handle.fork(picked.id, c % 2 ? {} : { branch: `fork ${model.branches.size}.${c}` });
        assert.equal(model.branches.has(fork.branch), false);
        model.branches.set(fork.branch, picked);
        subject.handles.set(fork.branch, fork);
        break;
      }
      case "forkWithState": {
        if (!picked) return;
        const state = structuredClone(picked.state) as EditedState;
        edit(state, random);
        const fork = await handle.fork(picked.id, { state });
        const info = await fork.head();
        assert.ok(info);
        model.note(info, fork.branch, picked, state);
        subject.handles.set(fork.branch, fork);
        break;
      }
      case "rewind": {
        if (!picked || !head) return;
        const info = await handle.rewind(picked.id);
        const [kept] = await handle
          .history({ allBranches: true, limit: 2 })
          .all()
          .then((two) => two.slice(1));
        assert.ok(kept);
        model.note(kept, branch, head, head.state, "preOperation");
        model.note(info, branch, picked, picked.state, "recovery");
        subject.states.delete(branch);
        break;
      }
      case "label":
        if (!picked) return;
        picked.label = c % 3 ? `label ${c % 5}` : undefined;
        await handle.label(picked.id, picked.label);
        break;
      case "pin":
        if (!picked) return;
        picked.pinned = c % 2 === 0;
        await handle.pin(picked.id, picked.pinned);
        break;
      case "load":
        if (picked) assert.equal(exactText((await handle.load({ seq: picked.seq }))?.state), picked.text);
        if (head) assert.equal(exactText((await handle.latest())?.state), head.text);
        break;
      case "diff": {
        const other = model.checkpoints[a % Math.max(1, model.checkpoints.length)];
        if (!picked || !other) return;
        const changes = await handle.diff(picked.id, other.id);
        // A key that is put back comes after the others: order is not a difference.
        assert.equal(exactText(applyChanges(picked.state, changes), true), exactText(other.state, true));
        break;
      }
      case "compact":
        await this.#sp.compact();
        break;
      case "reopen":
        await this.open();
        break;
      case "clear":
        if (c % 2) return;
        assert.equal(await handle.clear(), model.clear());
        subject.handles.clear();
        subject.states.clear();
        break;
      case "delete":
        if (c % 2) return;
        assert.equal(await this.#sp.sessions.delete(subject.id), model.branches.size > 0);
        if (model.branches.size > 0) await assert.rejects(handle.latest(), { code: "SESSION_DELETED" });
        this.#forget(subject);
        break;
    }
  }

  /** Checks everything: at once, after a compaction, and after everything is deleted. */
  async finish(): Promise<void> {
    for (const compacted of [false, true]) {
      if (compacted) await this.#sp.compact();
      await this.open();
      for (const { id, model } of this.#subjects) await model.check(this.#sp, id);
    }
    for (const { id } of this.#subjects) await this.#sp.sessions.delete(id);
    const later = await Savepoint.open(this.store);
    await later.compact();
    assert.deepEqual(await this.store.tapes({ from: "", to: "\u{10ffff}" }), []);
    assert.deepEqual(this.#events, []);
  }

  /** The handle that works on a branch; "" is one that names no branch. */
  #handle(subject: Subject, branch: string): Session<EditedState> {
    const known = subject.handles.get(branch);
    // A handle that saves with a parent moves branches under those that work on them.
    if (branch === "" || !known) {
      subject.handles.clear();
      const handle = this.#sp.session<EditedState>(subject.id, branch === "" ? {} : { branch });
      subject.handles.set(branch, handle);
      return handle;
    }
    return known;
  }

  #state(subject: Subject, branch: string, random: (below: number) => number): EditedState {
    const head = subject.model.branches.get(branch);
    const fresh = (from: ModelCheckpoint | undefined): EditedState =>
      from ? (structuredClone(from.state) as EditedState) : newEditedState(random);
    const state = subject.states.get(branch) ?? fresh(head);
    subject.states.set(branch, state);
    return state;
  }

  #forget(subject: Subject): void {
    subject.model = new ModelSession();
    subject.handles.clear();
    subject.states.clear();
  }
}

describe.each([
  ["memory:", runs(120, 6)],
  ["sqlite:", runs(40, 3)],
])("random work on %s", (scheme, numRuns) => {
  it("random work leaves exactly what a model of deep copies predicts", async () => {
    const folder = await makeFolder();
    let run = 0;
    const property = fc.asyncProperty(steps, fc.constantFrom(1, 50_000, 2 ** 27), async (work, cacheBytes) => {
      const url = scheme === "memory:" ? scheme : `sqlite:${join(folder, `${run++}.db`)}`;
      const store = await openStore(url, { durability: "process" });
      const world = new World(store, cacheBytes);
      await world.open();
      for (const step of work) await world.run(step);
      await world.finish();
      await store.close();
    });
    try {
      await fc.assert(property, { numRuns });
    } finally {
      await removeFolder(folder);
    }
  });
});
