/** Names from a store are looked up in tables. What every object inherits is not an entry of them. */
import { expect, it } from "vitest";
import { recordError, reviveError } from "../../src/runs/journal/recorded-error.js";

const INHERITED = ["constructor", "toString", "__proto__", "hasOwnProperty", "valueOf"];

it.each(INHERITED)("a recorded error with the name %s is replayed as an error with that name", (name) => {
  const recorded = recordError(Object.assign(new Error("why"), { name }));
  const revived = reviveError({ ...recorded, cause: recorded });
  expect(revived).toBeInstanceOf(Error);
  expect(revived).toMatchObject({ name, message: "why", cause: { name, message: "why" } });
});
