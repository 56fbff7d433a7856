/** A thread in which a crash has left a tool call without a result. */
import { AIMessage, type BaseMessage, HumanMessage, ToolMessage } from "@langchain/core/messages";
import { END, MessagesAnnotation, START, StateGraph } from "@langchain/langgraph";
import { expect, test } from "vitest";
import { Savepoint } from "../../src/index.js";
import { resolveToolCalls, SavepointSaver } from "../../src/integrations/langgraph/index.js";

const T = { configurable: { thread_id: "t" } };

/** Like a provider, rejects a history in which a tool call has no result right behind it. */
function model(messages: readonly BaseMessage[]): AIMessage {
  for (const [index, message] of messages.entries()) {
    const calls = AIMessage.isInstance(message) ? (message.tool_calls ?? []) : [];
    const next = messages.slice(index + 1, index + 1 + calls.length);
    const results = next.map((result) => (ToolMessage.isInstance(result) ? result.tool_call_id : undefined));
    if (calls.some(({ id }) => !results.includes(id))) throw new Error("a tool call has no result");
  }
  return new AIMessage("reply");
}

test.each([[{ c2: "paid" }], ["drop" as const]])(
  "a thread that every model rejects works again after %j",
  async (resolution) => {
    await using sp = await Savepoint.open("memory:");
    const graph = new StateGraph(MessagesAnnotation)
      .addNode("agent", ({ messages }) => ({ messages: [model(messages)] }))
      .addEdge(START, "agent")
      .addEdge("agent", END)
      .compile({ checkpointer: new SavepointSaver(sp) });
    const calls = [
      { id: "c1", name: "look", args: {} },
      { id: "c2", name: "pay", args: {} },
    ];
    await graph.updateState(
      T,
      {
        messages: [
          new HumanMessage("Refund"),
          new AIMessage({ content: "", tool_calls: calls }),
          new ToolMessage({ tool_call_id: "c1", content: "found" }),
        ],
      },
      "agent",
    );
    await expect(graph.invoke({ messages: [new HumanMessage("Hello?")] }, T)).rejects.toThrow("no result");
    expect((await sp.session("t").latest())?.pendingToolCalls).toMatchObject([{ id: "c2", name: "pay" }]);
    await expect(sp.session("t").resolveToolCalls("drop")).rejects.toThrow("graph.updateState");

    const { values } = await graph.getState(T);
    const { messages } = values as { messages: BaseMessage[] };
    expect(() => resolveToolCalls(messages, { c9: "?" })).toThrow('Pending: "c2"');
    await graph.updateState(T, { messages: resolveToolCalls(messages, resolution) }, "agent");
    expect((await sp.session("t").latest())?.pendingToolCalls).toEqual([]);
    const reply = await graph.invoke({ messages: [new HumanMessage("And now?")] }, T);
    expect(reply.messages.at(-1)?.content).toBe("reply");
    expect((await sp.sessions.load("t"))?.status).toBe("completed");
  },
);
