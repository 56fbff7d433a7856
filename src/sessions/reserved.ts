/**
 * Names that are reserved for the integrations of this package: keys of metadata and names of annotations. An integration
 * recognizes by them what it has saved itself, and decodes nothing else.
 *
 * Options and functions of an integration are marked with a symbol. Data from users and models cannot contain symbols, not
 * even after JSON parsing, so it cannot pass for an integration. The symbol is registered, because an integration may come
 * from another copy of the package.
 */
import { invalidArgument } from "../util/index.js";

const PREFIX = "savepoint:";
const INTEGRATION = Symbol.for("savepoint.integration");

/**
 * Rejects reserved names.
 *
 * @param from the object that an integration marks
 * @param what the subject of the error message
 */
export function rejectReserved(names: readonly string[], from: object, what: string): void {
  if ((from as { readonly [INTEGRATION]?: unknown })[INTEGRATION] === true) return;
  const name = names.find((each) => each.startsWith(PREFIX));
  if (name === undefined) return;
  throw invalidArgument(
    `${what} cannot be named ${JSON.stringify(name)}: names that start with "${PREFIX}" are reserved. Use another name. Nothing was saved.`,
  );
}
