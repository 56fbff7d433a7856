/** Calls the functions of an agent other than its step. Their errors become `AGENT_FAILED`, with the name of the agent. */
import { SavepointError } from "../../errors.js";
import { describeSession, migrateState as migrate } from "../../sessions/index.js";
import type { Agent } from "../agent/index.js";
import { describeThrown } from "../journal/index.js";

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

/** Calls a function of the agent. @param what its name in the definition */
export async function callAgent(agent: Agent, what: "initial" | "receive", run: () => unknown): Promise<unknown> {
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
