/** Looks at what processes left behind. */
import assert from "node:assert/strict";
import { type DamageEvent, Savepoint } from "../../src/index.js";
import { encryptionOf } from "../support/crash-keys.mjs";
import { hashOf } from "./workload.mjs";

/** A checkpoint that a process has said is saved. */
export interface Acknowledged {
  readonly session: string;
  readonly id: string;
  readonly seq: number;
  readonly hash: string;
}

export class Survivors {
  readonly #acknowledged = new Map<string, Map<string, Acknowledged>>();
  /** How many checkpoints of each session have been loaded. */
  readonly #loaded = new Map<string, number>();

  constructor(readonly url: string) {}

  note(lines: readonly object[]): void {
    for (const line of lines as Acknowledged[]) {
      const ofSession = this.#acknowledged.get(line.session) ?? new Map<string, Acknowledged>();
      this.#acknowledged.set(line.session, ofSession.set(line.id, line));
    }
  }

  get count(): number {
    return [...this.#acknowledged.values()].reduce((sum, ofSession) => sum + ofSession.size, 0);
  }

  /**
   * Everything acknowledged is there; every checkpoint, acknowledged or not, is what it says it is; none is missing in
   * between; and every branch has its newest.
   *
   * @param all load again what was loaded before
   */
  async check({ all }: { all: boolean }): Promise<void> {
    const events: DamageEvent[] = [];
    const on = { damage: (event: DamageEvent) => void events.push(event) };
    await using sp = await Savepoint.open(this.url, { on, ...encryptionOf() });
    for (const [id, acknowledged] of this.#acknowledged) {
      const session = sp.session(id);
      const infos = await session.history({ allBranches: true, order: "oldest" }).all();
      const seqs = infos.map(({ seq }) => seq);
      assert.deepEqual(seqs, [...seqs.keys()], `The seqs of ${id}`);
      const known = new Map(infos.map((info) => [info.id, info]));
      for (const { id: checkpoint, seq, hash } of acknowledged.values()) {
        const info = known.get(checkpoint);
        assert.deepEqual([info?.seq, info?.metadata["hash"]], [seq, hash], `${id}#${seq} was acknowledged.`);
      }
      for (const info of infos.slice(all ? 0 : this.#loaded.get(id))) {
        const loaded = await session.load(info.id);
        assert.equal(hashOf(loaded?.state), info.metadata["hash"], `The state of ${id}#${info.seq}`);
      }
      this.#loaded.set(id, infos.length);
      for (const { name, head } of await session.branches().all()) {
        const latest = await sp.session(id, { branch: name }).latest();
        assert.deepEqual([latest?.id, latest?.skipped], [head?.id, []], `The head of ${id}, ${name}`);
      }
    }
    assert.deepEqual(events, []);
  }
}
