/** The WAL stays short also where no thread can copy it. What takes many writes to see is in `sqlite-wal.slow.test.ts`. */
import { stat } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { openSqliteStore } from "../../src/store.js";
import { SqliteConnection } from "../../src/store/sqlite/connection.js";
import { driverModule, openDatabase } from "../../src/store/sqlite/driver.js";
import { WalCheckpointer } from "../../src/store/sqlite/wal-checkpointer.js";
import { makeFolder, removeFolder } from "./temporary-folder.js";
import { until } from "../support/until.mjs";

let folder: string;
let path: string;
beforeEach(async () => {
  folder = await makeFolder();
  path = join(folder, "store.db");
});
afterEach(() => removeFolder(folder));

const walBytes = async (): Promise<number> => (await stat(`${path}-wal`)).size;

describe("the WAL", () => {
  it("the WAL is kept short by SQLite where no thread can copy it, which is reported once", async () => {
    await (await openSqliteStore(path)).close();
    const database = await openDatabase(path);
    const connection = new SqliteConnection(database, "sqlite:test", true, {});
    const reports: string[] = [];
    const keeper = new WalCheckpointer(
      connection,
      join(folder, "no", "such", "folder"),
      await driverModule(),
      (message) => reports.push(message),
    );
    database.exec("CREATE TABLE other (body BLOB)");
    const bytes = 20_000;
    const insert = database.prepare(`INSERT INTO other VALUES (zeroblob(${bytes}))`);
    const insertOne = (): void => {
      insert.run();
      keeper.noteWrite();
    };
    // How long the thread takes to fail is the machine's business: what is written until then is not limited.
    await until(() => {
      insertOne();
      return reports.length > 0;
    }, "the thread to fail");
    expect(reports).toEqual(["the WAL cannot be checkpointed in the background, so some saves will wait for it"]);
    const before = await walBytes();
    for (let n = 0; n < 1500; n++) insertOne();
    expect((await walBytes()) - before).toBeLessThan(0.3 * 1500 * bytes);
    expect(reports).toHaveLength(1);
    await keeper.close();
    await connection.close();
  });
});
