/** Commits that come together, on a store that syncs: most of them are one plain statement. */
import { randomBytes } from "node:crypto";
import { expect, it } from "vitest";
import { openPostgresStore } from "../../src/store/index.js";
import { dropSchema, newPostgresUrl } from "./schemas.js";

it("one that the server cannot store fails alone", async () => {
  const url = newPostgresUrl();
  const store = await openPostgresStore(url, { onBackgroundFailure: () => {} });
  await store.commit({ puts: [{ key: "a", value: "1" }] });
  const tooLong = randomBytes(9000).toString("base64");
  const outcomes = await Promise.allSettled([
    store.commit({ checks: [{ key: "a", value: "1" }], puts: [{ key: "a", value: "2" }] }),
    store.commit({ puts: [{ key: tooLong, value: "" }] }),
    store.commit({ checks: [{ key: "b", value: undefined }], puts: [{ key: "b", value: "1" }] }),
  ]);
  expect(outcomes).toMatchObject([{ status: "fulfilled" }, { reason: { code: "INVALID_ID" } }, { status: "fulfilled" }]);
  expect(await store.get(["a", "b"])).toMatchObject([{ value: "2" }, { value: "1" }]);
  await store.close();
  await dropSchema(url);
});
