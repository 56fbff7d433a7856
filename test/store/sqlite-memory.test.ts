import { describe, it } from "vitest";
import { storeConformance } from "savepoint/testing";
import { openStore } from "../../src/store.js";
import { runs } from "../support/runs.js";

describe("sqlite: in memory", () => {
  storeConformance(
    { setup: async () => ({ store: await openStore("sqlite::memory:"), teardown: async () => {} }) },
    { describe, it },
    { rounds: runs(6, 1) },
  );
});
