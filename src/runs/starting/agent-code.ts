/** Calls the functions of an agent other than its step. Their errors become `AGENT_FAILED`, with the name of the agent. */
import { SavepointError } from "../../errors.js";
import { describeSession, migrateState as migrate } from "../../sessions/index.js";
import type { Agent } from "../agent/index.js";
import { describeThrown } from "../journal/index.js";

/** Returns the first state of a session. */
export async function callInitial(agent: Agent, input: unknown): Promise<unknown> {
  return call(agent, "initial", () => agent.definition.initial(input));
}

/** Returns the state after it has received a further input. */
export async function callReceive(agent: Agent, state: unknown, input: unknown): Promise<unknown> {
  const received = await call(agent, "receive", () => agent.definition.receive?.(state, input));
  return received ?? state;
}

/**
 * Upgrades a state to the current version of the agent.
 *
 * @param version the version of the state; `undefined` for a state that the caller saved, which is current
 */
export async function migrateAgentState(
  agent: Agent,
  sessionId: string,
  state: unknown,
  version: number | undefined,
): Promise<unknown> {
  const { migrations } = agent.definition;
  return migrate(describeSession(sessionId), migrations, version ?? migrations.length, state);
}

async function call(agent: Agent, what: string, run: () => unknown): Promise<unknown> {
  try {
    return await run();
  } catch (cause) {
    const why = describeThrown(cause);
    throw new SavepointError(
      "AGENT_FAILED",
      `Agent ${JSON.stringify(agent.name)} has failed: its function "${what}" threw ${why}`,
      { cause },
    );
  }
}
