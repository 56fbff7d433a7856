/** Stored strings must not control the terminal of whoever prints them, nor add lines to what is printed. */
import { describe, expect, it } from "vitest";
import { VERBS } from "../../src/cli/verbs/index.js";
import { Place } from "../cli/place.js";
import { type Attack, createHostileStore, EVIL, idsOf } from "./hostile-store.js";
import { commandsFor } from "./verb-commands.js";

/** An agent of the user. The module needs no import: an agent is recognised by its structure. */
const agentsModule = (name: string): string => `
  const EVIL = ${JSON.stringify(EVIL)};
  export const agent = { name: ${JSON.stringify(name)}, definition: {
    name: ${JSON.stringify(name)}, initial: (state) => state, step: () => { throw new Error(EVIL); } } };`;

describe.each<Attack>(["texts", "ids", "fields"])("a store with escape sequences in its %s", (attack) => {
  it.each(VERBS.map(({ name }) => name))("cannot control the terminal or forge a line: %s", async (verb) => {
    const commands = commandsFor(attack)[verb];
    if (!commands) throw new Error(`Add command lines of ${verb} to commandsFor() in test/trust/verb-commands.ts.`);
    const place = new Place();
    try {
      await createHostileStore(place.url, attack);
      place.file("agents.mjs", agentsModule(idsOf(attack).agent));
      if (verb === "import") await place.on(["export", "-o", "all.savepoint"]);
      for (const { args, until } of commands) {
        // Verbs that do not end print nothing to wait for as JSON.
        for (const color of ["--no-color", "--color", ...(until ? [] : ["--json"])]) {
          const started = place.startOn([verb, color, ...args]);
          if (until) await started.seen(until).catch(() => {});
          if (until) started.interrupt();
          const { stdout, stderr } = await started.ended;
          const what = JSON.stringify({ verb, args, stdout, stderr }, undefined, 1);
          for (const output of [stdout, stderr]) {
            // Colours of the command line itself are all that begins with an escape character.
            // eslint-disable-next-line no-control-regex -- colours begin with a control character
            const text = color === "--color" ? output.replaceAll(/\u001b\[\d+m/g, "") : output;
            // eslint-disable-next-line no-control-regex -- that is what must not be there
            expect(/[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u202e]/.test(text), what).toBe(false);
            expect(/^FORGED/m.test(text), what).toBe(false);
          }
        }
      }
    } finally {
      await place.end();
    }
  });
});
