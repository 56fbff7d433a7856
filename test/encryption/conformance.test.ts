import { describe, it } from "vitest";
import { storeConformance } from "savepoint/testing";
import { openMemoryStore } from "../../src/store.js";
import { runs } from "../support/runs.js";
import { encryptedHarness } from "./encrypted-harness.js";

// Encrypted SQLite, file and PostgreSQL stores are in `conformance.slow.test.ts`.
describe("an encrypted store in memory", () => {
  const harness = encryptedHarness({ setup: async () => ({ store: openMemoryStore(), teardown: async () => {} }) });
  storeConformance(harness, { describe, it }, { rounds: runs(6, 1) });
});
