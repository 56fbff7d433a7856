/** A store in a temporary folder and servers on it. All are closed when the test ends. */
import { join } from "node:path";
import { afterEach, beforeEach } from "vitest";
import { Savepoint } from "../../src/index.js";
import type { Damage, DamageTarget } from "savepoint/testing";
import { openDatabase } from "../../src/store/sqlite/driver.js";
import { damageSqlite } from "../store/sqlite-damage.js";
import { makeFolder, removeFolder } from "../store/temporary-folder.js";
import {
  type Generation,
  GENERATIONS,
  NEWEST,
  type ServerOptions,
  type SpawnedClient,
  type TestClient,
} from "./clients.js";

export interface Lab {
  readonly url: string;
  /** A client of a server in this process, which has its own handle on the store. By default it offers all tools. */
  connect(options?: ServerOptions): Promise<TestClient>;
  /** A client of each generation, for tests whose data is expensive to save. */
  connectEach(options?: ServerOptions): Promise<TestClient[]>;
  /** A client of a server in its own process. By default it offers all tools. */
  spawn(options?: ServerOptions): Promise<SpawnedClient>;
  /** The store itself, as another program opens it. */
  open(now?: () => number): Promise<Savepoint>;
  /** Damages stored data. */
  damage(target: DamageTarget, how?: Damage): Promise<void>;
}

export function useLab(generation: Generation = NEWEST): Lab {
  let folder = "";
  let opened: { close(): Promise<void> }[] = [];
  beforeEach(async () => {
    folder = await makeFolder();
    opened = [];
  });
  afterEach(async () => {
    for (const each of opened) await each.close();
    await removeFolder(folder);
  });
  const keep = <T extends { close(): Promise<void> }>(each: T): T => {
    opened.push(each);
    return each;
  };
  const url = (): string => `sqlite:${join(folder, "store.db")}`;
  return {
    get url() {
      return url();
    },
    connect: async (options = { write: true }) => keep(await generation.connect(url(), { tools: ["all"], ...options })),
    connectEach: (options = { write: true }) =>
      Promise.all(GENERATIONS.map(async (each) => keep(await each.connect(url(), { tools: ["all"], ...options })))),
    spawn: async (options = { write: true }) => keep(await generation.spawn(url(), { tools: ["all"], ...options })),
    async damage(target, how = "flip") {
      const database = await openDatabase(join(folder, "store.db"));
      damageSqlite(database, target, how);
      database.close();
    },
    open: async (now) => keep(await Savepoint.open(url(), { durability: "process", ...(now && { now }) })),
  };
}
