/** Verbs report damage and print the data that is still intact. */
import { cpSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { DamageTarget } from "savepoint/testing";
import { Savepoint } from "../../src/index.js";
import { fill, PLACES, type Place, SQLITE, targetsIn } from "../damage/world.js";
import { type Ended, linesOf, run } from "./command.js";

const KNOWN_CODES = [0, 3, 4, 20];
/** The command line behaves the same on every store. */
const STORES = process.env["STORES"] === "all" ? PLACES : [SQLITE];

/** A store with data of every kind. Each test damages a copy of it. */
function useWhole(place: Place, save: (sp: Savepoint) => Promise<unknown> = fill) {
  let whole = "";
  let targets: DamageTarget[] = [];
  beforeAll(async () => {
    whole = mkdtempSync(join(tmpdir(), "savepoint-cli-"));
    const sp = await Savepoint.open(place.url(whole), { durability: "process" });
    await save(sp);
    await sp.close();
    targets = await targetsIn(place.url(whole));
  });
  afterAll(() => rmSync(whole, { recursive: true, force: true }));
  return {
    targets: () => targets,
    /** Runs verbs on a copy with damage at this place. */
    async damaged(found: readonly DamageTarget[], lines: readonly string[]): Promise<Ended[]> {
      const folder = mkdtempSync(join(tmpdir(), "savepoint-cli-"));
      try {
        cpSync(whole, folder, { recursive: true });
        for (const target of found) await place.damage(folder, target, "flip");
        const ended: Ended[] = [];
        for (const line of lines) ended.push(await run([...line.split(" "), "--store", place.url(folder)]));
        return ended;
      } finally {
        rmSync(folder, { recursive: true, force: true });
      }
    },
  };
}

const items = (targets: readonly DamageTarget[]): DamageTarget[] =>
  targets.filter(({ kind }) => kind === "item" || kind === "blob");

describe.concurrent.each(STORES)("a damaged store of kind $name", (place) => {
  const store = useWhole(place);

  it("show exits with 20, prints one line on stderr and no data if the state cannot be read", async () => {
    const [text, json] = (await store.damaged(items(store.targets()), ["show s#0", "show s#0 --json"])) as [
      Ended,
      Ended,
    ];
    expect(text).toMatchObject({ code: 20, stdout: "" });
    expect(text.stderr).toMatch(/damaged|cannot be read/);
    expect(text.stderr).not.toContain("    at ");
    expect(json).toMatchObject({ code: 20, stdout: "" });
    const last = linesOf(json.stderr).at(-1) as string;
    expect(JSON.parse(last)).toMatchObject({ error: { code: "DAMAGED" } });
  });

  it("show --json prints the error as one line of JSON", async () => {
    const [json] = (await store.damaged(items(store.targets()), ["show s#0 --json"])) as [Ended];
    expect(linesOf(json.stderr).map((line) => JSON.parse(line) as unknown)).toMatchObject([
      { error: { code: "DAMAGED" } },
    ]);
  });

  it("show --partial prints the intact part of a state and names the lost parts", async () => {
    const [partial] = (await store.damaged(items(store.targets()), ["show s#0 --partial --json"])) as [Ended];
    expect(partial.code).toBe(0);
    expect((JSON.parse(partial.stdout) as { holes: unknown[] }).holes).not.toEqual([]);
    expect(partial.stderr).toContain("lost: ");
  });

  it("sessions, log and stats still list what is intact", async () => {
    const ended = await store.damaged(items(store.targets()), ["sessions --json", "log --jsonl", "stats --json"]);
    for (const { code, stdout } of ended) {
      expect(code).toBe(0);
      expect(stdout).not.toBe("");
    }
  });

  it("verify finds the damage and exits with 20", async () => {
    const [text, json] = (await store.damaged(items(store.targets()), ["verify --deep", "verify --deep --json"])) as [
      Ended,
      Ended,
    ];
    expect(text.code).toBe(20);
    expect(text.stdout).toMatch(/^damaged {2}/);
    expect(text.stderr).toContain("savepoint repair");
    expect(json.code).toBe(20);
    expect(JSON.parse(json.stdout)).toMatchObject({ ok: false });
  });
});

describe("a damaged record of any kind", () => {
  const store = useWhole(SQLITE);

  it("no verb fails with an unexpected error", { timeout: 120_000 }, async () => {
    // Only every third record, because each one needs a copy of the store.
    const records = store.targets().filter(({ kind }, n) => kind === "record" && n % 3 === 0);
    expect(records.length).toBeGreaterThan(10);
    const verbs = [
      "sessions --json",
      "log --jsonl",
      "show s --json",
      "diff s --json",
      "journal w --json",
      "agents ag --json",
      "conversations c1 --json",
      "search needle --json",
    ];
    const failures: string[] = [];
    // Each record is damaged once and read by one verb; the verbs take turns.
    const each = records.map((target, n) => async () => {
      const verb = verbs[n % verbs.length] as string;
      const [ended] = (await store.damaged([target], [verb])) as [Ended];
      const expected = KNOWN_CODES.includes(ended.code ?? -1) && !ended.stderr.includes("UNEXPECTED");
      if (!expected) failures.push(`${verb} with ${JSON.stringify(target)}: ${ended.code} ${ended.stderr}`);
      else if (ended.code === 0 && !verb.includes("jsonl")) JSON.parse(ended.stdout);
    });
    const queue = each.values();
    await Promise.all(
      Array.from({ length: 4 }, async () => {
        for (const work of queue) await work();
      }),
    );
    expect(failures).toEqual([]);
  });
});

describe.concurrent.each(STORES)("a damaged newest checkpoint on $name", (place) => {
  const store = useWhole(place, async (sp) => {
    await sp.session("s").save({ n: 0 });
    await sp.session("s").save({ n: 1, bytes: new Uint8Array(20_000).map((_, n) => n % 251) });
  });

  it("show skips it and prints a warning", async () => {
    const blobs = store.targets().filter(({ kind }) => kind === "blob");
    expect(blobs).toHaveLength(1);
    const [text, json, named, partial] = (await store.damaged(blobs, [
      "show s",
      "show s --json",
      "show s#1 --json",
      "show s --partial --json",
    ])) as [Ended, Ended, Ended, Ended];
    expect(text.stdout).toContain('"n": 0');
    expect(text.stderr).toContain("skipped the newer checkpoint #1, which is damaged");
    expect(JSON.parse(json.stdout)).toMatchObject({ seq: 0, state: { n: 0 }, skipped: [{ seq: 1 }] });
    expect(named).toMatchObject({ code: 20, stdout: "" });
    expect(JSON.parse(partial.stdout)).toMatchObject({ seq: 1, state: { n: 1 }, holes: [{ path: "/bytes" }] });
    expect(partial.stderr).toContain("lost: /bytes");
  });
});
