import { describe, it } from "vitest";
import { storeConformance } from "savepoint/testing";
import { openMemoryStore } from "../../src/store/index.js";

describe("memory:", () => {
  storeConformance({ setup: async () => ({ store: openMemoryStore(), teardown: async () => {} }) }, { describe, it });
});
