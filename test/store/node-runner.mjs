// The kit in Node's own test runner, as a user without a framework has it. `conformance-kit.test.ts` runs this.
import { describe, it } from "node:test";
import { storeConformance } from "savepoint/testing";

const { openMemoryStore } = await import(new URL("../../dist/store.js", import.meta.url).href);

void describe("memory:", () => {
  storeConformance({ setup: async () => ({ store: openMemoryStore(), teardown: async () => {} }) }, { describe, it });
});
