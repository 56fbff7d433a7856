import { describe, expect, it } from "vitest";
import { Savepoint } from "../../src/index.js";
import { openDatabase } from "../../src/store/sqlite/driver.js";
import { chooseSeed } from "../support/seed.js";
import { startChild, temporaryStore } from "./children.js";
import { hashOf } from "./workload.mjs";

const OPERATIONS = 1500;
const TWO_HOURS = 7_200_000;

interface Believed {
  readonly session: string;
  /** Ids and hashes. */
  readonly checkpoints: readonly (readonly [string, string])[];
}

describe("garbage collection", () => {
  it(
    "frees nothing that is reachable while two processes save, fork, rewind, clear, delete and collect",
    { timeout: 240_000 },
    async () => {
      const url = temporaryStore();
      const seed = chooseSeed();
      const children = ["left", "right"].map((name, index) =>
        startChild("makeGarbage", url, name, OPERATIONS, seed + index),
      );
      const believed: Believed[] = [];
      for (const { ended } of children) {
        const { code, stderr, lines } = await ended;
        expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
        believed.push(...(lines as unknown as Believed[]));
      }

      const on = { damage: ({ reason }: { reason: string }) => expect.fail(reason) };
      const sp = await Savepoint.open(url, { on });
      for (const compacted of [false, true]) {
        if (compacted) await sp.compact();
        expect(await checkAll(sp, believed)).toBeGreaterThan(0);
      }
      for await (const { id } of sp.sessions.list()) await sp.sessions.delete(id);
      await sp.close();

      // Blobs are kept for an hour after their last use, so the rest is collected with a later clock.
      {
        await using later = await Savepoint.open(url, { on, now: () => Date.now() + TWO_HOURS });
        await later.compact();
      }
      expect(await leftOver(url)).toEqual({ runs: 0, blobs: 0, keys: [] });
    },
  );
});

/** Every checkpoint that is there is the one that was saved, and none is missing that only its own process could remove. */
async function checkAll(sp: Savepoint, believed: readonly Believed[]): Promise<number> {
  let checked = 0;
  for (const id of new Set(believed.map(({ session }) => session))) {
    const session = sp.session(id);
    const hashes = new Map(believed.flatMap((each) => (each.session === id ? each.checkpoints : [])));
    const missing = new Set(id.startsWith("shared") ? [] : hashes.keys());
    for await (const info of session.history({ allBranches: true })) {
      const hash = hashOf((await session.load(info.id))?.state);
      expect(hash, `${id}#${info.seq}`).toBe(info.metadata["hash"]);
      expect(hash, `${id}#${info.seq}`).toBe(hashes.get(info.id) ?? hash);
      missing.delete(info.id);
      checked++;
    }
    expect([...missing]).toEqual([]);
  }
  return checked;
}

async function leftOver(url: string): Promise<object> {
  const database = await openDatabase(url.slice("sqlite:".length));
  const count = (table: string): number =>
    (database.prepare(`SELECT count(*) AS rows FROM ${table}`).get() as { rows: number }).rows;
  const [runs, blobs] = [count("savepoint_chunk"), count("savepoint_blob")];
  const keys = database.prepare("SELECT key FROM savepoint_record WHERE key <> '#'").all();
  database.close();
  return { runs, blobs, keys };
}
