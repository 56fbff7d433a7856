/** Lines that are not shown yet, with what their tests will say. */
import { describe, it } from "vitest";

describe("a store in Postgres", () => {
  // The conformance kit and every test here that runs on all stores, on a Postgres store as well.
  it.todo("001-U1: Postgres holds what the other stores hold, and passes the same suite");
});

describe("the command line", () => {
  // savepoint session list|show|resume|delete and checkpoint list|restore|delete on a store that a program has left.
  it.todo("004-U7: sessions and checkpoints are listed, shown, resumed, restored and deleted from the command line");
  // The same verbs change the store: none of them prints that it is not implemented.
  it.todo("004-B9: listing, restoring and deleting checkpoints from the command line really does it");
});
