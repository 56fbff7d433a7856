/** Agents that a module of the user's exports: each of its own, in lists, or as its default. */
import { pathToFileURL } from "node:url";
import type { Agent } from "../index.js";
import type { Cli } from "./cli.js";
import { usageError } from "./errors.js";
import { sanitize } from "./terminal-text.js";

export async function loadAgents(cli: Cli, path: string | undefined): Promise<Agent[]> {
  if (path === undefined) {
    throw usageError(
      "Say where your agents are: --agents ./agents.mjs, a module that exports what defineAgent() returned.",
    );
  }
  let module: Record<string, unknown>;
  try {
    module = (await import(pathToFileURL(cli.resolvePath(path)).href)) as Record<string, unknown>;
  } catch (error) {
    throw usageError(`${sanitize(path)} cannot be loaded: ${(error as Error).message}`, error);
  }
  const found = new Set(Object.values(module).flat().filter(isAgent));
  if (found.size === 0) throw usageError(`${sanitize(path)} exports no agent. Export what defineAgent() returned.`);
  return [...found];
}

export function selectAgent(agents: readonly Agent[], name: string | undefined): Agent {
  const [only] = agents;
  if (name === undefined && agents.length === 1) return only as Agent;
  const found = agents.find((agent) => agent.name === name);
  if (found) return found;
  const names = agents.map((agent) => sanitize(agent.name)).join(", ");
  throw usageError(
    name === undefined ? `Say which agent: ${names}.` : `There is no agent "${sanitize(name)}" among ${names}.`,
  );
}

// A module may use another copy of the package: what an agent is, is told by what it has.
function isAgent(value: unknown): value is Agent {
  const { name, definition } = (value ?? {}) as Partial<Agent>;
  return typeof name === "string" && typeof definition?.step === "function";
}
