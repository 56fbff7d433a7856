/** The tool that says how much there is. */
import { z } from "zod";
import { AGENT, defineTool } from "../tool.js";

export const persistenceStats = defineTool({
  name: "persistence_stats",
  title: "How much is stored",
  description:
    "Counts agents, conversations, messages, sessions and checkpoints, and the bytes they take: of the whole store, or of one agent.",
  input: z.strictObject({ agent: AGENT.describe("Only what is this agent's.") }),
  output: z.object({
    agent: z.string().optional(),
    agents: z.number(),
    conversations: z.number(),
    messages: z.number(),
    sessions: z.number(),
    checkpoints: z.number(),
    bytes: z.number(),
  }),
  writes: false,
  async run({ agent }, scope) {
    const filter = scope.agentFilter(agent);
    return { ...filter, ...(await scope.sp.stats(filter)) };
  },
});
