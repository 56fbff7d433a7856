import { describe, expect, it } from "vitest";
import { Savepoint } from "../../src/index.js";
import { openDatabase } from "../../src/store/sqlite/driver.js";
import { startChild, temporaryStore } from "./children.js";
import { garbageHash } from "./workload.mjs";

describe("garbage collection", () => {
  it(
    "frees nothing that is reachable while two processes save, fork, rewind, clear, delete and collect",
    { timeout: 240_000 },
    async () => {
      const url = temporaryStore();
      const seed = Date.now() % 1e6;
      console.log(`garbage seed ${seed}`);
      const children = ["left", "right"].map((name, index) => startChild("makeGarbage", url, name, 1500, seed + index));
      for (const { ended } of children) expect(await ended).toMatchObject({ code: 0, stderr: "" });

      const sp = await Savepoint.open(url, { on: { damage: (event) => expect.fail(event.reason) } });
      let checked = 0;
      for await (const { id } of sp.sessions.list()) {
        const session = sp.session(id);
        for await (const info of session.history({ allBranches: true })) {
          const found = await session.load(info.id);
          expect(garbageHash(found?.state), `${id}#${info.seq}`).toBe(info.metadata["hash"]);
          checked++;
        }
      }
      expect(checked).toBeGreaterThan(50);

      for await (const { id } of sp.sessions.list()) await sp.sessions.delete(id);
      await sp.compact();
      await sp.close();
      const database = await openDatabase(url.slice("sqlite:".length));
      const { runs } = database.prepare("SELECT count(*) AS runs FROM savepoint_run").get() as { runs: number };
      const keys = database.prepare("SELECT key FROM savepoint_record WHERE key <> '#'").all();
      database.close();
      expect({ runs, keys }).toEqual({ runs: 0, keys: [] });
    },
  );
});
