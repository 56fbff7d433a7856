/** A store in a file that a test can damage, through a connection of its own. */
import { join } from "node:path";
import { afterEach, beforeEach } from "vitest";
import type { Damage, DamageTarget } from "savepoint/testing";
import { type DamageEvent, type OpenOptions, Savepoint } from "../../src/index.js";
import { openDatabase, type SqliteDatabase } from "../../src/store/sqlite/driver.js";
import { damageSqlite } from "../store/sqlite-damage.js";
import { makeFolder, removeFolder } from "../store/temporary-folder.js";

export interface DamageableFile {
  /** A Savepoint that remembers nothing of what others have saved. All are closed when the test ends. */
  readonly open: (options?: OpenOptions) => Promise<Savepoint>;
  readonly damage: (target: DamageTarget, how: Damage) => void;
  /** Changes a bit of a record. */
  readonly flip: (key: string) => void;
  /** The damage that was reported so far. */
  readonly events: DamageEvent[];
  readonly database: SqliteDatabase;
}

/** A fresh one for every test of a suite. */
export function useDamageableFile(): DamageableFile {
  let folder: string;
  let database: SqliteDatabase;
  let events: DamageEvent[];
  let opened: Savepoint[];

  async function open(options: OpenOptions = {}): Promise<Savepoint> {
    const on = { damage: (event: DamageEvent) => void events.push(event) };
    const sp = await Savepoint.open(`sqlite:${join(folder, "store.db")}`, { on, ...options });
    opened.push(sp);
    return sp;
  }

  beforeEach(async () => {
    folder = await makeFolder();
    [events, opened] = [[], []];
    await open();
    database = await openDatabase(join(folder, "store.db"));
  });
  afterEach(async () => {
    database.close();
    for (const sp of opened) await sp.close();
    await removeFolder(folder);
  });
  return {
    open,
    damage: (target, how) => damageSqlite(database, target, how),
    flip: (key) => damageSqlite(database, { kind: "record", key }, "flip"),
    get events() {
      return events;
    },
    get database() {
      return database;
    },
  };
}
