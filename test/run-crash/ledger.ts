/**
 * Compares the world's log of executed effects with what Savepoint promises: no recorded effect is executed again,
 * and an interrupted effect is handled according to its policy.
 */
import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { ORDER, POLICIES } from "./clerk.mjs";

interface Line {
  readonly what: string;
  readonly id: string;
  readonly key: string;
  /** The argument of the effect, if it depends on earlier effects. */
  readonly seen: string;
}

/** A kill: the length of the log at that moment, and the effects recorded by then. */
interface Kill {
  readonly at: number;
  readonly recorded: ReadonlySet<string>;
}

export class Ledger {
  readonly #file: string;
  readonly #kills: Kill[] = [];

  constructor(folder: string) {
    this.#file = join(folder, "world.log");
  }

  /** Notes that a process was killed, and what it had recorded. */
  noteKill(recorded: ReadonlySet<string>): void {
    const lines = this.#read();
    for (const id of mustBeRecorded(lines)) {
      assert.ok(recorded.has(id), `${id} was done before something that follows it, and is not recorded`);
    }
    this.#kills.push({ at: lines.length, recorded });
  }

  /** Effects that a kill interrupted: started, but not recorded. */
  interrupted(): string[] {
    const lines = this.#read();
    const ids = new Set(lines.map(({ id }) => id));
    return [...ids].filter((id) => this.#segments(lines, id).some(({ interrupted }) => interrupted));
  }

  /**
   * Checks the effects of a completed branch.
   *
   * @param names the effects that it must have had
   * @param results what its state says they returned
   */
  check(place: string, names: readonly string[], results: Readonly<Record<string, string>>): void {
    const lines = this.#read();
    assert.deepEqual(
      lines.filter(({ what }) => what === "damage"),
      [],
    );
    const done = new Set(lines.flatMap(({ id }) => (id.startsWith(`${place}/`) ? [id.slice(place.length + 1)] : [])));
    const unexpected = [...done].filter((name) => !names.includes(name));
    assert.deepEqual(unexpected, [], `${place} did what it should not have done`);
    for (const name of names) this.#checkEffect(lines, `${place}/${name}`, name, results[name]);
  }

  #checkEffect(lines: readonly Line[], id: string, name: string, result: string | undefined): void {
    const mine = lines.filter((line) => line.id === id);
    const count = (what: string): number => mine.filter((line) => line.what === what).length;
    const keys = new Set(mine.flatMap(({ what, key }) => (what === "asked" ? [] : [key])));
    assert.ok(keys.size <= 1, `${id} had several idempotency keys`);
    const segments = this.#segments(lines, id);
    for (const { again } of segments) assert.equal(again, 0, `${id} was done again after it was recorded`);
    const interrupted = segments.filter((segment) => segment.interrupted);
    const policy = POLICIES[name] ?? "retry";
    if (policy === "fail") {
      const unknown = result === "OUTCOME_UNKNOWN";
      assert.ok(count("begin") <= 1, `${id} was done again, and should have failed`);
      assert.ok(interrupted.length === 0 || unknown, `${id} was interrupted, and nobody was told`);
      assert.ok(unknown || count("end") === 1, `${id} was done ${count("end")} times`);
      // The intent may be recorded before the effect was executed; the outcome is unknown in that case too.
      assert.ok(!unknown || this.#kills.length > 0, `${id} is unknown, and was never interrupted`);
      return;
    }
    if (policy === "retry") {
      assert.equal(count("begin"), 1 + interrupted.length, `${id} was begun ${count("begin")} times`);
      const seen = new Set(mine.map((line) => line.seen));
      assert.equal(seen.size, 1, `${id} was given something else the second time: ${[...seen].join(" and ")}`);
      return;
    }
    assert.equal(count("end"), 1, `${id} was done ${count("end")} times, though somebody could have told`);
    const halfDone = interrupted.filter(({ ended }) => !ended).length;
    assert.equal(count("begin"), 1 + halfDone, `${id} was begun ${count("begin")} times`);
    const asked = count(policy === "ask" ? "asked" : "verify");
    assert.ok(asked >= Math.min(1, interrupted.length), `${id} was interrupted, and nobody was asked`);
    assert.ok(asked === 0 || this.#kills.length > 0, `${id} was asked about, and was never interrupted`);
  }

  /** What happened to an effect between one kill and the next. */
  #segments(lines: readonly Line[], id: string): { interrupted: boolean; ended: boolean; again: number }[] {
    let from = 0;
    return this.#kills.map(({ at, recorded }) => {
      const before = lines.slice(from, at).filter((line) => line.id === id);
      const begun = before.some(({ what }) => what === "begin");
      const ended = before.some(({ what }) => what === "end");
      const after = lines.slice(at).filter((line) => line.id === id && line.what === "begin");
      from = at;
      return { interrupted: begun && !recorded.has(id), ended, again: recorded.has(id) ? after.length : 0 };
    });
  }

  #read(): Line[] {
    if (!existsSync(this.#file)) return [];
    const lines = readFileSync(this.#file, "utf8").split("\n").filter(Boolean);
    return lines.map((line) => {
      const [what = "", id = "", key = "", ...seen] = line.split(" ");
      return { what, id, key, seen: what === "verify" ? "" : seen.join(" ") };
    });
  }
}

const RANKS = new Map(ORDER.flatMap((names, rank) => names.map((name): [string, number] => [name, rank])));

/** The effects that had ended before an effect that waits for them began. */
function mustBeRecorded(lines: readonly Line[]): string[] {
  const furthest = new Map<string, number>();
  const split = (id: string): [string, number] => {
    const at = id.lastIndexOf("/");
    return [id.slice(0, at), RANKS.get(id.slice(at + 1)) ?? -1];
  };
  for (const { what, id } of lines) {
    const [place, rank] = split(id);
    if (what === "begin") furthest.set(place, Math.max(rank, furthest.get(place) ?? -1));
  }
  return lines.flatMap(({ what, id }) => {
    const [place, rank] = split(id);
    return what === "end" && rank < (furthest.get(place) ?? -1) ? [id] : [];
  });
}
