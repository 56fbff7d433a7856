import { describe } from "vitest";
import { matrixSuite } from "./matrix-suite.js";

describe("an agent with every kind of effect, killed at a few points", () => {
  // All of them take minutes: they are in `matrix.slow.test.ts`.
  matrixSuite(["commit", "durable"], 40);
});
