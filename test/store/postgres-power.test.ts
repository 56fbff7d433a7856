import { describe, it } from "vitest";
import { storeConformance } from "savepoint/testing";
import { POSTGRES_WRITE_POINTS } from "../../src/store/postgres/options.js";
import { postgresHarness } from "./postgres-harness.js";

describe("postgres:, with the durability that is the default", () => {
  // Most commits are another statement then than with the durability of the other tests. What would be told is that the
  // server of the tests does not wait for its disk.
  const options = { durability: "power", onBackgroundFailure: () => {} } as const;
  storeConformance(postgresHarness(options, POSTGRES_WRITE_POINTS.slice(1, 2)), { describe, it });
});
