/** Agents that a module of the user's exports: each of its own, in lists, or as its default. */
import { pathToFileURL } from "node:url";
import type { Agent } from "../index.js";
import type { Cli } from "./cli.js";
import { usage } from "./failure.js";
import { clean } from "./text.js";

export async function loadAgents(cli: Cli, path: string | undefined): Promise<Agent[]> {
  if (path === undefined) {
    throw usage("Say where your agents are: --agents ./agents.mjs, a module that exports what defineAgent() returned.");
  }
  let module: Record<string, unknown>;
  try {
    module = (await import(pathToFileURL(cli.path(path)).href)) as Record<string, unknown>;
  } catch (error) {
    throw usage(`${clean(path)} cannot be loaded: ${(error as Error).message}`, error);
  }
  const found = new Set(Object.values(module).flat().filter(isAgent));
  if (found.size === 0) throw usage(`${clean(path)} exports no agent. Export what defineAgent() returned.`);
  return [...found];
}

export function agentNamed(agents: readonly Agent[], name: string | undefined): Agent {
  const [only] = agents;
  if (name === undefined && agents.length === 1) return only as Agent;
  const found = agents.find((agent) => agent.name === name);
  if (found) return found;
  const names = agents.map((agent) => clean(agent.name)).join(", ");
  throw usage(name === undefined ? `Say which agent: ${names}.` : `There is no agent "${clean(name)}" among ${names}.`);
}

// A module may use another copy of the package: what an agent is, is told by what it has.
function isAgent(value: unknown): value is Agent {
  const { name, definition } = (value ?? {}) as Partial<Agent>;
  return typeof name === "string" && typeof definition?.step === "function";
}
