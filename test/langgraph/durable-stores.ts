/** Stores that outlive the process, for tests with real graphs: they can be opened, damaged and removed. */
import { join } from "node:path";
import { afterEach, beforeEach } from "vitest";
import type { Damage, DamageTarget } from "savepoint/testing";
import { type DamageEvent, type OpenOptions, Savepoint } from "../../src/index.js";
import { openDatabase } from "../../src/store/sqlite/driver.js";
import { borrowMigratedUrl, returnMigratedUrl } from "../postgres/schemas.js";
import { damageFiles } from "../store/file-damage.js";
import { damagePostgres } from "../store/postgres-damage.js";
import { damageSqlite } from "../store/sqlite-damage.js";
import { makeFolder, removeFolder } from "../store/temporary-folder.js";
import { chooseStores } from "../support/choose-stores.js";

export interface DurableStore {
  readonly name: string;
  /** Creates an empty store. */
  make(): Promise<MadeStore>;
}

export interface MadeStore {
  readonly url: string;
  damage(target: DamageTarget, how: Damage): Promise<void>;
  remove(): Promise<void>;
}

export const DURABLE_STORES: readonly DurableStore[] = chooseStores([
  {
    name: "sqlite:",
    async make() {
      const folder = await makeFolder();
      const path = join(folder, "store.db");
      return {
        url: `sqlite:${path}`,
        async damage(target, how) {
          const database = await openDatabase(path);
          damageSqlite(database, target, how);
          database.close();
        },
        remove: () => removeFolder(folder),
      };
    },
  },
  {
    name: "file:",
    async make() {
      const folder = await makeFolder();
      const path = join(folder, "store");
      return {
        url: `file:${path}`,
        damage: async (target, how) => damageFiles(path, target, how),
        remove: () => removeFolder(folder),
      };
    },
  },
  {
    name: "postgres:",
    async make() {
      const url = await borrowMigratedUrl();
      return {
        url,
        damage: (target, how) => damagePostgres(url, target, how),
        remove: () => returnMigratedUrl(url),
      };
    },
  },
]);

export interface UsedStore {
  readonly url: string;
  /** The damage that was reported so far. */
  readonly damages: readonly DamageEvent[];
  /** Opens the store as another process would. All are closed when the test ends. */
  open(options?: OpenOptions): Promise<Savepoint>;
  damage: MadeStore["damage"];
}

/** An empty store for every test of a suite. */
export function useStore(kind: DurableStore): UsedStore {
  let made: MadeStore;
  let opened: Savepoint[];
  let damages: DamageEvent[];
  beforeEach(async () => {
    made = await kind.make();
    [opened, damages] = [[], []];
  });
  afterEach(async () => {
    for (const sp of opened) await sp.close();
    await made.remove();
  });
  return {
    get url() {
      return made.url;
    },
    get damages() {
      return damages;
    },
    async open(options = {}) {
      const on = { damage: (event: DamageEvent) => void damages.push(event) };
      const sp = await Savepoint.open(made.url, { durability: "process", on, ...options });
      opened.push(sp);
      return sp;
    },
    damage: (target, how) => made.damage(target, how),
  };
}
