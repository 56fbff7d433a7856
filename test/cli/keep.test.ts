// Copies, moving, forgetting, finding damage and mending it, from the command line.
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

/** Damages what is found by this, in the store of the test. */
async function damage(wanted: (target: DamageTarget) => boolean): Promise<void> {
  const target = (await targetsIn(tool().url)).find(wanted);
  if (!target) throw new Error("There is nothing like that.");
  await SQLITE.damage(tool().folder, target, "flip");
}

const anItem = ({ kind }: DamageTarget): boolean => kind === "item";

describe("export and import", () => {
  it("moves everything to another store by a file, and once more takes nothing twice", async () => {
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

  it("moves a session through a pipe from one process to another", async () => {
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

  it("exports one checkpoint, or an agent with its own", async () => {
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

  it("says that it cannot write where there is no folder", async () => {
    await fill();
    const { message } = await tool().fail(["export", "-o", "nowhere/x.savepoint"], 1);
    expect(message).toContain("nowhere/x.savepoint");
  });

  it("ends quietly where whoever reads has seen enough", async () => {
    await tool().leave(async (sp) => {
      const bytes = Uint8Array.from({ length: 500_000 }, (_, n) => (n * n * 7919) >> 5);
      await sp.session("large").save({ bytes });
    });
    const line = `"${process.execPath}" "${PROGRAM}" export --store "${tool().url}" | head -c 10`;
    const { stderr } = await promisify(execFile)("sh", ["-c", line], { cwd: tool().folder });
    expect(stderr).toBe("");
  });

  it("refuses a bundle that was changed, and takes nothing of what was changed", async () => {
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

  it("goes on with a bundle whose end was missing, when all of it is given", async () => {
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

  it("gives a session another id, leaves out what is there, and refuses what is there otherwise", async () => {
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

  it("says which file is not there", async () => {
    await fill();
    const { message } = await tool().fail(["import", "nowhere.savepoint"], 1);
    expect(message).toContain("nowhere.savepoint");
    errorOf(await tool().run(["import", "x.savepoint", "--store", other(), "--json"]), 10);
  });

  it("says what is missing in a bundle that is written to a file", async () => {
    await fill();
    await damage(anItem);
    const done = await tool().json<{ holes: unknown[] }>(["export", "-o", "all.savepoint"], 3);
    expect(done.holes.length).toBeGreaterThan(0);
  });

  it("never writes over the store that it exports", async () => {
    await fill();
    await tool().fail(["export", "-o", "s.db"], 2);
    expect(await stateOf(tool(), "trip")).toMatchObject({ n: 4 });
  });

  it("says what is missing in a bundle that is written to stdout", async () => {
    await fill();
    await damage(anItem);
    const ended = await tool().on(["export"]);
    expect(ended.code).toBe(3);
  });
});

describe("backup", () => {
  it("writes a backup, verified, and keeps as many as it is told", async () => {
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

  it("says what it lacks, and removes no older one then", async () => {
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

  it("says what would go, and why the rest stays, without removing anything", async () => {
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
    expect(stdout).toMatch(/trip#0 +goes +no option keeps it/);
    expect(stdout).toMatch(/trip#2 +stays +pinned/);
    expect(stderr).toContain("2 checkpoints would go, 3 stay.");
    expect(await seqsOf(tool(), "trip")).toEqual([4, 3, 2, 1, 0]);
  });

  it("names what needs a checkpoint that stays", async () => {
    await tool().leave(async (sp) => {
      const session = sp.session("trip");
      for (let n = 0; n < 3; n++) await session.save({ n });
      await session.fork("trip#0", { branch: "side" });
    });
    const { kept } = await dry(["--keep-last", "1"]);
    expect(kept).toMatchObject([{ seq: 0, neededBy: [{ kind: "branch", branch: "side" }] }, { seq: 2 }]);
    const { stdout } = await tool().on(["prune", "--session", "trip", "--keep-last", "1", "--dry-run"]);
    expect(stdout).toMatch(/trip#0 +stays +.*needed by branch side, which starts from it/);
  });

  it("keeps what each option says", async () => {
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
    // Only where the clock can be set are there hours, days and weeks between them.
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

  it("removes it, of a session or of the whole store, and says when only rows went", async () => {
    await fill();
    await tool().leave((sp) => saveTrip(sp, "other"));
    const done = await tool().json<Pruned>(["prune", "--session", "trip", "--keep-last", "1", "--yes"]);
    expect(done).toMatchObject({ dryRun: false, removed: 2, rowsOnly: true });
    expect(await seqsOf(tool(), "trip")).toEqual([4, 2, 1]);
    expect(await seqsOf(tool(), "other")).toEqual([4, 3, 2, 1, 0]);
    const text = await tool().on(["prune", "--keep-last", "1", "--no-keep-labelled", "--yes"]);
    expect(text.code).toBe(0);
    expect(text.stderr).toContain("needed by those that stay");
    expect(await seqsOf(tool(), "other")).toEqual([4, 2]);
    expect(await stateOf(tool(), "other")).toMatchObject({ n: 4 });
  });

  it("removes what has expired, and nothing else", async () => {
    // Saved an hour ago.
    const sp = await tool().open(tool().url, { now: () => Date.now() - 3_600_000 });
    await sp.session("trip").save({ n: 0 }, { ttl: 1 });
    await sp.session("trip").save({ n: 1 }, { ttl: "1d" });
    await sp.session("trip").save({ n: 2 });
    await sp.close();
    await tool().json(["prune", "--expired", "--yes"]);
    expect(await seqsOf(tool(), "trip")).toEqual([2, 1]);
  });

  it("says of what goes that it has expired where that is all it asks, and else that nothing keeps it", async () => {
    await fill();
    const goes = async (...args: string[]): Promise<string[]> => {
      const { stdout } = await tool().on(["prune", "--session", "trip", "--no-keep-labelled", "--dry-run", ...args]);
      return stdout.split("\n").filter((line) => line.includes("  goes  "));
    };
    const [old = "", unwanted = ""] = [(await goes("--ttl", "1ms"))[0], (await goes("--keep-last", "1"))[0]];
    expect(old).toMatch(/ it has expired$/);
    expect(unwanted).toMatch(/ no option keeps it$/);
  });

  it("wants to be told what is kept, and understands what it is told", async () => {
    await fill();
    await tool().fail(["prune", "--yes"], 2);
    await tool().fail(["prune", "--session", "trip", "--no-keep-labelled", "--yes"], 2);
    for (const value of ["-1", "1.5", "all", ""]) await tool().fail(["prune", `--keep-last=${value}`, "--yes"], 2);
    await tool().fail(["prune", "--keep-within", "soon", "--yes"], 2);
    expect(await seqsOf(tool(), "trip")).toEqual([4, 3, 2, 1, 0]);
  });

  it("says that there is no such session or agent", async () => {
    await fill();
    await tool().fail(["prune", "--session", "trap", "--keep-last", "1", "--yes"], 4);
  });

  it("refuses a session together with an agent", async () => {
    await fill();
    await tool().fail(["prune", "--session", "trip", "--agent", "nobody", "--keep-last", "1", "--yes"], 2);
  });

  it("refuses a kind that there is not", async () => {
    await fill();
    await tool().fail(["prune", "--keep-last", "1", "--kind", "automatik", "--yes"], 2);
  });

  it("does not call it a dry run where nothing had to go", async () => {
    await fill();
    expect(await tool().json(["prune", "--keep-last", "100", "--yes"])).toMatchObject({ dryRun: false, removed: 0 });
  });
});

describe("compact", () => {
  it("packs what was saved one by one, and gives the space back", async () => {
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
  it("finds what is damaged, says what to do, and ends with 20", async () => {
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

  it("looks at a part where that is said", async () => {
    await fill();
    expect(await tool().json(["verify", "--session", "trip"])).toMatchObject({ ok: true, sessions: 1, checkpoints: 5 });
    expect(await tool().json(["verify", "--checkpoint", "trip#2"])).toMatchObject({ ok: true });
    expect(await tool().json(["verify", "--agent", "planner"])).toMatchObject({ ok: true, conversations: 2 });
    await tool().fail(["verify", "--checkpoint", "trip#9"], 4);
    for (const share of ["0", "2", "many", "-0.1"]) await tool().fail(["verify", `--sample=${share}`], 2);
  });

  it("says which bundle is not there", async () => {
    await fill();
    expect((await tool().fail(["verify", "--bundle", "nowhere.savepoint"], 1)).message).toContain("nowhere.savepoint");
  });

  it("counts as many sessions as there are", async () => {
    await fill();
    expect(await tool().json(["stats"])).toMatchObject({ sessions: 1 });
    expect(await tool().json(["verify"])).toMatchObject({ sessions: 1 });
  });

  it("does not advise to repair the store where a bundle is damaged", async () => {
    await fill();
    tool().file("broken.savepoint", "{");
    const ended = await tool().on(["verify", "--bundle", "broken.savepoint"]);
    expect(ended.code).toBe(20);
    expect(ended.stderr).not.toContain("savepoint repair");
  });

  it("says that there is no such session", async () => {
    await fill();
    await tool().fail(["verify", "--session", "trap"], 4);
  });

  it("says that there is no such agent", async () => {
    await fill();
    await tool().fail(["verify", "--agent", "nobody"], 4);
  });

  it("makes no store to look at a bundle", async () => {
    await fill();
    await tool().json(["export", "-o", "all.savepoint"]);
    const ended = await tool().run(["verify", "--bundle", "all.savepoint", "--json"]);
    expect(ended.code, ended.stderr).toBe(0);
    expect(existsSync(tool().path(".savepoint"))).toBe(false);
  });
});

describe("repair", () => {
  it("brings everything back from backups, and says so before it does", async () => {
    await fill();
    await tool().json(["backup", "--to", "backups"]);
    await damage(anItem);
    const plan = await tool().json<{ healed: unknown[] }>(["repair", "--from", "backups", "--dry-run"]);
    expect(plan.healed.length).toBeGreaterThan(0);
    expect(await tool().json(["verify", "--deep"], 20)).toMatchObject({ ok: false });
    const done = await tool().json(["repair", "--from", "backups"]);
    expect(done).toMatchObject({ healed: plan.healed, holes: [] });
    expect(await tool().json(["verify", "--deep"])).toMatchObject({ ok: true });
    expect((await tool().on(["repair", "--from", "backups"])).stdout).toBe("Nothing is damaged.\n");
  });

  it("ends with 3 where some of it came back, and with 20 where nothing did", async () => {
    await fill();
    await tool().json(["backup", "--to", "backups"]);
    // What was saved after the backup is in none.
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

  it("says which backup is not there", async () => {
    await fill();
    expect((await tool().fail(["repair", "--from", "nowhere"], 1)).message).toContain("nowhere");
  });
});

describe("migrate", () => {
  it("copies everything to plain files and back, and once more copies nothing twice", async () => {
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

  it("refuses to copy a store to itself", async () => {
    await fill();
    await tool().fail(["migrate", "--to", tool().url], 2);
    await tool().fail(["migrate", "--to", "nonsense:x"], 2);
    errorOf(await tool().run(["migrate", "--store", other(), "--to", "file:./files", "--json"]), 10);
    expect(existsSync(tool().path("files"))).toBe(false);
  });

  it("refuses to copy a store to itself, however it is spelt", async () => {
    await fill();
    await tool().fail(["migrate", "--to", "sqlite:./s.db"], 2);
  });

  it("ends with 3 where something could not be copied", async () => {
    await fill();
    await damage(anItem);
    const ended = await tool().on(["migrate", "--to", "file:./files"]);
    expect(ended.code).toBe(3);
  });
});
