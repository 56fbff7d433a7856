/** Parses the command line into a verb with its arguments, and prints help. */
import { Command, CommanderError, Help, type OutputConfiguration } from "commander";
import type { CommonOptions } from "./cli.js";
import { findClosestName } from "./did-you-mean.js";
import { usageError } from "./errors.js";
import { quote } from "./format.js";
import type { CliIo } from "./io.js";
import { GROUPS, type Verb } from "./verb.js";
import { version } from "./version.js";

export interface ParsedCommand {
  readonly verb: Verb;
  readonly positionals: readonly (string | undefined)[];
  /** Only the options that were given or have a default. */
  readonly options: unknown;
}

/**
 * Parses a command line. Returns `undefined` if help was requested and printed.
 * @param onCommonOptions receives the common options, even if parsing fails, because they decide how the error is printed
 */
export async function parseCommand(
  verbs: readonly Verb[],
  argv: readonly string[],
  { stdout }: CliIo,
  onCommonOptions: (options: CommonOptions) => void,
): Promise<ParsedCommand | undefined> {
  let command: ParsedCommand | undefined;
  const program = createProgram(verbs, stdout, (parsed) => (command = parsed));
  try {
    await program.parseAsync(argv, { from: "user" });
  } catch (error) {
    if (error instanceof CommanderError && error.exitCode === 0) return undefined;
    onCommonOptions(program.opts());
    if (!(error instanceof CommanderError)) throw error;
    // "savepoint help" with an unknown verb.
    if (error.code === "commander.help") throw unknownVerb(verbs, argv.at(-1) ?? "");
    if (error.code === "commander.missingArgument") throw missingArgument(verbs, argv, error.message);
    if (error.code === "commander.excessArguments") throw excessArguments(program, error.message);
    throw usageError(error.message.replace(/^error: /, "").replaceAll("\n", " "), error);
  }
  onCommonOptions(program.opts());
  return command;
}

function createProgram(
  verbs: readonly Verb[],
  stdout: CliIo["stdout"],
  onCommand: (command: ParsedCommand) => void,
): Command {
  const program = new Command("savepoint");
  const output: OutputConfiguration = {
    writeOut: (text) => void stdout.write(text),
    writeErr: () => {},
    getOutHelpWidth: () => (stdout.isTTY ? stdout.columns : undefined) as number,
    getOutHasColors: () => false,
  };
  program
    .description("Crash-proof AI agents: inspect, rewind, fork and resume their saved work.")
    .version(version(), "-V, --version", "print the version")
    .option("-s, --store <url>", "the store (default: SAVEPOINT_URL, or the nearest .savepoint folder upwards)")
    .option("--json", "print one JSON document")
    .option("--jsonl", "print one JSON object per line")
    .option("--color", "use colours even if the output is not a terminal")
    .option("--no-color", "use no colours; NO_COLOR has the same effect, FORCE_COLOR the opposite")
    .option("-q, --quiet", "print only data, warnings and errors")
    .option("-y, --yes", "do not ask for confirmation")
    .helpOption("-h, --help", "print help")
    .helpCommand("help [verb]", "print help for a verb")
    .showSuggestionAfterError()
    .exitOverride()
    .configureOutput(output)
    .configureHelp({ formatHelp: formatProgramHelp(verbs) })
    .allowExcessArguments()
    .action(() => {
      const [unknown] = program.args;
      if (unknown !== undefined) throw unknownVerb(verbs, unknown);
      program.outputHelp();
    });
  // Commander sets `color` to true because of --no-color. Without either option, the terminal decides.
  program.setOptionValue("color", undefined);
  for (const verb of verbs) {
    const command = program
      .command(verb.name)
      .summary(verb.summary)
      .description(verb.summary)
      .allowExcessArguments(false);
    if (verb.alias !== undefined) command.alias(verb.alias);
    verb.declare(command);
    command.configureHelp({ formatHelp: formatVerbHelp(verb) }).action((...parsed: unknown[]) => {
      const positionals = parsed.slice(0, -2).flat() as (string | undefined)[];
      const options = Object.entries(parsed.at(-2) as object).filter(([, value]) => value !== undefined);
      onCommand({ verb, positionals, options: Object.fromEntries(options) });
    });
  }
  return program;
}

function unknownVerb(verbs: readonly Verb[], typed: string): Error {
  const names = [...verbs.map(({ name }) => name), ...verbs.flatMap(({ alias }) => alias ?? [])];
  const closest = findClosestName(typed, names);
  const advice = closest === undefined ? '"savepoint --help" lists the verbs.' : `Did you mean ${quote(closest)}?`;
  return usageError(`There is no verb ${quote(typed)}. ${advice}`);
}

function missingArgument(verbs: readonly Verb[], argv: readonly string[], message: string): Error {
  const argument = /'(.+)'/.exec(message)?.[1] ?? "";
  const verb = argv.find((word) => verbs.some(({ name, alias }) => word === name || word === alias)) ?? "";
  return usageError(`The argument <${argument}> is missing. "savepoint ${verb} --help" describes it.`);
}

/** The error names the usage of the verb, because a surplus argument is often the value of an option. */
function excessArguments(program: Command, message: string): Error {
  const name = /'(.+)'/.exec(message)?.[1] ?? "";
  const usage = program.commands.find((command) => command.name() === name)?.usage() ?? "";
  return usageError(
    `There are too many arguments. Usage: savepoint ${name} ${usage}. "savepoint ${name} --help" lists the options.`,
  );
}

type FormatHelp = (command: Command, helper: Help) => string;

function formatProgramHelp(verbs: readonly Verb[]): FormatHelp {
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
      `Help for a verb: savepoint <verb> --help. Exit codes and JSON shapes: docs/cli.md.\n`,
    ].join("\n");
  };
}

/** An example that is longer than this, with its description, is printed on two lines. */
const MAX_EXAMPLE = 90;

function formatVerbHelp(verb: Verb): FormatHelp {
  return (command, helper) => {
    const help = Help.prototype.formatHelp.call(helper, command, helper).trimEnd();
    const width = Math.max(...verb.examples.map(([line]) => line.length));
    const isWide = verb.examples.some(([, meaning]) => width + meaning.length > MAX_EXAMPLE);
    const examples = verb.examples.map(([line, meaning]) =>
      isWide ? `  # ${meaning}\n  ${line}` : `  ${line.padEnd(width)}  # ${meaning}`,
    );
    return `${help}\n\nExamples:\n${examples.join("\n")}\n\nOptions of all verbs: savepoint --help\n`;
  };
}

const CHECKPOINT_NAMES = `Names of checkpoints:
  0190f3c2-…-5e6f7a8b   the id
  5e6f7a8b              the last eight characters of the id
  order-88#14           the number in a session
  order-88@what-if      the newest of a branch
  order-88              the newest of a session
  order-88~1            the parent of that; ~3 goes back three, after any name
  …:/messages/3         with a JSON pointer: a part of the state
`;
