/** The definition of a verb. Each verb is one file in `verbs/`, with its arguments, its examples and its action. */
import type { Command } from "commander";
import type { Cli } from "./cli.js";
import type { ExitCode } from "./exit-codes.js";

/** The headings of `savepoint --help`, in order. */
export const GROUPS = ["Inspect", "Time travel", "Run", "Maintain", "Set up"] as const;

/** @typeParam Options the options as Commander parses them */
export interface Verb<Options = unknown> {
  readonly name: string;
  /** Another name that people type. */
  readonly alias?: string;
  readonly group: (typeof GROUPS)[number];
  /** One line for the list of verbs: an imperative phrase without a capital letter and a final dot. */
  readonly summary: string;
  /** Command lines that can be typed, each with its meaning. */
  readonly examples: readonly (readonly [command: string, meaning: string])[];
  /** Adds the arguments and options of the verb to its command. */
  declare(command: Command): void;
  /** @returns the exit code, if it is not 0 */
  run(cli: Cli, positionals: readonly (string | undefined)[], options: Options): Promise<ExitCode | void>;
}

/** Defines a verb. Commander parses the options as `declare` describes them; `Options` must match that. */
export function defineVerb<Options = object>(definition: Verb<Options>): Verb {
  return definition as Verb;
}
