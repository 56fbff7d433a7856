import { afterAll, beforeAll, describe, inject } from "vitest";
import { dropSchemas } from "../postgres/schemas.js";
import { matrixSuite } from "./matrix-suite.js";
import { SCHEMAS } from "./store-url.mjs";

describe("an agent with every kind of effect, on PostgreSQL", () => {
  beforeAll(() => void (process.env["CRASH_STORE"] = inject("postgresUrl")));
  afterAll(async () => {
    delete process.env["CRASH_STORE"];
    await dropSchemas(SCHEMAS);
  });
  matrixSuite(["begin", "sent", "committed"]);
});
