import { describe } from "vitest";
import { matrixSuite } from "./matrix-suite.js";

describe("an agent with every kind of effect, killed here and there", () => {
  // All of them take minutes: they are among the slow proofs.
  matrixSuite(["commit", "durable"], 5);
});
