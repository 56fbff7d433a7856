import { expect, it } from "vitest";
import { Savepoint } from "../../src/index.js";
import { dropSchema, newPostgresUrl } from "../postgres/schemas.js";
import { CANARY, contentOf, fill, NEW, OLD } from "./lab.js";
import { rowsOf } from "./stored-bytes.js";

it("an encrypted PostgreSQL store has no plain text in any table, before and after its key is changed", async () => {
  const url = newPostgresUrl();
  const sp = await Savepoint.open(url, { durability: "process", encryption: { key: OLD } });
  await fill(sp);
  const content = await contentOf(sp);
  await sp.compact();
  await sp.close();
  expect(await rowsOf(url)).not.toContain("canary");
  const rotating = await Savepoint.open(url, {
    durability: "process",
    encryption: { current: "new", keys: { new: NEW, old: OLD } },
  });
  expect((await rotating.rekey()).keys).toBeGreaterThan(3);
  await rotating.close();
  const reopened = await Savepoint.open(url, { durability: "process", encryption: { key: NEW } });
  expect(await contentOf(reopened)).toEqual(content);
  await reopened.close();
  await dropSchema(url);
});

it("a plain PostgreSQL store that is encrypted has no plain text in any table", async () => {
  const url = newPostgresUrl();
  const sp = await Savepoint.open(url, { durability: "process" });
  await fill(sp);
  const content = await contentOf(sp);
  await sp.search(CANARY);
  expect(await rowsOf(url)).toContain("canary");
  await sp.rekey({ to: { key: OLD } });
  expect(await rowsOf(url)).not.toContain("canary");
  expect(await contentOf(sp)).toEqual(content);
  await sp.close();
  await expect(Savepoint.open(url, { durability: "process" })).rejects.toMatchObject({ code: "KEY_REQUIRED" });
  await dropSchema(url);
});
