/** Prompts: requests that a user picks from a menu of the client, such as `/mcp__savepoint__resume` in Claude Code. */
import { completable, type GetPromptResult, type McpServer } from "@modelcontextprotocol/server";
import { z } from "zod";
import { completeIds } from "./resources/discovery.js";
import type { AgentScope } from "./scope.js";

/** Registers the prompts whose tools are offered. */
export function registerPrompts(server: McpServer, scope: AgentScope, isOffered: (tool: string) => boolean): void {
  const sessions = completeIds(() => scope.sp.sessions.list(scope.agentFilter()));
  const session = (description: string): z.ZodOptional<z.ZodString> =>
    completable(z.string().describe(description), sessions).optional();

  if (isOffered("session_resume")) {
    server.registerPrompt(
      "resume",
      {
        title: "Resume my last session",
        description: "Loads the work that was saved last in this project, and continues it.",
        argsSchema: z.object({ session: session("Default: the last one of this project.") }),
      },
      (input) =>
        ask(
          `Call session_resume${withSession(input.session)}. Summarise in a few sentences what is done, what comes next (\`resumeHint\`) and what is open (\`pendingToolCalls\`, \`questions\`). Check the files that the state names before you rely on it. Then continue with the next step. If there is no session to resume, show me the candidates and ask which one I mean.`,
        ),
    );
  }
  if (isOffered("session_save")) {
    server.registerPrompt(
      "save",
      {
        title: "Save progress",
        description: "Saves the current work as a checkpoint that can be resumed.",
        argsSchema: z.object({ session: session("Default: the session you work on, or a new one.") }),
      },
      (input) =>
        ask(
          `Save our current progress with session_save${withSession(input.session)}. ${
            input.session === undefined
              ? "Use the session that you resumed or saved before; otherwise choose a short id that names the task. "
              : ""
          }The state must be sufficient to continue without this conversation: the goal, what is done, decisions and their reasons, the files that were changed, what is left to do. Set \`resumeHint\` to the next step and \`label\` to a short name of this moment. Then tell me the id of the session.`,
        ),
    );
  }
  if (isOffered("session_search")) {
    server.registerPrompt(
      "find",
      {
        title: "Find earlier work",
        description: "Finds sessions that contain a text.",
        argsSchema: z.object({ text: z.string().describe("A word or phrase.") }),
      },
      ({ text }) =>
        ask(
          `Find earlier work with session_search { "text": ${JSON.stringify(text)} }. List the sessions with their project, when they were saved, and what they are about. Do not resume one before I choose it.`,
        ),
    );
  }
  if (isOffered("checkpoint_restore") && isOffered("checkpoint_list") && isOffered("checkpoint_diff")) {
    server.registerPrompt(
      "go_back",
      {
        title: "Go back to a checkpoint",
        description: "Compares an earlier checkpoint of a session with the newest, and restores it if you agree.",
        argsSchema: z.object({ session: session("Default: the session you work on.") }),
      },
      (input) =>
        ask(
          `List the checkpoints ${input.session === undefined ? "of the session that we work on" : `of session ${JSON.stringify(input.session)}`} with checkpoint_list, and ask me which one to go back to. Show me what checkpoint_diff says about it. Call checkpoint_restore only after I agree. It restores the saved state, not files.`,
        ),
    );
  }
}

function withSession(session: string | undefined): string {
  return session === undefined ? "" : ` { "session": ${JSON.stringify(session)} }`;
}

function ask(text: string): GetPromptResult {
  return { messages: [{ role: "user", content: { type: "text", text } }] };
}
