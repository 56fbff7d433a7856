import { describe, it } from "vitest";
import { storeConformance } from "savepoint/testing";
import { POSTGRES_WRITE_POINTS } from "../../src/store/postgres/options.js";
import { postgresHarness } from "./postgres-harness.js";
import { runs } from "../support/runs.js";

describe("postgres:, portable", () => {
  const options = { portable: true, onBackgroundFailure: () => {} } as const;
  storeConformance(
    postgresHarness(options, POSTGRES_WRITE_POINTS.slice(1, 2)),
    { describe, it },
    { rounds: runs(6, 1) },
  );
});
