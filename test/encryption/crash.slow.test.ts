/** The crash tests of runs and saves, on encrypted stores. */
import { afterAll, beforeAll, describe, inject } from "vitest";
import { WRITE_POINTS as FILE_WRITE_POINTS } from "../../src/store/file/write-points.js";
import { WRITE_POINTS } from "../../src/store/sqlite/options.js";
import { temporaryFolder, temporaryStore } from "../crash/children.js";
import { killSuite } from "../crash/kill-suite.js";
import { dropSchemas } from "../postgres/schemas.js";
import { matrixSuite } from "../run-crash/matrix-suite.js";
import { SCHEMAS } from "../run-crash/store-url.mjs";

/** All processes of these tests open their stores with a key. @param store where the runs are */
function withKey(store: () => string): void {
  beforeAll(() => {
    process.env["CRASH_KEYS"] = "old";
    process.env["CRASH_STORE"] = store();
  });
  afterAll(() => {
    delete process.env["CRASH_KEYS"];
    delete process.env["CRASH_STORE"];
  });
}

// The plain stores are killed at every passing of every point. Encrypted ones write the same commits, with other values.
describe("an agent with every kind of effect, on an encrypted SQLite store", () => {
  withKey(() => "sqlite");
  matrixSuite(["commit", "committed", "durable", "flush:written"], 3);
});

describe("an agent with every kind of effect, on encrypted plain files", () => {
  withKey(() => "file");
  matrixSuite(["torn", "written", "synced", "logged"], 4);
});

describe("an agent with every kind of effect, on an encrypted PostgreSQL store", () => {
  withKey(() => inject("postgresUrl"));
  afterAll(() => dropSchemas(SCHEMAS));
  matrixSuite(["begin", "sent", "committed"], 4);
});

describe("a process that saves as fast as it can to an encrypted SQLite store", () => {
  withKey(() => "sqlite");
  killSuite(temporaryStore, 20, new Map(WRITE_POINTS.map((point) => [point, [0, 2]])));
});

describe("a process that saves as fast as it can to encrypted plain files", () => {
  withKey(() => "file");
  // It packs nothing.
  const points = FILE_WRITE_POINTS.filter((point) => !point.includes(":"));
  killSuite(temporaryFolder, 20, new Map(points.map((point) => [point, [0, 2]])));
});
