import { describe } from "vitest";
import { WRITE_POINTS } from "../../src/store/file/write-points.js";
import { temporaryFolder, temporaryStore } from "./children.js";
import { killSuite } from "./kill-suite.js";

describe("a process that saves to plain files as fast as it can", () => {
  // It packs nothing: packing is tried with every store.
  const points = WRITE_POINTS.filter((point) => !point.includes(":"));
  killSuite(temporaryFolder, 100, new Map(points.map((point) => [point, [0, 1, 40]])));
});

describe("a process that saves to SQLite as fast as it can", () => {
  killSuite(temporaryStore, 100, new Map());
});
