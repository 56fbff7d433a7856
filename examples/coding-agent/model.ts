// The model: put yours here. With OPENAI_API_KEY or OPENAI_BASE_URL it is any service with the API of OpenAI (OpenAI, OpenRouter,
// Ollama, vLLM, LM Studio, …). Without, it is a scripted model, so that the agent runs offline.
import { type Message, message, type ToolCall } from "savepoint";
import { callScriptedModel } from "./scripted-model.ts";
import { describeTools } from "./tools.ts";

const SYSTEM = `You are a coding agent. You work in one folder, with the tools you have. Paths are relative to that folder.
Say in one sentence what you do next. Run the tests after each change. When the task is done, say what you have done.`;

/** A reply, with the tokens that it has used. Savepoint adds them up, and `limits: { tokens }` can bound them. */
export interface Reply extends Message {
  usage?: { total_tokens: number };
}

export async function callModel(messages: readonly Message[], signal: AbortSignal): Promise<Reply> {
  const { OPENAI_API_KEY, OPENAI_BASE_URL, MODEL = "gpt-5-mini" } = process.env;
  if (!OPENAI_API_KEY && !OPENAI_BASE_URL) return callScriptedModel(messages, signal);

  const response = await fetch(`${OPENAI_BASE_URL ?? "https://api.openai.com/v1"}/chat/completions`, {
    method: "POST",
    headers: { "content-type": "application/json", authorization: `Bearer ${OPENAI_API_KEY ?? ""}` },
    body: JSON.stringify({
      model: MODEL,
      messages: [message.system(SYSTEM), ...messages].map(toOpenAi),
      tools: describeTools(),
    }),
    signal,
  });
  if (!response.ok) {
    // Savepoint retries errors whose status is temporary, such as 429 and 503.
    const text = `The model returned ${response.status}: ${await response.text()}`;
    throw Object.assign(new Error(text), { status: response.status });
  }
  const { choices, usage } = (await response.json()) as Completion;
  const { content, tool_calls: calls = [] } = choices[0]?.message ?? {};
  const toolCalls = calls.map((call) => ({
    id: call.id,
    name: call.function.name,
    arguments: parseArguments(call.function.arguments),
  }));
  return { ...message.assistant(content ?? "", toolCalls), ...(usage && { usage }) };
}

interface Completion {
  choices: { message: { content?: string | null; tool_calls?: OpenAiCall[] } }[];
  usage?: { total_tokens: number };
}

interface OpenAiCall {
  id: string;
  type: "function";
  function: { name: string; arguments: string };
}

function toOpenAi({ role, content, toolCalls, toolCallId }: Message): object {
  const toCall = ({ id, name, arguments: args }: ToolCall): OpenAiCall => ({
    id,
    type: "function",
    function: { name, arguments: JSON.stringify(args) },
  });
  return {
    role,
    content,
    ...(toolCalls && { tool_calls: toolCalls.map(toCall) }),
    ...(toolCallId && { tool_call_id: toolCallId }),
  };
}

/** The arguments of a call. Models sometimes write invalid JSON; the tool then reports which arguments are missing. */
function parseArguments(json: string): unknown {
  try {
    return JSON.parse(json) as unknown;
  } catch {
    return {};
  }
}
