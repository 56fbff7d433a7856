import { describe } from "vitest";
import { matrixSuite } from "./matrix-suite.js";

describe("an agent with every kind of effect", () => {
  // All other points lie between "begin" and "commit", and are rolled back in the same way.
  matrixSuite(["commit", "committed", "durable", "flush:written"]);
});
