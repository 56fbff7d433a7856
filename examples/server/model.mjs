// The model. With AI_GATEWAY_API_KEY it is a real one; without, a scripted one, so that the servers run offline. For another
// provider, replace `gateway(…)`, for example by `anthropic("claude-sonnet-4-5")` of `@ai-sdk/anthropic`.
import { gateway, simulateReadableStream } from "ai";
import { MockLanguageModelV3 } from "ai/test";

/** @import { LanguageModelV3Prompt, LanguageModelV3StreamPart } from "@ai-sdk/provider" */

export const model = process.env["AI_GATEWAY_API_KEY"]
  ? gateway(process.env["MODEL"] ?? "openai/gpt-5-mini")
  : createScriptedModel();

/** Finds the order that the user names, refunds it, and reports the refund, word by word. */
function createScriptedModel() {
  return new MockLanguageModelV3({
    doStream: async ({ prompt }) => ({
      stream: simulateReadableStream({ chunks: [...speak(prompt)], chunkDelayInMs: 20 }),
    }),
  });
}

/** @param {LanguageModelV3Prompt} prompt @returns {Generator<LanguageModelV3StreamPart>} */
function* speak(prompt) {
  const asked = prompt.map(({ role }) => role).lastIndexOf("user");
  const order = /refund order (\d+)/i.exec(JSON.stringify(prompt[asked]?.content))?.[1];
  const done = prompt.slice(asked).filter(({ role }) => role === "tool").length;
  const toolName = order && ["findOrder", "refund"][done];

  yield { type: "stream-start", warnings: [] };
  if (toolName) {
    const input = JSON.stringify({ order });
    yield { type: "tool-call", toolCallId: `${toolName}-${order}-${prompt.length}`, toolName, input };
  } else {
    const text = order ? `Order ${order} is refunded.` : `Hello. Tell me: "Refund order 88."`;
    yield { type: "text-start", id: "text" };
    for (const delta of text.split(/(?<= )/)) yield { type: "text-delta", id: "text", delta };
    yield { type: "text-end", id: "text" };
  }
  yield {
    type: "finish",
    finishReason: { unified: toolName ? "tool-calls" : "stop", raw: undefined },
    usage: {
      inputTokens: { total: 20, noCache: 20, cacheRead: 0, cacheWrite: 0 },
      outputTokens: { total: 8, text: 8, reasoning: 0 },
    },
  };
}
