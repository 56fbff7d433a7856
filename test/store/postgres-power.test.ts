import { describe, it } from "vitest";
import { storeConformance } from "savepoint/testing";
import { openPostgresStore, openStore } from "../../src/store/index.js";
import { POSTGRES_WRITE_POINTS } from "../../src/store/postgres/options.js";
import { dropSchema, newPostgresUrl } from "../postgres/schemas.js";
import { damagePostgres } from "./postgres-damage.js";

// As most open it. Most commits are another statement then than with the durability of the other tests.
const options = {
  durability: "power",
  // That the server of the tests does not wait for its disk.
  onBackgroundFailure: () => {},
} as const;

describe("postgres:, with the durability that is the default", () => {
  storeConformance(
    {
      async setup() {
        const location = newPostgresUrl();
        const store = await openStore(location, options);
        return { store, location, teardown: () => dropSchema(location) };
      },
      reopen: (location) => openPostgresStore(location, options),
      damage: damagePostgres,
      crash: {
        module: new URL("./postgres-crash.mjs", import.meta.url).href,
        points: POSTGRES_WRITE_POINTS.slice(1, 2),
      },
    },
    { describe, it },
  );
});
