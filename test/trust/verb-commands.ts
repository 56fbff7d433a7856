/** The command lines of each verb that must not pass on control characters from a store. */
import { type Attack, EVIL, idsOf } from "./hostile-store.js";

export interface CommandLine {
  readonly args: readonly string[];
  /** For verbs that do not end: the output to wait for before the command is interrupted. */
  readonly until?: RegExp;
}

/** The command lines of each verb by its name. A new verb needs an entry here: `verb-commands.test.ts` fails without one. */
export function commandsFor(attack: Attack): Readonly<Record<string, readonly CommandLine[]>> {
  const { session, waiting, agent, conversation } = idsOf(attack);
  const lines = (...all: string[][]): CommandLine[] => all.map((args) => ({ args }));
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
    ui: [{ args: ["--port", "0", "--no-open"], until: /http/ }, { args: ["--host", EVIL, "--no-open"] }],
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
      [waiting, "--failed", EVIL],
    ),
    cancel: lines([waiting], [session, "--reason", EVIL]),
    requeue: lines([waiting], [session], [session, "--branch", EVIL], [EVIL]),
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
    rekey: lines([], ["--encrypt", "--yes"]),
    compact: lines([]),
    export: lines(["-o", "all.savepoint"], [session, "-o", "one.savepoint"], ["--session", EVIL, "-o", "x"]),
    import: lines(["all.savepoint"], ["all.savepoint", "--skip-existing"], [EVIL]),
    init: lines([]),
    keygen: lines([], [`./${EVIL}`], ["./keys", "--name", EVIL]),
    migrate: lines([], ["--to", "sqlite:./copy.db"]),
    doctor: lines([]),
    mcp: lines([]),
    demo: lines(["--kills", EVIL]),
  };
}
