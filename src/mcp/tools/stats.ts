/** The tool that counts what is stored. */
import { z } from "zod";
import { AGENT } from "./arguments.js";
import { defineTool } from "./tool.js";

export const persistenceStats = defineTool({
  name: "persistence_stats",
  title: "Count what is stored",
  description:
    "Counts agents, conversations, messages, sessions and checkpoints and their size in bytes, for the store or for one agent.",
  input: z.strictObject({ agent: AGENT }),
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
