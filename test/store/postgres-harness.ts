/** How the conformance kit gets PostgreSQL stores: each a schema of its own. */
import type { StoreHarness } from "savepoint/testing";
import { openStore, type StoreOptions } from "../../src/store.js";
import { borrowMigratedUrl, returnMigratedUrl } from "../postgres/schemas.js";
import { damagePostgres } from "./postgres-damage.js";

/** @param points where processes that write are killed */
export function postgresHarness(options: StoreOptions, points: readonly string[]): StoreHarness {
  return {
    async setup() {
      // The portable profile is part of the URL, so that processes that are killed use it too.
      const location = (await borrowMigratedUrl()) + (options.portable ? "&portable=true" : "");
      return { store: await openStore(location, options), location, teardown: () => returnMigratedUrl(location) };
    },
    reopen: (location) => openStore(location, options),
    damage: damagePostgres,
    crash: { module: new URL("./postgres-crash.mjs", import.meta.url).href, points },
  };
}
