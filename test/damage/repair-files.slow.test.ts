/** Repairing a store of plain files in which one thing is damaged. */
import { describe } from "vitest";
import { describeRepair } from "./repair-matrix.js";
import { FILES } from "./world.js";

describe("repairing a store of plain files", () => describeRepair(FILES));
