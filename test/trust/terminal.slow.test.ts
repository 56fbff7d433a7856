/** Stored strings must not control the terminal of whoever prints them, nor add lines to what is printed. */
import { describe, expect, it } from "vitest";
import { VERBS } from "../../src/cli/verbs/index.js";
import { Place } from "../cli/place.js";
import { type Attack, createHostileStore, EVIL, idsOf } from "./hostile-store.js";

/** The command lines of each verb. Verbs that do not end get a text to wait for, and are interrupted. */
function commandsFor(attack: Attack): Record<string, readonly { args: string[]; until?: RegExp }[]> {
  const { session, waiting, agent, conversation } = idsOf(attack);
  const lines = (...all: string[][]): { args: string[] }[] => all.map((args) => ({ args }));
  const agents = ["--agents", "./agents.mjs"];
  return {
    sessions: lines([], ["--status", EVIL], ["--agent", agent]),
    log: lines([], [session], [session, "--graph"], [waiting], [EVIL], [session, "--branch", EVIL]),
    show: lines([session], [waiting], [`${session}#0`], [`${session}:/${EVIL}`], [`${session}:/nothing`], [EVIL]),
    diff: lines([session], [`${session}#0`, `${session}#1`], [session, "--stat"], [`${session}:/deep`], [waiting]),
    search: lines(["FORGED"], [EVIL]),
    status: lines([], [session], [waiting], [EVIL]),
    queue: lines([], ["--agent", agent], ["--agent", EVIL]),
    workers: lines([]),
    agents: lines([], [agent], [EVIL]),
    conversations: lines([], [conversation], [EVIL]),
    journal: lines([waiting], [session], [EVIL]),
    watch: [{ args: [waiting], until: /./ }, { args: [EVIL] }],
    stats: lines([], ["--agent", agent]),
    fork: lines([`${session}#0`], [`${session}#0`, EVIL], [waiting, "what-if"]),
    rewind: lines([`${session}#0`], [EVIL]),
    restore: lines([`${session}#0`, "--dry-run"], [`${session}#0`, "--yes"], [`${session}#0`]),
    label: lines([`${session}#0`, EVIL], [`${session}#0`, "--remove"]),
    pin: lines([`${session}#0`]),
    delete: lines(
      [session],
      [`${session}#0`],
      ["--session", EVIL],
      ["--agent", EVIL],
      ["--conversation", conversation],
    ),
    run: lines(
      [...agents, "--session", waiting],
      [EVIL, ...agents, "--session", session],
      ["--agents", `./${EVIL}.mjs`],
    ),
    recover: lines(agents),
    enqueue: lines([agent, "--session", session, "--input", "1"], [EVIL, "--session", EVIL, "--input", EVIL]),
    worker: [{ args: [...agents, "--verbose"], until: /is running|error/ }],
    answer: lines(
      [waiting],
      [waiting, "--happened"],
      [session],
      [waiting, "--question", EVIL],
      [waiting, "--text", EVIL],
    ),
    cancel: lines([waiting], [session, "--reason", EVIL]),
    backup: lines(["--to", "./backups"]),
    verify: lines([], ["--deep"], ["--checkpoint", session], ["--bundle", "./agents.mjs"]),
    repair: lines([], ["--from", EVIL]),
    prune: lines(["--keep-last", "1", "--dry-run"], ["--keep-last", "1", "--yes"], ["--session", EVIL, "--expired"]),
    erase: lines(
      ["--session", session],
      ["--session", session, "--yes"],
      ["--conversation", conversation, "--yes"],
      ["--agent", EVIL, "--yes"],
      [EVIL],
    ),
    compact: lines([]),
    export: lines(["-o", "all.savepoint"], [session, "-o", "one.savepoint"], ["--session", EVIL, "-o", "x"]),
    import: lines(["all.savepoint"], ["all.savepoint", "--skip-existing"], [EVIL]),
    init: lines([]),
    migrate: lines([], ["--to", "sqlite:./copy.db"]),
    doctor: lines([]),
    mcp: lines([]),
    demo: lines(["--kills", EVIL]),
  };
}

/** An agent of the user. The module needs no import: an agent is recognised by its structure. */
const agentsModule = (name: string): string => `
  const EVIL = ${JSON.stringify(EVIL)};
  export const agent = { name: ${JSON.stringify(name)}, definition: {
    name: ${JSON.stringify(name)}, initial: (state) => state, step: () => { throw new Error(EVIL); } } };`;

describe.each<Attack>(["texts", "ids", "fields"])("a store with escape sequences in its %s", (attack) => {
  it.each(VERBS.map(({ name }) => name))("cannot control the terminal or forge a line: %s", async (verb) => {
    const commands = commandsFor(attack)[verb];
    expect(commands, "Add command lines of the new verb to commandsFor()").toBeDefined();
    const place = new Place();
    try {
      await createHostileStore(place.url, attack);
      place.file("agents.mjs", agentsModule(idsOf(attack).agent));
      if (verb === "import") await place.on(["export", "-o", "all.savepoint"]);
      for (const { args, until } of commands ?? []) {
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
