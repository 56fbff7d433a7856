import { describe, it } from "vitest";
import { storeConformance } from "savepoint/testing";
import { POSTGRES_WRITE_POINTS } from "../../src/store/postgres/options.js";
import { postgresHarness } from "./postgres-harness.js";

describe("postgres:", () => {
  // The server of the tests does not wait for its disk, and that would be told each time.
  storeConformance(postgresHarness({ durability: "process" }, POSTGRES_WRITE_POINTS.slice(1, 3)), { describe, it });
});
