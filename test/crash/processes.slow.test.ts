import { describe, expect, it } from "vitest";
import { Savepoint } from "../../src/index.js";
import { startChild, temporaryStore } from "./children.js";
import { hashOf } from "./workload.mjs";

// `durability: "process"` in the writers: what is shown here is order and isolation, and 20,000 waits for the disk would
// show nothing more about them.
const SAVES = 10_000;

describe("several processes on one SQLite file", () => {
  it(
    `lose and reorder nothing while two save ${SAVES} times each and a third reads`,
    { timeout: 240_000 },
    async () => {
      const url = temporaryStore();
      const writers = [startChild("saveOwn", url, "left", SAVES), startChild("saveOwn", url, "right", SAVES)];
      const reader = startChild("readAll", url);
      for (const { ended } of writers) expect(await ended).toMatchObject({ code: 0, stderr: "" });
      reader.child.stdin?.end("stop");
      const read = await reader.ended;
      expect(read).toMatchObject({ code: 0, stderr: "" });
      expect(read.lines[0]?.["reads"]).toBeGreaterThan(10);

      const sp = await Savepoint.open(url);
      for (const name of ["left", "right"]) {
        for (let index = 0; index < 5; index++) {
          const session = sp.session(`${name}-${index}`);
          const history = await session.history({ order: "oldest" }).all();
          expect(history.map((info) => info.step)).toEqual(Array.from({ length: SAVES / 5 }, (_, step) => step));
          expect(history.map((info) => info.seq)).toEqual(Array.from({ length: SAVES / 5 }, (_, seq) => seq));
          for (const info of history.filter((_, at) => at % 97 === 0)) {
            expect(hashOf((await session.load(info.id))?.state)).toBe(info.metadata["hash"]);
          }
        }
      }
      await sp.close();
    },
  );

  const shared = async (url: string): Promise<{ entries: string[]; seq: number }> => {
    await using sp = await Savepoint.open(url);
    const latest = await sp.session<{ entries: string[] }>("shared").latest();
    return { entries: latest?.state.entries ?? [], seq: latest?.seq ?? -1 };
  };

  it("lose nothing on one branch, where one of two concurrent saves fails with CONFLICT", async () => {
    const url = temporaryStore();
    const children = ["left", "right"].map((name) => startChild("contend", url, name, 300));
    let conflicts = 0;
    for (const { ended } of children) {
      const result = await ended;
      expect(result).toMatchObject({ code: 0, stderr: "" });
      conflicts += Number(result.lines[0]?.["conflicts"]);
    }
    expect(conflicts).toBeGreaterThan(0);
    const { entries, seq } = await shared(url);
    for (const name of ["left", "right"]) {
      const mine = entries.filter((entry) => entry.startsWith(name));
      expect(mine).toEqual(Array.from({ length: 300 }, (_, n) => `${name} ${n}`));
    }
    expect(seq).toBe(599);
  });

  it("keep all entries that two of them append to one list without reading it", async () => {
    const url = temporaryStore();
    {
      await using sp = await Savepoint.open(url);
      await sp.session("shared").save({ entries: [] });
    }
    const children = ["left", "right"].map((name) => startChild("addBlindly", url, name, 300));
    for (const { ended } of children) expect(await ended).toMatchObject({ code: 0, stderr: "" });
    const { entries, seq } = await shared(url);
    for (const name of ["left", "right"]) {
      const mine = entries.filter((entry) => entry.startsWith(name));
      expect(mine).toEqual(Array.from({ length: 300 }, (_, n) => `${name} ${n}`));
    }
    expect([entries.length, seq]).toEqual([600, 600]);
  });

  it("can all use a new file that they open at the same moment", async () => {
    for (let round = 0; round < 3; round++) {
      const url = temporaryStore();
      const names = ["a", "b", "c", "d"];
      const children = names.map((name) => startChild("openAndSave", url, name));
      await Promise.all(children.map(({ started }) => started));
      for (const { child } of children) child.stdin?.write("go\n");
      for (const { ended } of children) expect(await ended).toMatchObject({ code: 0, stderr: "" });
      await using sp = await Savepoint.open(url);
      for (const name of names) expect(await sp.session(name).latest()).toMatchObject({ seq: 0, state: { name } });
      expect((await sp.sessions.list().all()).map(({ id }) => id).sort()).toEqual(names);
    }
  });
});
