/** Agents that a module of the user exports: as single exports, in arrays, or as the default export. */
import { pathToFileURL } from "node:url";
import type { Agent } from "../index.js";
import type { Cli } from "./cli.js";
import { usageError } from "./errors.js";
import { quote } from "./format.js";

/** Loads all agents of the module that `--agents` names. */
export async function loadAgents(cli: Cli, path: string | undefined): Promise<Agent[]> {
  if (path === undefined) {
    throw usageError(
      "--agents is missing. Pass a module that exports agents of defineAgent(), such as --agents ./agents.mjs. Without such a module, run your program again: sp.run() and sp.recover() resume sessions too.",
    );
  }
  let module: Record<string, unknown>;
  try {
    module = (await import(pathToFileURL(cli.resolvePath(path)).href)) as Record<string, unknown>;
  } catch (error) {
    const message = (error as Error).message.replace(/([^.!?])$/, "$1.");
    throw usageError(`${path} cannot be loaded: ${message}${loadingHint(cli, path, error)}`, error);
  }
  const agents = new Set(Object.values(module).flat().filter(isAgent));
  if (agents.size === 0) throw usageError(`${path} exports no agent. Export the result of defineAgent().`);
  return [...agents];
}

/** Advice if Node.js reads the file as CommonJS, or if this version of Node.js does not run TypeScript. Empty if neither is the cause. */
function loadingHint({ io }: Cli, path: string, error: unknown): string {
  const { code, name, message } = error as NodeJS.ErrnoException;
  const [, base, kind] = /^(.*)\.([jt]s)$/i.exec(path) ?? [];
  if (name === "SyntaxError" && kind !== undefined && /outside a module|token 'export'|import\.meta/.test(message)) {
    return ` Node.js reads it as CommonJS: rename it to ${base}.m${kind}, or set "type": "module" in its package.json.`;
  }
  const isCause =
    code === "ERR_UNKNOWN_FILE_EXTENSION" ||
    code === "ERR_UNSUPPORTED_TYPESCRIPT_SYNTAX" ||
    (name === "SyntaxError" && code === undefined);
  if (!/\.[cm]?tsx?$/i.test(path) || !isCause) return "";
  return ` Node.js ${io.node.version} cannot run this TypeScript file. Use Node.js 22.18 or later, which removes types, or install tsx and set NODE_OPTIONS="--import tsx".`;
}

/** The agent with this name, or the only one if no name is given. */
export function selectAgent(agents: readonly Agent[], name: string | undefined): Agent {
  const [only] = agents;
  if (name === undefined && agents.length === 1) return only as Agent;
  const agent = agents.find((each) => each.name === name);
  if (agent) return agent;
  const names = agents.map((each) => each.name).join(", ");
  throw usageError(
    name === undefined
      ? `The module exports several agents. Name one of them: ${names}.`
      : `The module exports no agent ${quote(name)}. It exports: ${names}.`,
  );
}

// The module may import another copy of the package, so agents are recognised by their fields and not by their class.
function isAgent(value: unknown): value is Agent {
  const { name, definition } = (value ?? {}) as Partial<Agent>;
  return typeof name === "string" && typeof definition?.step === "function";
}
