/** Repairing a SQLite store in which one thing is damaged. */
import { describe } from "vitest";
import { describeRepair } from "./repair-matrix.js";
import { SQLITE } from "./world.js";

describe("repairing a SQLite store", () => describeRepair(SQLITE));
