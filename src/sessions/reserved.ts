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
  if (isFromIntegration(from)) return;
  const name = names.find((each) => each.startsWith(PREFIX));
  if (name === undefined) return;
  throw invalidArgument(
    `${what} cannot be named ${JSON.stringify(name)}: names that start with "${PREFIX}" are reserved. Use another name. Nothing was saved.`,
  );
}

/** Whether an integration of this package has marked these options, or this function. */
export function isFromIntegration(from: object): boolean {
  return Boolean((from as { readonly [INTEGRATION]?: unknown })[INTEGRATION]);
}

/** New annotations of the head of a branch, to be committed with the checkpoint that follows it. */
export interface ParentAnnotations {
  /** The seq of the head. */
  readonly seq: number;
  /** By name. An annotation that exists is a `CONFLICT`. */
  readonly values: ReadonlyMap<string, unknown>;
}

/** What only integrations can add to a save, or to a load. */
export interface IntegrationOptions {
  /** The states of all loads with the same object share what they read. */
  readonly sharing?: object;
  /** New annotations of the head, which are committed with the checkpoint that follows it. */
  readonly annotations?: ParentAnnotations;
}

/** What the integration that has marked these options adds to them. */
export function integrationOptions(from: object): IntegrationOptions {
  const mark = (from as { readonly [INTEGRATION]?: unknown })[INTEGRATION];
  return typeof mark === "object" && mark !== null ? mark : {};
}
