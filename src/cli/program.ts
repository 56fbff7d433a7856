/** From the arguments to a verb: what can be typed, what it means, and the help that says so. */
import { Command, CommanderError, Help, type OutputConfiguration } from "commander";
import type { CommonOptions } from "./cli.js";
import { findClosestName } from "./did-you-mean.js";
import { usageError } from "./errors.js";
import type { CliIo } from "./io.js";
import { sanitize } from "./terminal-text.js";
import { GROUPS, type Verb } from "./verb.js";
import { version } from "./version.js";

/** What was typed. */
export interface ParsedCommand {
  readonly verb: Verb;
  readonly positionals: readonly (string | undefined)[];
  readonly options: unknown;
}

/** Says which of these commands was typed; `undefined` where help was asked for, and printed. */
export async function parseCommand(
  verbs: readonly Verb[],
  typed: readonly string[],
  { stdout }: CliIo,
  noteOptions: (options: CommonOptions) => void,
): Promise<ParsedCommand | undefined> {
  let found: ParsedCommand | undefined;
  const program = createProgram(
    verbs,
    stdout,
    (verb, positionals, options) => (found = { verb, positionals, options }),
  );
  try {
    await program.parseAsync(typed, { from: "user" });
  } catch (error) {
    if (!(error instanceof CommanderError)) {
      noteOptions(program.opts());
      throw error;
    }
    if (error.exitCode === 0) return undefined;
    noteOptions(program.opts());
    // "savepoint help" with something that is no verb ends so.
    if (error.code === "commander.help") throw unknownVerb(verbs, typed.at(-1) ?? "");
    throw usageError(error.message.replace(/^error: /, "").replaceAll("\n", " "), error);
  }
  noteOptions(program.opts());
  return found;
}

function createProgram(
  verbs: readonly Verb[],
  stdout: CliIo["stdout"],
  found: (verb: Verb, positionals: readonly (string | undefined)[], options: unknown) => void,
): Command {
  const program = new Command("savepoint");
  const output: OutputConfiguration = {
    writeOut: (text) => void stdout.write(text),
    writeErr: () => {},
    getOutHelpWidth: () => (stdout.isTTY ? stdout.columns : undefined) as number,
    getOutHasColors: () => false,
  };
  program
    .description("Crash-proof AI agents: look at what they have saved, go back, branch off, and go on.")
    .version(version(), "-V, --version", "print the version")
    .option("-s, --store <url>", "the store; else SAVEPOINT_URL, else the nearest .savepoint folder upwards")
    .option("--json", "print one JSON document")
    .option("--jsonl", "print one JSON object per line")
    .option("--color", "colour, even if this is no terminal")
    .option("--no-color", "no colour; so does NO_COLOR")
    .option("-q, --quiet", "print data and failures only")
    .option("-y, --yes", "do not ask before what cannot be undone")
    .helpOption("-h, --help", "print help")
    .helpCommand("help [verb]", "print help for a verb")
    .showSuggestionAfterError()
    .exitOverride()
    .configureOutput(output)
    .configureHelp({ formatHelp: helpOfAll(verbs) })
    .allowExcessArguments()
    .action(() => {
      const [wrong] = program.args;
      if (wrong !== undefined) throw unknownVerb(verbs, wrong);
      program.outputHelp();
    });
  // Only a wish is a wish: without either, colour is up to the terminal.
  program.setOptionValue("color", undefined);
  for (const verb of verbs) {
    const command = program
      .command(verb.name)
      .summary(verb.summary)
      .description(verb.summary)
      .allowExcessArguments(false);
    verb.declare(command);
    command
      .exitOverride()
      .showSuggestionAfterError()
      .configureOutput(output)
      .configureHelp({ formatHelp: helpOfOne(verb) })
      .action((...given: unknown[]) => {
        const positionals = given.slice(0, -2).flat() as (string | undefined)[];
        found(verb, positionals, given.at(-2));
      });
  }
  return program;
}

function unknownVerb(verbs: readonly Verb[], typed: string): Error {
  const meant = findClosestName(
    typed,
    verbs.map(({ name }) => name),
  );
  const guess = meant === undefined ? '"savepoint --help" lists them.' : `Did you mean "${meant}"?`;
  return usageError(`There is no verb "${sanitize(typed)}". ${guess}`);
}

type FormatHelp = (command: Command, helper: Help) => string;

function helpOfAll(verbs: readonly Verb[]): FormatHelp {
  return (command, helper) => {
    if (command.parent) return Help.prototype.formatHelp.call(helper, command, helper);
    const width = Math.max(...verbs.map(({ name }) => name.length));
    const sections = GROUPS.flatMap((group) => {
      const own = verbs.filter((verb) => verb.group === group);
      return own.length === 0
        ? []
        : [`${group}:\n${own.map(({ name, summary }) => `  ${name.padEnd(width)}  ${summary}`).join("\n")}`];
    });
    const options = helper
      .visibleOptions(command)
      .map((option) => `  ${helper.optionTerm(option).padEnd(20)}  ${helper.optionDescription(option)}`);
    return [
      `${command.description()}\n`,
      `Usage: savepoint <verb> [options]\n`,
      `${sections.join("\n\n")}\n`,
      `Options of all verbs:\n${options.join("\n")}\n`,
      CHECKPOINT_NAMES,
      `savepoint <verb> --help says more. Exit codes and JSON shapes: docs/cli.md.\n`,
    ].join("\n");
  };
}

function helpOfOne(verb: Verb): FormatHelp {
  return (command, helper) => {
    const usual = Help.prototype.formatHelp.call(helper, command, helper).trimEnd();
    const width = Math.max(...verb.examples.map(([typed]) => typed.length));
    const examples = verb.examples.map(([typed, meaning]) => `  ${typed.padEnd(width)}  # ${meaning}`);
    return `${usual}\n\nExamples:\n${examples.join("\n")}\n\nOptions of all verbs: savepoint --help\n`;
  };
}

const CHECKPOINT_NAMES = `A checkpoint is named by:
  0190f3c2-…-5e6f7a8b   its id
  5e6f7a8b              the last eight characters of its id
  order-88#14           its number in a session
  order-88@what-if      the newest of a branch
  order-88              the newest of a session
  …:/messages/3         and a JSON pointer, for a part of its state
`;
