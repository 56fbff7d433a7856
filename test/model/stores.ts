/** The stores that sessions are tried on, each with what a test needs: several Savepoints on the same data. */
import { join } from "node:path";
import { afterEach, beforeEach } from "vitest";
import { type OpenOptions, Savepoint } from "../../src/index.js";
import { openStore, type Store } from "../../src/store.js";
import { borrowMigratedUrl, returnMigratedUrl } from "../postgres/schemas.js";
import { makeFolder, removeFolder } from "../store/temporary-folder.js";
import { chooseStores } from "../support/choose-stores.js";

/** Data that several Savepoints may be opened on, as several processes would. All are closed when the test ends. */
export interface SharedData {
  /** Opens a further Savepoint; what the others have saved is there. */
  open(options?: OpenOptions): Promise<Savepoint>;
}

export interface StoreKind {
  readonly name: string;
  setup(): Promise<SharedData & { teardown(): Promise<void> }>;
}

export const EVERY_STORE: readonly StoreKind[] = [
  { name: "memory:", setup: () => shareStore("memory:") },
  { name: "sqlite::memory:", setup: () => shareStore("sqlite::memory:") },
  { name: "sqlite: (a file)", setup: () => shareFolder((folder) => `sqlite:${join(folder, "store.db")}`) },
  { name: "file:", setup: () => shareFolder((folder) => `file:${join(folder, "store")}`) },
  { name: "postgres:", setup: sharePostgres },
];

/**
 * The stores that suites above the store contract run on: `memory:` and a SQLite file, and with `STORES=all` every one.
 * The conformance kit always runs on every store.
 */
export const STORES: readonly StoreKind[] = chooseStores(EVERY_STORE);

/** Fresh data for every test of a suite. */
export function useData(kind: StoreKind): SharedData {
  let data: Awaited<ReturnType<StoreKind["setup"]>> | undefined;
  beforeEach(async () => {
    data = await kind.setup();
  });
  afterEach(() => data?.teardown());
  return {
    open: async (options) => {
      if (!data) throw new Error("There is no test under way.");
      return data.open(options);
    },
  };
}

/** What is in memory is shared by sharing the store itself. */
async function shareStore(url: string): ReturnType<StoreKind["setup"]> {
  const store: Store = await openStore(url);
  return { open: (options) => Savepoint.open(store, options), teardown: () => store.close() };
}

async function shareFolder(urlIn: (folder: string) => string): ReturnType<StoreKind["setup"]> {
  const folder = await makeFolder();
  return shareUrl(urlIn(folder), () => removeFolder(folder));
}

async function sharePostgres(): ReturnType<StoreKind["setup"]> {
  const url = await borrowMigratedUrl();
  return shareUrl(url, () => returnMigratedUrl(url));
}

function shareUrl(url: string, remove: () => Promise<void>): Awaited<ReturnType<StoreKind["setup"]>> {
  const opened: Savepoint[] = [];
  return {
    async open(options) {
      // What survives a power cut is tried elsewhere: here it would only cost time.
      const sp = await Savepoint.open(url, { durability: "process", ...options });
      opened.push(sp);
      return sp;
    },
    async teardown() {
      for (const sp of opened) await sp.close();
      await remove();
    },
  };
}
