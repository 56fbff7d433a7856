/** A handle of libSQL that the caller opened. `sqlite-libsql.slow.test.ts` runs the conformance kit on one. */
import Database from "libsql";
import { dirname, join } from "node:path";
import { describe, expect, it } from "vitest";
import { Savepoint } from "../../src/index.js";
import { makeFolder, removeFolder } from "./temporary-folder.js";

describe("sqlite: a handle of libSQL", () => {
  it("stores sessions in the caller's file, beside the caller's tables", async () => {
    const path = join(await makeFolder(), "app.db");
    const database = new Database(path);
    database.exec("CREATE TABLE invoice (id INTEGER PRIMARY KEY, total INTEGER); INSERT INTO invoice VALUES (1, 100)");
    const state = { text: "x".repeat(5000), bytes: new Uint8Array(3000).fill(7), list: [1, { a: "ü\u0000" }] };
    const sp = await Savepoint.open(database);
    for (let n = 0; n < 150; n++) await sp.session("s", { agent: "a" }).save({ ...state, n });
    await sp.close();
    expect(database.prepare("SELECT total FROM invoice").get()).toMatchObject({ total: 100 });
    database.close();

    const again = new Database(path);
    const reopened = await Savepoint.open(again);
    expect((await reopened.session("s").latest())?.state).toEqual({ ...state, n: 149 });
    expect((await reopened.verify()).problems).toEqual([]);
    await reopened.close();
    again.close();
    // Savepoint's own driver reads the same file.
    const own = await Savepoint.open(`sqlite:${path}`);
    expect(await own.session("s").history().all()).toHaveLength(150);
    await own.close();
    await removeFolder(dirname(path));
  });
});
