/** What a verb of the command line is: one file each, which says all there is to know about it. */
import type { Command } from "commander";
import type { Cli } from "./cli.js";
import type { ExitCode } from "./exit-codes.js";

/** The headings under which `savepoint --help` lists them, in this order. */
export const GROUPS = ["Look", "Travel in time", "Run", "Keep safe", "Set up"] as const;

export interface Verb {
  readonly name: string;
  readonly group: (typeof GROUPS)[number];
  /** One line, for the list of verbs. */
  readonly summary: string;
  /** What it is good for, each with a line that can be typed. */
  readonly examples: readonly (readonly [command: string, meaning: string])[];
  /** Adds what it takes to its command. */
  declare(command: Command): void;
  /** @returns the exit code, where that is not 0 */
  run(cli: Cli, positionals: readonly (string | undefined)[], options: unknown): Promise<ExitCode | void>;
}

/** What a verb is declared with: its options have a type of their own. */
export interface VerbDefinition<Options> extends Omit<Verb, "run"> {
  run(cli: Cli, positionals: readonly (string | undefined)[], options: Options): Promise<ExitCode | void>;
}

/** Commander has parsed the options as `declare` says; here they get the type that goes with it. */
export function defineVerb<Options = object>(definition: VerbDefinition<Options>): Verb {
  return definition as Verb;
}
