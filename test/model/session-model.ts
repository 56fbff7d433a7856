/** A simple model of what sessions should hold: deep copies of states in a tree. */
import assert from "node:assert/strict";
import type { CheckpointInfo, CheckpointKind, Savepoint } from "../../src/index.js";
import { exactText } from "../support/states/history.js";

export interface ModelCheckpoint {
  readonly id: string;
  readonly seq: number;
  readonly step: number;
  readonly branch: string;
  readonly parentId: string | undefined;
  readonly kind: CheckpointKind;
  label: string | undefined;
  pinned: boolean;
  /** Everything there is to know about the state. */
  readonly text: string;
  readonly state: unknown;
}

export class ModelSession {
  readonly checkpoints: ModelCheckpoint[] = [];
  /** The heads of the branches. */
  readonly branches = new Map<string, ModelCheckpoint | undefined>();
  #nextSeq = 0;

  find(id: string | undefined): ModelCheckpoint | undefined {
    return this.checkpoints.find((checkpoint) => checkpoint.id === id);
  }

  /** Records a new checkpoint, and checks its info. */
  note(
    info: CheckpointInfo,
    branch: string,
    parent: ModelCheckpoint | undefined,
    state: unknown,
    kind: CheckpointKind = "manual",
  ): ModelCheckpoint {
    const copied = kind === "recovery" || kind === "preOperation";
    const checkpoint: ModelCheckpoint = {
      id: info.id,
      seq: this.#nextSeq++,
      step: copied ? (parent?.step ?? 0) : parent ? parent.step + 1 : 0,
      branch,
      parentId: parent?.id,
      kind,
      label: info.label,
      pinned: false,
      text: exactText(state),
      state: structuredClone(state),
    };
    assert.deepEqual(pick(info), pick(checkpoint));
    this.checkpoints.push(checkpoint);
    this.branches.set(branch, checkpoint);
    return checkpoint;
  }

  clear(): number {
    const count = this.checkpoints.length;
    const hadMain = this.branches.has("main");
    this.checkpoints.length = 0;
    this.branches.clear();
    if (hadMain) this.branches.set("main", undefined);
    return count;
  }

  line(head: ModelCheckpoint | undefined): ModelCheckpoint[] {
    const line: ModelCheckpoint[] = [];
    for (let at = head; at; at = this.find(at.parentId)) line.push(at);
    return line;
  }

  /** Checks that the store holds all of this and nothing else. */
  async check(sp: Savepoint, id: string): Promise<void> {
    const session = sp.session(id);
    const infos = await session.history({ allBranches: true, order: "oldest" }).all();
    assert.deepEqual(infos.map(pick), this.checkpoints.map(pick));
    for (const checkpoint of this.checkpoints) {
      const loaded = await session.load(checkpoint.id);
      assert.equal(exactText(loaded?.state), checkpoint.text, `The state of #${checkpoint.seq}`);
      assert.deepEqual(loaded && pick(loaded), pick(checkpoint));
      if (checkpoint.label !== undefined) {
        const newest = this.checkpoints.filter(({ label }) => label === checkpoint.label).at(-1);
        assert.equal((await session.load({ label: checkpoint.label }))?.id, newest?.id);
      }
    }
    const branches = await session.branches().all();
    assert.deepEqual(branches.map(({ name }) => name).sort(), [...this.branches.keys()].sort());
    for (const [name, head] of this.branches) {
      const branch = sp.session(id, { branch: name });
      const latest = await branch.latest();
      assert.deepEqual([latest?.id, latest?.skipped ?? []], [head?.id, []]);
      if (head) assert.equal(exactText(latest?.state), head.text, `The newest state of ${name}`);
      assert.deepEqual(
        (await branch.history().all()).map(({ seq }) => seq),
        this.line(head).map(({ seq }) => seq),
      );
    }
  }
}

function pick(info: Omit<ModelCheckpoint, "text" | "state">): Omit<ModelCheckpoint, "text" | "state"> {
  const { id, seq, step, branch, parentId, kind, label, pinned } = info;
  return { id, seq, step, branch, parentId, kind, label, pinned };
}
