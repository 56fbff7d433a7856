/** All tools, in the order in which they are offered: what is needed first comes first. */
import type { Tool } from "../tool.js";
import { AGENT_TOOLS } from "./agents.js";
import { BRANCH_TOOLS } from "./branches.js";
import { CHECKPOINT_TOOLS } from "./checkpoints.js";
import { CONVERSATION_TOOLS } from "./conversations.js";
import { sessionResume } from "./session-resume.js";
import { sessionSave } from "./session-save.js";
import { persistenceStats } from "./stats.js";

export const TOOLS: readonly Tool[] = [
  sessionResume,
  sessionSave,
  ...CHECKPOINT_TOOLS,
  ...BRANCH_TOOLS,
  ...CONVERSATION_TOOLS,
  ...AGENT_TOOLS,
  persistenceStats,
];
