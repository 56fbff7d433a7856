// Export, import, backup, prune, compact, verify, repair and migrate on the command line.
import { execFile } from "node:child_process";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { promisify } from "node:util";
import { describe, expect, it } from "vitest";
import type { DamageTarget } from "savepoint/testing";
import { SQLITE, targetsIn } from "../damage/world.js";
import { errorOf, PROGRAM } from "./command.js";
import { type Fields, saveAgent, saveTrip, seqsOf, stateOf, usePlace } from "./place.js";

const tool = usePlace();
const other = (): string => `sqlite:${tool().path("other.db")}`;

async function fill(): Promise<void> {
  await tool().leave(async (sp) => {
    await saveTrip(sp);
    await saveAgent(sp);
  });
}

/** Damages the selected target in the store of the test. */
async function damage(wanted: (target: DamageTarget) => boolean): Promise<void> {
  const target = (await targetsIn(tool().url)).find(wanted);
  if (!target) throw new Error("There is nothing like that.");
  await SQLITE.damage(tool().folder, target, "flip");
}

const anItem = ({ kind }: DamageTarget): boolean => kind === "item";

describe("export and import", () => {
  it("a bundle file moves everything to another store, and a second import imports nothing twice", async () => {
    await fill();
    const done = await tool().json(["export", "--out", "all.savepoint"]);
    expect(done).toMatchObject({ path: "all.savepoint", checkpoints: 6, holes: [] });
    expect(readdirSync(tool().folder).filter((name) => name.includes("savepoint"))).toEqual(["all.savepoint"]);
    await tool().run(["init", "--store", other()]);
    const taken = await tool().run(["import", "all.savepoint", "--store", other(), "--json"]);
    expect(taken.code, taken.stderr).toBe(0);
    expect(JSON.parse(taken.stdout)).toMatchObject({ conversations: 2, checkpoints: 6, skipped: [], holes: [] });
    const again = await tool().run(["import", "all.savepoint", "--store", other(), "--jsonl"]);
    expect(again.code, again.stderr).toBe(0);
    expect(JSON.parse(again.stdout)).toMatchObject({ sessions: 0 });
    await tool().leave(async (sp) => {
      expect((await sp.session("trip").latest())?.state).toMatchObject({ n: 4 });
      expect((await sp.agents.load("planner"))?.state).toEqual({ mood: "bad" });
      expect((await sp.verify({ deep: true })).ok).toBe(true);
    }, other());
  });

  it("a pipe moves a session from one process to another", async () => {
    await fill();
    await tool().run(["init", "--store", "file:./files"]);
    const line = `"${process.execPath}" "${PROGRAM}" export --session trip --store "${tool().url}" | "${process.execPath}" "${PROGRAM}" import - --store file:./files --json`;
    const { stdout } = await promisify(execFile)("sh", ["-c", line], { cwd: tool().folder });
    expect(JSON.parse(stdout)).toMatchObject({ sessions: 1, conversations: 0, checkpoints: 5 });
    await tool().leave(
      async (sp) => expect((await sp.session("trip").latest())?.state).toMatchObject({ n: 4 }),
      `file:${tool().path("files")}`,
    );
  });

  it("export writes one checkpoint, or an agent with its conversations and sessions", async () => {
    await fill();
    expect(await tool().json(["export", "trip#2", "-o", "one.savepoint"])).toMatchObject({ checkpoints: 1 });
    expect(await tool().json(["export", "--agent", "planner", "-o", "agent.savepoint"])).toMatchObject({
      checkpoints: 6,
    });
    await tool().fail(["export", "--session", "trap", "-o", "x.savepoint"], 4);
    await tool().fail(["export", "--agent", "nobody", "-o", "x.savepoint"], 4);
    await tool().fail(["export", "trip#9", "-o", "x.savepoint"], 4);
    await tool().fail(["export", "trip#2", "--session", "trip", "-o", "x.savepoint"], 2);
    expect(existsSync(tool().path("x.savepoint"))).toBe(false);
  });

  it("export reports an output folder that does not exist", async () => {
    await fill();
    const { message } = await tool().fail(["export", "-o", "nowhere/x.savepoint"], 1);
    expect(message).toContain("nowhere/x.savepoint");
  });

  it("export ends quietly if the reader closes the pipe", async () => {
    await tool().leave(async (sp) => {
      const bytes = Uint8Array.from({ length: 500_000 }, (_, n) => (n * n * 7919) >> 5);
      await sp.session("large").save({ bytes });
    });
    const line = `"${process.execPath}" "${PROGRAM}" export --store "${tool().url}" | head -c 10`;
    const { stderr } = await promisify(execFile)("sh", ["-c", line], { cwd: tool().folder });
    expect(stderr).toBe("");
  });

  it("import rejects a modified bundle and imports nothing of the modified part", async () => {
    await fill();
    await tool().json(["export", "--session", "trip", "-o", "trip.savepoint"]);
    const bytes = readFileSync(tool().path("trip.savepoint"));
    const at = bytes.indexOf("message 0");
    expect(at).toBeGreaterThan(0);
    bytes.write("massage 0", at);
    tool().file("changed.savepoint", bytes);
    await tool().run(["init", "--store", other()]);
    errorOf(await tool().run(["import", "changed.savepoint", "--store", other(), "--json"]), 20);
    errorOf(await tool().run(["import", "-", "--store", other(), "--json"], { stdin: bytes }), 20);
    errorOf(await tool().run(["import", "-", "--store", other(), "--json"], { stdin: "no bundle" }), 20);
    expect((await tool().run(["sessions", "--store", other(), "--json"])).stdout).toBe("[]\n");
    expect(await tool().json(["verify", "--bundle", "changed.savepoint"], 20)).toMatchObject({ ok: false });
  });

  it("importing the complete bundle continues after a truncated one", async () => {
    await fill();
    await tool().json(["export", "-o", "all.savepoint"]);
    const bytes = readFileSync(tool().path("all.savepoint"));
    await tool().run(["init", "--store", other()]);
    const cut = bytes.subarray(0, Math.floor(bytes.length * 0.7));
    errorOf(await tool().run(["import", "-", "--store", other(), "--json"], { stdin: cut }), 20);
    const whole = await tool().run(["import", "-", "--store", other(), "--json"], { stdin: bytes });
    expect(whole.code, whole.stderr).toBe(0);
    await tool().leave(async (sp) => {
      expect((await sp.session("trip").history().all()).length).toBe(5);
      expect((await sp.verify({ deep: true })).ok).toBe(true);
    }, other());
  });

  it("import renames a session, skips existing ones, and rejects an id with different content", async () => {
    await fill();
    await tool().json(["export", "--session", "trip", "-o", "trip.savepoint"]);
    await tool().json(["import", "trip.savepoint", "--as", "copy"]);
    expect(await stateOf(tool(), "copy")).toMatchObject({ n: 4 });
    await tool().leave((sp) => sp.session("trip").save({ n: 5, messages: [] }), other());
    errorOf(await tool().run(["import", "trip.savepoint", "--store", other(), "--json"]), 1);
    const skipped = await tool().run(["import", "trip.savepoint", "--skip-existing", "--store", other(), "--json"]);
    expect(skipped.code, skipped.stderr).toBe(0);
    expect(JSON.parse(skipped.stdout)).toMatchObject({ sessions: 0, skipped: ["trip"] });
    await tool().json(["export", "-o", "all.savepoint"]);
    await tool().fail(["import", "all.savepoint", "--as", "x"], 2);
  });

  it("import names a file that does not exist", async () => {
    await fill();
    const { message } = await tool().fail(["import", "nowhere.savepoint"], 4);
    expect(message).toContain("nowhere.savepoint");
    errorOf(await tool().run(["import", "x.savepoint", "--store", other(), "--json"]), 4);
  });

  it("export to a file reports what the bundle lacks", async () => {
    await fill();
    await damage(anItem);
    const done = await tool().json<{ holes: unknown[] }>(["export", "-o", "all.savepoint"], 3);
    expect(done.holes.length).toBeGreaterThan(0);
  });

  it("export never overwrites the store that it reads", async () => {
    await fill();
    await tool().fail(["export", "-o", "s.db"], 2);
    expect(await stateOf(tool(), "trip")).toMatchObject({ n: 4 });
  });

  it("export to stdout reports what the bundle lacks", async () => {
    await fill();
    await damage(anItem);
    const ended = await tool().on(["export"]);
    expect(ended.code).toBe(3);
  });
});

describe("backup", () => {
  it("backup writes a verified file and keeps as many as --keep says", async () => {
    await fill();
    const paths: string[] = [];
    for (let n = 0; n < 3; n++) {
      const done = await tool().json<{ path: string; removed: string[] }>(["backup", "--to", "backups", "--keep", "2"]);
      expect(done).toMatchObject({ checkpoints: 6, holes: [], removed: n < 2 ? [] : [paths[0]] });
      paths.push(done.path);
    }
    expect(
      readdirSync(tool().path("backups"))
        .map((name) => `backups/${name}`)
        .sort(),
    ).toEqual(paths.slice(1).sort());
    expect(await tool().json(["verify", "--bundle", paths[2] as string])).toMatchObject({ ok: true });
    await tool().fail(["backup", "--to", "backups", "--keep", "0"], 2);
    await tool().fail(["backup"], 2);
    tool().file("taken", "");
    await tool().fail(["backup", "--to", "taken"], 1);
  });

  it("an incomplete backup reports what it lacks and removes no older backup", async () => {
    await fill();
    await tool().json(["backup", "--to", "backups", "--keep", "1"]);
    await damage(anItem);
    const done = await tool().json<{ holes: unknown[] }>(["backup", "--to", "backups", "--keep", "1"], 3);
    expect(done.holes.length).toBeGreaterThan(0);
    expect(readdirSync(tool().path("backups"))).toHaveLength(2);
  });
});

describe("prune", () => {
  interface Pruned {
    readonly dryRun: boolean;
    readonly removed: number;
    readonly gone: readonly { seq: number; sessionId?: string }[];
    readonly kept: readonly { seq: number; sessionId?: string; reasons: string[] }[];
    readonly rowsOnly: boolean;
  }
  const dry = (args: readonly string[]): Promise<Pruned> =>
    tool().json(["prune", "--session", "trip", "--dry-run", ...args]);
  const gone = async (args: readonly string[]): Promise<number[]> =>
    (await dry(args)).gone.map(({ seq }) => seq).sort((a, b) => a - b);

  it("--dry-run lists what would be removed and why the rest is kept, and removes nothing", async () => {
    await fill();
    const plan = await dry(["--keep-last", "1"]);
    expect(plan).toMatchObject({ dryRun: true, removed: 2 });
    expect(Object.fromEntries(plan.kept.map(({ seq, reasons }) => [seq, reasons]))).toEqual({
      1: ["labelled"],
      2: ["pinned"],
      4: ["head", "last"],
    });
    const { stdout, stderr } = await tool().on(["prune", "--session", "trip", "--keep-last", "1", "--dry-run"]);
    expect(stdout).toMatch(/REASON/);
    expect(stdout).toMatch(/trip#0 +remove +no option keeps it/);
    expect(stdout).toMatch(/trip#2 +keep +pinned/);
    expect(stderr).toContain("2 checkpoints would be removed, 3 kept.");
    expect(await seqsOf(tool(), "trip")).toEqual([4, 3, 2, 1, 0]);
  });

  it("a kept checkpoint names what needs it", async () => {
    await tool().leave(async (sp) => {
      const session = sp.session("trip");
      for (let n = 0; n < 3; n++) await session.save({ n });
      await session.fork("trip#0", { branch: "side" });
    });
    const { kept } = await dry(["--keep-last", "1"]);
    expect(kept).toMatchObject([{ seq: 0, neededBy: [{ kind: "branch", branch: "side" }] }, { seq: 2 }]);
    const { stdout } = await tool().on(["prune", "--session", "trip", "--keep-last", "1", "--dry-run"]);
    expect(stdout).toMatch(/trip#0 +keep +.*needed by branch side, which starts from it/);
  });

  it("each --keep option keeps the checkpoints it describes", async () => {
    const day = 86_400_000;
    let now = Date.UTC(2026, 0, 5, 12);
    const sp = await tool().open(tool().url, { now: () => now });
    const session = sp.session("trip");
    for (const after of [0, 60_000, 7_200_000, day, 3 * day, 20 * day]) {
      now = Date.UTC(2026, 0, 5, 12) + after;
      await session.save({ after });
    }
    await sp.close();
    const times = await tool().leave(async (each) =>
      (await each.session("trip").history().all()).map(({ createdAt }) => createdAt),
    );
    // The clock is injected, so that hours, days and weeks lie between the checkpoints.
    expect(Math.max(...times) - Math.min(...times)).toBe(20 * day);
    expect(await gone(["--keep-hourly", "10"])).toEqual([0]);
    expect(await gone(["--keep-daily", "10"])).toEqual([0, 1]);
    expect(await gone(["--keep-weekly", "10"])).toEqual([0, 1, 2, 3]);
    expect(await gone(["--keep-last", "2", "--keep-daily", "1"])).toEqual([0, 1, 2, 3]);
    expect(await gone(["--keep-within", "36500d"])).toEqual([]);
    expect(await gone(["--keep-within", "1m"])).toEqual([0, 1, 2, 3, 4]);
    expect(await gone(["--ttl", "1m"])).toEqual([0, 1, 2, 3, 4]);
    expect(await gone(["--ttl", "36500d"])).toEqual([]);
    expect(await gone(["--expired"])).toEqual([]);
    expect(await gone(["--keep-last", "1", "--kind", "automatic"])).toEqual([]);
    expect(await gone(["--keep-last", "1", "--kind", "automatic", "--kind", "manual"])).toEqual([0, 1, 2, 3, 4]);
  });

  it("prune removes checkpoints of a session or of the store, and reports if only rows were freed", async () => {
    await fill();
    await tool().leave((sp) => saveTrip(sp, "other"));
    const done = await tool().json<Pruned>(["prune", "--session", "trip", "--keep-last", "1", "--yes"]);
    expect(done).toMatchObject({ dryRun: false, removed: 2, rowsOnly: true });
    expect(await seqsOf(tool(), "trip")).toEqual([4, 2, 1]);
    expect(await seqsOf(tool(), "other")).toEqual([4, 3, 2, 1, 0]);
    const text = await tool().on(["prune", "--keep-last", "1", "--no-keep-labelled", "--yes"]);
    expect(text.code).toBe(0);
    expect(text.stderr).toContain("still needed by the others");
    expect(await seqsOf(tool(), "other")).toEqual([4, 2]);
    expect(await stateOf(tool(), "other")).toMatchObject({ n: 4 });
  });

  it("--expired removes expired checkpoints only", async () => {
    // Saved an hour ago.
    const sp = await tool().open(tool().url, { now: () => Date.now() - 3_600_000 });
    await sp.session("trip").save({ n: 0 }, { ttl: 1 });
    await sp.session("trip").save({ n: 1 }, { ttl: "1d" });
    await sp.session("trip").save({ n: 2 });
    await sp.close();
    await tool().json(["prune", "--expired", "--yes"]);
    expect(await seqsOf(tool(), "trip")).toEqual([2, 1]);
  });

  it("the reason for a removal is expiry if only expiry was asked for, and otherwise that no option keeps it", async () => {
    await fill();
    const removals = async (...args: string[]): Promise<string[]> => {
      const { stdout } = await tool().on(["prune", "--session", "trip", "--no-keep-labelled", "--dry-run", ...args]);
      return stdout.split("\n").filter((line) => line.includes("  remove  "));
    };
    const [old = "", unwanted = ""] = [(await removals("--ttl", "1ms"))[0], (await removals("--keep-last", "1"))[0]];
    expect(old).toMatch(/ expired$/);
    expect(unwanted).toMatch(/ no option keeps it$/);
  });

  it("prune requires a retention option and validates its values", async () => {
    await fill();
    await tool().fail(["prune", "--yes"], 2);
    await tool().fail(["prune", "--session", "trip", "--no-keep-labelled", "--yes"], 2);
    for (const value of ["-1", "1.5", "all", ""]) await tool().fail(["prune", `--keep-last=${value}`, "--yes"], 2);
    await tool().fail(["prune", "--keep-within", "soon", "--yes"], 2);
    expect(await seqsOf(tool(), "trip")).toEqual([4, 3, 2, 1, 0]);
  });

  it("an unknown session or agent is reported", async () => {
    await fill();
    await tool().fail(["prune", "--session", "trap", "--keep-last", "1", "--yes"], 4);
  });

  it("--session and --agent cannot be combined", async () => {
    await fill();
    await tool().fail(["prune", "--session", "trip", "--agent", "nobody", "--keep-last", "1", "--yes"], 2);
  });

  it("an unknown --kind is rejected", async () => {
    await fill();
    await tool().fail(["prune", "--keep-last", "1", "--kind", "automatik", "--yes"], 2);
  });

  it("a prune that removes nothing is not reported as a dry run", async () => {
    await fill();
    expect(await tool().json(["prune", "--keep-last", "100", "--yes"])).toMatchObject({ dryRun: false, removed: 0 });
  });
});

describe("compact", () => {
  it("compact packs items that were saved one by one and returns the space", async () => {
    await tool().leave(async (sp) => {
      await saveTrip(sp);
      await sp.session("large").save({ texts: [] });
      for (let n = 0; n < 200; n++) await sp.session("large").append("/texts", [`${n} lorem ipsum `.repeat(20)]);
    });
    const done = await tool().json<{ before: number; after: number }>(["compact"]);
    expect(done.after).toBeLessThan(done.before);
    expect(await stateOf(tool(), "trip")).toMatchObject({ n: 4 });
    expect((await tool().on(["compact"])).stdout).toMatch(/before, .* after\./);
  });
});

describe("verify", () => {
  it("verify finds damage, says what to do and exits with 20", async () => {
    await fill();
    expect(await tool().json(["verify"])).toMatchObject({ ok: true, deep: false, problems: [] });
    expect(await tool().json(["verify", "--deep"])).toMatchObject({ ok: true, deep: true });
    expect(await tool().jsonl(["verify", "--sample", "0.5"])).toMatchObject([{ ok: true }]);
    await damage(anItem);
    const report = await tool().json<{ problems: Fields[] }>(["verify", "--deep"], 20);
    expect(report.problems.length).toBeGreaterThan(0);
    const text = await tool().on(["verify", "--deep"]);
    expect(text).toMatchObject({ code: 20 });
    expect(text.stdout).toContain("damaged");
    expect(text.stderr).toContain("savepoint repair");
  });

  it("verify checks only the part of the store that is named", async () => {
    await fill();
    expect(await tool().json(["verify", "--session", "trip"])).toMatchObject({ ok: true, sessions: 1, checkpoints: 5 });
    expect(await tool().json(["verify", "--checkpoint", "trip#2"])).toMatchObject({ ok: true });
    expect(await tool().json(["verify", "--agent", "planner"])).toMatchObject({ ok: true, conversations: 2 });
    await tool().fail(["verify", "--checkpoint", "trip#9"], 4);
    for (const share of ["0", "2", "many", "-0.1"]) await tool().fail(["verify", `--sample=${share}`], 2);
  });

  it("verify names a bundle that does not exist", async () => {
    await fill();
    expect((await tool().fail(["verify", "--bundle", "nowhere.savepoint"], 1)).message).toContain("nowhere.savepoint");
  });

  it("verify counts the sessions of the store", async () => {
    await fill();
    expect(await tool().json(["stats"])).toMatchObject({ sessions: 1 });
    expect(await tool().json(["verify"])).toMatchObject({ sessions: 1 });
  });

  it("verify does not suggest to repair the store if a bundle is damaged", async () => {
    await fill();
    tool().file("broken.savepoint", "{");
    const ended = await tool().on(["verify", "--bundle", "broken.savepoint"]);
    expect(ended.code).toBe(20);
    expect(ended.stderr).not.toContain("savepoint repair");
  });

  it("verify reports a session that does not exist", async () => {
    await fill();
    await tool().fail(["verify", "--session", "trap"], 4);
  });

  it("verify reports an agent that does not exist", async () => {
    await fill();
    await tool().fail(["verify", "--agent", "nobody"], 4);
  });

  it("verify --bundle creates no store", async () => {
    await fill();
    await tool().json(["export", "-o", "all.savepoint"]);
    const ended = await tool().run(["verify", "--bundle", "all.savepoint", "--json"]);
    expect(ended.code, ended.stderr).toBe(0);
    expect(existsSync(tool().path(".savepoint"))).toBe(false);
  });
});

describe("repair", () => {
  it("repair restores everything from backups, and --dry-run lists it first", async () => {
    await fill();
    await tool().json(["backup", "--to", "backups"]);
    await damage(anItem);
    const plan = await tool().json<{ healed: unknown[] }>(["repair", "--from", "backups", "--dry-run"]);
    expect(plan.healed.length).toBeGreaterThan(0);
    expect(await tool().json(["verify", "--deep"], 20)).toMatchObject({ ok: false });
    const done = await tool().json(["repair", "--from", "backups"]);
    expect(done).toMatchObject({ healed: plan.healed, holes: [] });
    expect(await tool().json(["verify", "--deep"])).toMatchObject({ ok: true });
    expect((await tool().on(["repair", "--from", "backups"])).stdout).toBe("No damage found.\n");
  });

  it("repair exits with 3 if some of the damage was repaired, and with 20 if none was", async () => {
    await fill();
    await tool().json(["backup", "--to", "backups"]);
    // Saved after the backup, so no backup contains it.
    await tool().leave((sp) => sp.session("later").save({ text: "lorem ipsum ".repeat(50), list: [1, 2, 3] }));
    const items = (await targetsIn(tool().url)).filter(anItem);
    for (const target of items) await SQLITE.damage(tool().folder, target, "flip");
    const lost = await tool().json<{ healed: unknown[]; holes: unknown[] }>(["repair", "--dry-run"], 20);
    expect(lost.healed).toEqual([]);
    expect(lost.holes.length).toBeGreaterThan(0);
    const partly = await tool().json<{ healed: unknown[]; holes: unknown[] }>(["repair", "--from", "backups"], 3);
    expect(partly.healed.length).toBeGreaterThan(0);
    expect(partly.holes.length).toBeGreaterThan(0);
    expect(await stateOf(tool(), "trip")).toMatchObject({ n: 4 });
  });

  it("repair names a backup that does not exist", async () => {
    await fill();
    expect((await tool().fail(["repair", "--from", "nowhere"], 1)).message).toContain("nowhere");
  });
});

describe("migrate", () => {
  it("migrate copies everything to plain files and back, and a second copy copies nothing twice", async () => {
    await fill();
    expect(await tool().json(["migrate"])).toMatchObject({ store: tool().url, migrated: false });
    const there = await tool().json(["migrate", "--to", "file:./files"]);
    expect(there).toMatchObject({ conversations: 2, checkpoints: 6, skipped: [], holes: [] });
    expect(await tool().json(["migrate", "--to", "file:./files"])).toMatchObject({ sessions: 0 });
    const back = await tool().run(["migrate", "--store", "file:./files", "--to", other(), "--json"]);
    expect(back.code, back.stderr).toBe(0);
    const read = async (url: string): Promise<unknown> =>
      tool().leave(
        async (sp) => [
          await sp.session("trip").history({ allBranches: true }).all(),
          (await sp.session("trip").latest())?.state,
          await sp.conversations.load("first"),
          (await sp.verify({ deep: true })).ok,
        ],
        url,
      );
    expect(await read(other())).toEqual(await read(tool().url));
  });

  it("migrate refuses to copy a store to itself", async () => {
    await fill();
    await tool().fail(["migrate", "--to", tool().url], 2);
    await tool().fail(["migrate", "--to", "nonsense:x"], 2);
    errorOf(await tool().run(["migrate", "--store", other(), "--to", "file:./files", "--json"]), 10);
    expect(existsSync(tool().path("files"))).toBe(false);
  });

  it("migrate refuses to copy a store to itself under another spelling of its path", async () => {
    await fill();
    await tool().fail(["migrate", "--to", "sqlite:./s.db"], 2);
  });

  it("migrate exits with 3 if something could not be copied", async () => {
    await fill();
    await damage(anItem);
    const ended = await tool().on(["migrate", "--to", "file:./files"]);
    expect(ended.code).toBe(3);
  });
});
