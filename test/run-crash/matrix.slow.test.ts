import { describe } from "vitest";
import { matrixSuite } from "./matrix-suite.js";

describe("an agent with every kind of effect", () => {
  // What else there is lies between "begin" and "commit", and is taken back alike.
  matrixSuite(["commit", "committed", "durable", "flush:written"]);
});
