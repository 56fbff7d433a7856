import { describe, it } from "vitest";
import { storeConformance } from "savepoint/testing";
import { openMemoryStore } from "../../src/store.js";
import { runs } from "../support/runs.js";

describe("memory:", () => {
  storeConformance(
    { setup: async () => ({ store: openMemoryStore(), teardown: async () => {} }) },
    { describe, it },
    { rounds: runs(6, 1) },
  );
});
