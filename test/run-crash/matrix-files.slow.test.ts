import { afterAll, beforeAll, describe } from "vitest";
import { matrixSuite } from "./matrix-suite.js";

describe("an agent with every kind of effect, on plain files", () => {
  beforeAll(() => void (process.env["CRASH_STORE"] = "file"));
  afterAll(() => void delete process.env["CRASH_STORE"]);
  matrixSuite(["torn", "written", "synced", "logged"]);
});
