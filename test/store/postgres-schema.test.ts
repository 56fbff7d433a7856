import { afterEach, describe, expect, it } from "vitest";
import { openPostgresStore } from "../../src/store/index.js";
import { dropSchema, newPostgresUrl } from "../postgres/schemas.js";

const url = newPostgresUrl();
afterEach(() => dropSchema(url));

describe("the tables of a PostgreSQL store", () => {
  it("are made by one of many that open it at once, and found by the others", async () => {
    const opened = await Promise.allSettled(
      Array.from({ length: 8 }, () => openPostgresStore(url, { durability: "process" })),
    );
    const failures = opened.flatMap((each) => (each.status === "rejected" ? [each.reason as unknown] : []));
    await Promise.all(opened.flatMap((each) => (each.status === "fulfilled" ? [each.value.close()] : [])));
    expect(failures).toEqual([]);
  });
});
