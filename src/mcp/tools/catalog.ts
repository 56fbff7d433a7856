/**
 * All tools, and the sets of them that a server can offer.
 *
 * To add a tool, define it with `defineTool` in a file of this folder and add it to {@link TOOLS}.
 */
import { invalidArgument } from "../errors.js";
import { AGENT_TOOLS } from "./agents.js";
import { BRANCH_TOOLS } from "./branches.js";
import { CHECKPOINT_TOOLS } from "./checkpoints.js";
import { CONVERSATION_TOOLS } from "./conversations.js";
import { runAnswer } from "./run-answer.js";
import { sessionList } from "./session-list.js";
import { sessionResume } from "./session-resume.js";
import { sessionSave } from "./session-save.js";
import { sessionSearch } from "./session-search.js";
import { persistenceStats } from "./stats.js";
import type { Tool } from "./tool.js";

/** All tools in the order in which they are listed: the most important ones first. */
export const TOOLS: readonly Tool[] = [
  sessionResume,
  sessionSave,
  sessionList,
  sessionSearch,
  ...CHECKPOINT_TOOLS,
  ...BRANCH_TOOLS,
  runAnswer,
  ...CONVERSATION_TOOLS,
  ...AGENT_TOOLS,
  persistenceStats,
];

const namesOf = (...prefixes: string[]): string[] =>
  TOOLS.map(({ name }) => name).filter((name) => prefixes.some((prefix) => name.startsWith(prefix)));

/** What a coding agent needs: save and resume its work, find it again, go back and try something else. */
const CODING = [
  ...namesOf("session_"),
  "checkpoint_list",
  "checkpoint_diff",
  "checkpoint_restore",
  "checkpoint_fork",
] as const;

/** Names of sets, for the option `tools`. */
export const GROUPS: Readonly<Record<string, readonly string[]>> = {
  coding: CODING,
  all: namesOf(""),
  sessions: namesOf("session_"),
  checkpoints: namesOf("checkpoint_"),
  runs: namesOf("run_"),
  memory: namesOf("conversation_", "agent_"),
  conversations: namesOf("conversation_"),
  agents: namesOf("agent_"),
};

const DEFAULT_TOOLS: readonly string[] = ["coding"];

/**
 * The tools that these names select, in the order of {@link TOOLS}.
 * @param names names of tools and of {@link GROUPS}
 * @throws `INVALID_ARGUMENT` for an unknown name
 */
export function selectTools(names: readonly string[] = DEFAULT_TOOLS): readonly Tool[] {
  const selected = new Set(names.flatMap((name) => resolveName(name)));
  if (selected.size === 0) throw invalidArgument(`\`tools\` selects no tool. ${describeNames()}`);
  return TOOLS.filter(({ name }) => selected.has(name));
}

function resolveName(name: string): readonly string[] {
  if (Object.hasOwn(GROUPS, name)) return GROUPS[name] as readonly string[];
  if (TOOLS.some((tool) => tool.name === name)) return [name];
  throw invalidArgument(`There is no tool and no group of tools ${JSON.stringify(name)}. ${describeNames()}`);
}

function describeNames(): string {
  const tools = TOOLS.map(({ name }) => name).join(", ");
  return `Groups: ${Object.keys(GROUPS).join(", ")}. Tools: ${tools}.`;
}
