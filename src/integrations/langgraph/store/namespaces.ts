/** Namespaces: their validation, the ids of the sessions that store them, and the conditions of `listNamespaces`. */
import { InvalidNamespaceError, type MatchCondition } from "@langchain/langgraph-checkpoint";
import { invalidArgument } from "../errors.js";

/** The path of a collection of items, such as `["users", "ada"]`. */
export type Namespace = readonly string[];

/** What cannot be in an id, and what separates its parts. */
const ESCAPED = /[%/\p{Cc}\p{Cs}]/gu;
const ESCAPE = /%u([0-9A-F]{4})|(?:%[0-9A-F]{2})+/g;

/** The same rules as those of LangGraph's stores. @throws `InvalidNamespaceError` */
export function validateNamespace(namespace: Namespace): void {
  const problem = problemOf(namespace);
  if (problem !== undefined) throw new InvalidNamespaceError(problem);
}

/** Whether items can be stored under a namespace. */
export function isValidNamespace(namespace: Namespace): boolean {
  return problemOf(namespace) === undefined;
}

function problemOf(namespace: unknown): string | undefined {
  const shown = JSON.stringify(namespace);
  if (!Array.isArray(namespace)) return `A namespace must be an array of labels, got ${shown}.`;
  if (namespace.length === 0) return "The namespace is empty. Pass at least one label.";
  for (const label of namespace as unknown[]) {
    if (typeof label !== "string") return `The labels of a namespace must be strings, got ${typeof label} in ${shown}.`;
    if (label === "") return `The labels of a namespace cannot be empty: ${shown}.`;
    if (label.includes(".")) return `The labels of a namespace cannot contain periods: ${shown}.`;
  }
  if (namespace[0] === "langgraph") return `The first label of a namespace cannot be "langgraph": ${shown}.`;
  return undefined;
}

/** The id of the session of the queue. It is not the id of a namespace, and each agent has its own. */
export function queueIdOf(agent: string): string {
  return `${escape(agent)}%turns`;
}

/** The ids of the sessions of a store: `<agent>/<label>/<label>`, in which a label is escaped where necessary. */
export class SessionIds {
  readonly #prefix: string;

  constructor(agent: string) {
    this.#prefix = `${escape(agent)}/`;
  }

  /** The id of the session that stores a namespace. */
  of(namespace: Namespace): string {
    return this.#prefix + namespace.map(escape).join("/");
  }

  /** What the ids of all longer namespaces begin with. */
  prefixBelow(namespace: Namespace): string {
    return namespace.length === 0 ? this.#prefix : `${this.of(namespace)}/`;
  }

  /** The namespace that a session stores; `undefined` for the id of another session. */
  namespaceOf(id: string): Namespace | undefined {
    if (!id.startsWith(this.#prefix)) return undefined;
    try {
      const namespace = id.slice(this.#prefix.length).split("/").map(unescape);
      return isValidNamespace(namespace) && this.of(namespace) === id ? namespace : undefined;
    } catch (error) {
      // Another program has made this id.
      if (error instanceof URIError) return undefined;
      throw error;
    }
  }
}

function escape(label: string): string {
  return label.replaceAll(ESCAPED, (character) =>
    // Only unpaired surrogates are in this range, because the expression matches code points.
    character >= "\ud800" && character <= "\udfff"
      ? `%u${character.charCodeAt(0).toString(16).toUpperCase()}`
      : encodeURIComponent(character),
  );
}

function unescape(label: string): string {
  return label.replaceAll(ESCAPE, (bytes, surrogate: string | undefined) =>
    surrogate === undefined ? decodeURIComponent(bytes) : String.fromCharCode(Number.parseInt(surrogate, 16)),
  );
}

/** Whether a namespace begins with a prefix, label by label. */
export function startsWith(namespace: Namespace, prefix: Namespace): boolean {
  return prefix.length <= namespace.length && prefix.every((label, index) => namespace[index] === label);
}

/** Whether a namespace meets a condition, in which `*` stands for any label. */
export function matchesCondition(namespace: Namespace, { matchType, path }: MatchCondition): boolean {
  if (path.length > namespace.length) return false;
  const start = matchType === "prefix" ? 0 : namespace.length - path.length;
  return path.every((label, index) => label === "*" || label === namespace[start + index]);
}

/** Validates the conditions of a listing. */
export function parseConditions(conditions: readonly MatchCondition[] = []): readonly MatchCondition[] {
  for (const { matchType, path } of conditions) {
    if (matchType !== "prefix" && matchType !== "suffix")
      throw invalidArgument(`\`matchType\` must be "prefix" or "suffix", got ${JSON.stringify(matchType)}.`);
    if (!Array.isArray(path)) throw invalidArgument(`The path of a ${matchType} must be an array of labels.`);
  }
  return conditions;
}

/** The labels before the first `*` of all prefix conditions: no other namespaces have to be read. */
export function commonPrefix(conditions: readonly MatchCondition[]): Namespace {
  let longest: Namespace = [];
  for (const { matchType, path } of conditions) {
    if (matchType !== "prefix") continue;
    const end = path.indexOf("*");
    const labels = end === -1 ? path : path.slice(0, end);
    if (labels.length > longest.length) longest = labels;
  }
  return longest;
}

/** The different namespaces after each is cut to `maxDepth` labels, in LangGraph's order. */
export function listDistinct(namespaces: readonly Namespace[], maxDepth: number | undefined): string[][] {
  const distinct = new Map(
    namespaces.map((namespace) => {
      const cut = namespace.slice(0, maxDepth);
      return [JSON.stringify(cut), cut];
    }),
  );
  return [...distinct.values()].sort((a, b) => a.join(":").localeCompare(b.join(":")));
}
