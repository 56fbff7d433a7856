/** An export from one store that is imported into another arrives unchanged, for every pair of store kinds. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { Savepoint } from "../../src/index.js";
import { FAST } from "../checkpoints/agent-data.js";
import { useData } from "../model/stores.js";
import { makeFolder, removeFolder } from "../store/temporary-folder.js";
import { fillStore, PAIRS, wholeOf } from "./whole.js";

describe.each(PAIRS)("from $name", ({ from, to }) => {
  const [source, target] = [useData(from), useData(to)];

  it("a whole store arrives unchanged", async () => {
    const [a, b] = [await source.open(FAST), await target.open(FAST)];
    await fillStore(a);
    const before = await wholeOf(a);
    const report = await b.import(await a.export().bytes());
    expect(report).toMatchObject({ kind: "all", skipped: [], holes: [] });
    assert.deepEqual(await wholeOf(b), before);
    assert.deepEqual(await wholeOf(await target.open(FAST)), before);
    assert.deepEqual(await wholeOf(a), before);
  });
});

describe("a bundle", () => {
  it("has the same content as a stream, as bytes and as a file, and describes what it holds", async () => {
    const folder = await makeFolder();
    const sp = await Savepoint.open("memory:");
    await fillStore(sp);
    const path = join(folder, "all.savepoint");
    const told: number[] = [];
    const summary = await sp.export({}, { onProgress: ({ bytes }) => told.push(bytes) }).save(path);
    const { checkpoints } = await sp.stats();
    expect(summary).toMatchObject({ kind: "all", checkpoints, holes: [] });
    expect(told.length).toBeGreaterThan(1);
    expect(told.slice().sort((a, b) => a - b)).toEqual(told);
    const other = await Savepoint.open("memory:");
    const report = await other.import(path);
    const { id: _id, createdAt: _createdAt, ...same } = summary;
    expect(report).toMatchObject(same);
    assert.deepEqual(await wholeOf(other), await wholeOf(sp));
    await removeFolder(folder);
  });

  it("can be made of an empty store", async () => {
    const [a, b] = [await Savepoint.open("memory:"), await Savepoint.open("memory:")];
    expect(await b.import(await a.export().bytes())).toMatchObject({ kind: "all", sections: 0, sessions: 0 });
    await b.session("s").save(1);
    await b.import(a.export());
    expect(await b.session("s").latest()).toMatchObject({ state: 1 });
  });

  it("can be read several times, and each read exports the store anew", async () => {
    const sp = await Savepoint.open("memory:");
    await sp.session("s").save(1);
    const bundle = sp.export({ session: "s" });
    const first = await bundle.bytes();
    await sp.session("s").save(2);
    const second = await bundle.bytes();
    const other = await Savepoint.open("memory:");
    await other.import(first);
    expect(await other.session("s").latest()).toMatchObject({ state: 1 });
    await other.import(second, { as: "again" });
    expect(await other.session("again").latest()).toMatchObject({ state: 2 });
  });
});
