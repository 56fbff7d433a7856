import { describe } from "vitest";
import { WRITE_POINTS } from "../../src/store/sqlite/options.js";
import { temporaryStore } from "./children.js";
import { killSuite } from "./kill-suite.js";

describe("a process that saves as fast as it can", () => {
  const passings = (point: string): number[] => (point.startsWith("seal") ? [0, 2, 5] : [0, 1, 40]);
  killSuite(temporaryStore, 20, new Map(WRITE_POINTS.map((point) => [point, passings(point)])));
});
