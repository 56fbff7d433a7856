import { afterAll, beforeAll, describe, inject } from "vitest";
import { dropSchemas } from "../postgres/schemas.js";
import { matrixSuite } from "./matrix-suite.js";
import { SCHEMAS } from "./store-url.mjs";

describe.each([
  { profile: "", every: 1 },
  // Only the printing of commits differs, so every fourth point is enough.
  { profile: "?portable=true", every: 4 },
])("an agent with every kind of effect, on PostgreSQL$profile", ({ profile, every }) => {
  beforeAll(() => void (process.env["CRASH_STORE"] = `${inject("postgresUrl")}${profile}`));
  afterAll(async () => {
    delete process.env["CRASH_STORE"];
    await dropSchemas(SCHEMAS);
  });
  matrixSuite(["begin", "sent", "committed"], every);
});
