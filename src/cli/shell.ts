/** Command lines that users copy into a shell. */

/** Characters that mean nothing to a shell, unless a word begins with them. */
const PLAIN = /^[\w@%+:,./-][\w@%+=:,./#-]*$/;

/** A word as a POSIX shell reads it. Stored ids are not trusted: `$(…)` in one must not be executed. */
export function quoteForShell(word: string): string {
  return PLAIN.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
}

/** A command to copy. Names that begin with a hyphen must not become options, so they follow `--`. */
export function suggestCommand(verb: string, names: readonly string[], ...options: readonly string[]): string {
  const isOption = names.some((name) => name.startsWith("-"));
  const words = isOption ? [...options, "--", ...names] : [...names, ...options];
  return ["savepoint", verb, ...words].map(quoteForShell).join(" ");
}
