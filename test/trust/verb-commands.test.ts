import { expect, it } from "vitest";
import { VERBS } from "../../src/cli/verbs/index.js";
import { commandsFor } from "./verb-commands.js";

// The test that runs the command lines is slow. This one fails in `npm test` when a verb is new.
it("every verb of the command line has command lines that are tried on a store with escape sequences", () => {
  const tried = Object.keys(commandsFor("texts"));
  const missing = VERBS.map(({ name }) => name).filter((name) => !tried.includes(name));
  expect(missing, "Add command lines of these verbs to commandsFor() in test/trust/verb-commands.ts").toEqual([]);
});
