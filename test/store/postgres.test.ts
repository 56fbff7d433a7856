import { describe, it } from "vitest";
import { storeConformance } from "savepoint/testing";
import { POSTGRES_WRITE_POINTS } from "../../src/store/postgres/options.js";
import { postgresHarness } from "./postgres-harness.js";
import { runs } from "../support/runs.js";

describe("postgres:", () => {
  // What would be told is that the server of the tests does not wait for its disk. With the durability `process` commits set
  // it: crash-points.slow.test.ts has the same tests with that one.
  const options = { durability: "power", onBackgroundFailure: () => {} } as const;
  storeConformance(
    postgresHarness(options, POSTGRES_WRITE_POINTS.slice(1, 2)),
    { describe, it },
    { rounds: runs(6, 1) },
  );
});
