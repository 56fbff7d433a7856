/** Calling the parts of an agent that are not its step: what they throw is told with whose it is. */
import { SavepointError } from "../../errors.js";
import { describeSession, migrateState as migrate } from "../../sessions/index.js";
import type { Agent } from "../agent/index.js";
import { describeThrown } from "../journal/index.js";

/** The state to begin with. */
export async function callInitial(agent: Agent, input: unknown): Promise<unknown> {
  return call(agent, "initial", () => agent.definition.initial(input));
}

/** The state with a further input in it. */
export async function callReceive(agent: Agent, state: unknown, input: unknown): Promise<unknown> {
  const received = await call(agent, "receive", () => agent.definition.receive?.(state, input));
  return received ?? state;
}

/**
 * A state of an earlier version of the agent, brought up to date.
 *
 * @param version where it is not known, somebody has saved the state by hand: as it is to be now
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
      `Agent ${JSON.stringify(agent.name)} cannot go on: ${what} has thrown ${why}`,
      { cause },
    );
  }
}
