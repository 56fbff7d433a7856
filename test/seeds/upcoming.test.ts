/** Lines that are not shown yet, with what their tests will say. */
import { describe, it } from "vitest";

describe("a store in Postgres", () => {
  // The conformance kit and every test here that runs on all stores, on a Postgres store as well.
  it.todo("001-U1: Postgres holds what the other stores hold, and passes the same suite");
});
