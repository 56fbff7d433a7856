/** Repairs of a store with one damaged part: every record, an item of every tape, every blob, in every way. */
import { rmSync } from "node:fs";
import { join } from "node:path";
import type { Damage, DamageTarget } from "savepoint/testing";
import { beforeAll, expect, it } from "vitest";
import { isSavepointError, message, Savepoint } from "../../src/index.js";
import { makeMemoryFolder } from "../store/temporary-folder.js";
import {
  filesIn,
  fill,
  type Known,
  type Part,
  type Place,
  readEverything,
  show,
  targetsIn,
  useGround,
} from "./world.js";

const PATIENCE = { timeout: 600_000 };

/** Never restored from a backup, because later effects would be executed again: all records of runs. */
const isOfRuns = (target: DamageTarget): boolean => target.kind === "record" && /^[rq]\t/.test(target.key);

interface Faults {
  /** Verify missed the damage. */
  readonly unnoticed: string[];
  /** It could have been repaired. */
  readonly unhealed: string[];
  /** A repair reported success without reason, or lost or changed data that was intact. */
  readonly wrong: string[];
  /** A dry run predicted something other than what the repair did. */
  readonly mispredicted: string[];
}

/** Tests on one kind of store. */
export function describeRepair(place: Place): void {
  const ground = useGround();
  let folder: string;
  let known: Known;
  let targets: DamageTarget[];
  let truth: Map<string, Part>;
  let ids: Set<string>;
  let branches: string[] = [];

  beforeAll(async () => {
    folder = makeMemoryFolder();
    const sp = await Savepoint.open(place.url(folder), { durability: "process" });
    known = await fill(sp);
    await sp.backup({ to: join(folder, "backups") });
    await sp.close();
    const again = await Savepoint.open(place.url(folder), { durability: "process" });
    truth = await readEverything(again, known);
    await again.close();
    targets = await targetsIn(place.url(folder));
    ids = new Set(known.sessions.flatMap((session) => session.ids));
    return () => rmSync(folder, { recursive: true, force: true });
  });

  const isTrue = (parts: ReadonlyMap<string, Part>, name: string): boolean =>
    show(parts.get(name)) === show(truth.get(name));

  /** Damages each target in a copy of its own, and collects what goes wrong. */
  async function each(
    how: Damage,
    chosen: (target: DamageTarget) => boolean,
    work: (copy: string, sp: Savepoint, name: string, faults: Faults) => Promise<void>,
  ): Promise<Faults> {
    const faults: Faults = { unnoticed: [], unhealed: [], wrong: [], mispredicted: [] };
    for (const target of targets.filter(chosen)) {
      const copy = ground.copy(folder);
      await place.damage(copy, target, how);
      const sp = await ground.open(place.url(copy));
      await work(copy, sp, `${JSON.stringify(target)} (${how})`, faults);
      await sp.close();
      rmSync(copy, { recursive: true, force: true });
    }
    return faults;
  }

  /** The backup contains everything. */
  const withBackup = (how: Damage, chosen: (target: DamageTarget) => boolean): Promise<Faults> =>
    each(how, chosen, async (copy, sp, name, { unnoticed, unhealed, wrong, mispredicted }) => {
      const from = join(copy, "backups");
      const planned = await sp.repair({ from, dryRun: true });
      const done = await sp.repair({ from });
      if (planned.healed.length + planned.holes.length === 0) unnoticed.push(name);
      if (!done.ok) unhealed.push(`${name}: ${show(done.holes)}`);
      if (planned.ok !== done.ok || show(planned.healed) !== show(done.healed)) mispredicted.push(name);
      const parts = await readEverything(sp, known);
      const changed = [...parts.keys()].filter((part) => !isTrue(parts, part));
      if (done.ok && changed.length > 0) wrong.push(`${name}: ${changed.join(", ")}`);
      if (done.ok && !(await sp.verify({ deep: true })).ok) wrong.push(`${name}: is not well`);
    });

  const withoutBackup = (how: Damage): Promise<Faults> =>
    each(
      how,
      () => true,
      async (_, sp, name, { unnoticed, wrong, mispredicted }) => {
        const before = await readEverything(sp, known);
        const planned = await sp.repair({ dryRun: true });
        const done = await sp.repair();
        if (planned.healed.length + planned.holes.length === 0) unnoticed.push(name);
        if (planned.ok !== done.ok || show(planned.healed) !== show(done.healed)) mispredicted.push(name);
        const after = await readEverything(sp, known);
        for (const [part, found] of after) {
          if (isTrue(after, part)) continue;
          if (isTrue(before, part)) wrong.push(`${name}: ${part} was whole, and is ${show(found)}`);
          else if (done.ok) wrong.push(`${name}: ${part} is ${show(found)}, and all is well`);
          else if ("value" in found && found.value === undefined) wrong.push(`${name}: ${part} is empty`);
        }
        wrong.push(...(await goOn(sp)).map((each) => `${name}: ${each}`));
        // New data has not replaced anything.
        const later = await readEverything(sp, known);
        for (const part of after.keys()) {
          if (!/^(load|conversation|checkpoint) /.test(part) || !isTrue(after, part) || isTrue(later, part)) continue;
          if (!part.startsWith("conversation free")) wrong.push(`${name}: ${part} is ${show(later.get(part))} later`);
        }
        if ((await sp.verify({ deep: true })).ok !== done.ok) wrong.push(`${name}: something new is wrong`);
      },
    );

  /** Saves wherever it is possible; ids and seqs must be new. */
  async function goOn(sp: Savepoint): Promise<string[]> {
    const wrong: string[] = [];
    const attempt = async (work: () => Promise<unknown>): Promise<void> => {
      try {
        await work();
      } catch (error) {
        if (!isSavepointError(error)) wrong.push(String(error));
      }
    };
    const seen = new Set(ids);
    for (const { id, branches } of known.sessions) {
      const all = truth.get(`all ${id}`) as { value: { seq: number }[] };
      const last = Math.max(...all.value.map(({ seq }) => seq));
      for (const branch of branches) {
        await attempt(async () => {
          const saved = await sp.session(id, { branch }).save({ messages: ["new"] });
          if (seen.has(saved.id) || saved.seq <= last)
            wrong.push(`${saved.id}, #${saved.seq} of ${id}, is given again`);
          seen.add(saved.id);
          const latest = await sp.session(id, { branch }).latest();
          if (latest?.id !== saved.id) wrong.push(`what was saved on ${branch} of ${id} is not the latest`);
        });
      }
    }
    await attempt(() => sp.session("fresh").save({ messages: ["fresh"] }));
    await attempt(() => sp.conversations.create({ id: "fresh", messages: [message.user("fresh")] }));
    await attempt(async () => {
      const messages = (truth.get("conversation free") as { value: { messages: { id?: string }[] } }).value.messages;
      const [entry] = await sp.conversations.append("free", [message.user("new")]);
      const now = await sp.conversations.load("free");
      if (now && now.messages.length !== messages.length + 1) wrong.push(`${entry?.id} took the place of another`);
    });
    return wrong;
  }

  const nothing = { unnoticed: [], unhealed: [], wrong: [] };
  /** What dry runs got wrong. */
  const mispredicted: string[] = [];
  const withoutPrediction = ({ mispredicted: more, ...faults }: Faults): Omit<Faults, "mispredicted"> => {
    mispredicted.push(...more);
    return faults;
  };

  it.each(["flip", "truncate"] as const)("with a backup restores everything (%s)", PATIENCE, async (how) => {
    expect(withoutPrediction(await withBackup(how, (target) => !isOfRuns(target)))).toEqual(nothing);
  });

  // Nothing records that a row of a table existed: a row that no other record names is not missed.
  it("with a backup restores everything that other records name (remove)", PATIENCE, async () => {
    const isNamed = (target: DamageTarget): boolean =>
      !isOfRuns(target) &&
      (place.name === "file:" || target.kind !== "record" || !/^(a|b|d\tag$|c\t.*\t[lt]|s\ts\tside)/.test(target.key));
    expect(withoutPrediction(await withBackup("remove", isNamed))).toEqual(nothing);
  });

  it("with a backup changes no records of runs, and names the damaged ones", PATIENCE, async () => {
    const { unhealed, ...faults } = withoutPrediction(await withBackup("flip", isOfRuns));
    expect({ ...faults, unhealed: [] }).toEqual(nothing);
    expect(unhealed).toHaveLength(targets.filter(isOfRuns).length);
  });

  it("without a backup keeps intact data, names damaged data, and leaves a usable store", PATIENCE, async () => {
    const { wrong, ...faults } = withoutPrediction(await withoutBackup("flip"));
    branches = wrong.filter((fault) => fault.includes(": branches "));
    expect({ ...faults, wrong: wrong.filter((fault) => !branches.includes(fault)) }).toEqual(nothing);
  });

  // A branch on which nothing was saved since is known by its record alone.
  it("without a backup changes no branches that were saved to", () =>
    expect(branches.filter((fault) => !fault.includes("side"))).toEqual([]));

  it("predicts in a dry run what will be repaired", () => expect(mispredicted).toEqual([]));

  it("changes no byte in a dry run", PATIENCE, async () => {
    const changed: string[] = [];
    await each(
      "flip",
      () => true,
      async (copy, sp, name) => {
        const before = filesIn(copy);
        await sp.repair({ from: join(copy, "backups"), dryRun: true });
        if (show([...filesIn(copy)]) !== show([...before])) changed.push(name);
      },
    );
    expect(changed).toEqual([]);
  });
}
