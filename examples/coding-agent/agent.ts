// The agent: it calls the model, asks for approval where a tool needs it, runs the tool, and repeats.
import { defineAgent, type Message, message, type Run, type ToolCall } from "savepoint";
import { callModel } from "./model.ts";
import { findTool, runTool } from "./tools.ts";

interface State {
  messages: Message[];
}

export const coder = defineAgent({
  name: "coder",
  initial: (task: string): State => ({ messages: [message.user(task)] }),
  // The model is asked at most 100 times for one task.
  limits: { steps: 100 },
  async step(run: Run<State>) {
    const { messages } = run.state;
    // The function is called once. If the process dies afterwards, the recorded reply is replayed.
    const reply = await run.llm(async ({ signal }) => {
      const said = await callModel(messages, signal);
      if (said.content) console.log(`\n${said.content}`);
      return said;
    });
    messages.push(reply);
    if (!reply.toolCalls?.length) return run.complete(reply.content);
    for (const call of reply.toolCalls) messages.push(message.toolResult(call.id, await useTool(run, call)));
  },
});

/** Runs a tool call of the model, and returns its result for the model. */
async function useTool(run: Run<State>, call: ToolCall): Promise<string> {
  const tool = findTool(call.name);
  if (tool?.needsApproval) {
    // The run is saved and waits for an answer. No process is needed until then, and it may come days later.
    const answer = await run.ask<string>({
      text: `May I run: ${tool.describe(call.arguments)}?`,
      data: call.arguments,
    });
    if (answer !== "yes") return `The user did not allow it. The answer was: ${answer}`;
  }
  return run.tool(
    call,
    async ({ signal }) => {
      console.log(`  ${call.name} ${tool?.describe(call.arguments) ?? ""}`);
      const result = await runTool(call, signal);
      // To try a crash at the worst moment: the tool has done its work, and its result is not recorded.
      if (process.env["CRASH"] === call.name) process.kill(process.pid, "SIGKILL");
      return result;
    },
    { onUnknown: tool?.onUnknown ?? "retry" },
  );
}
