/** What a turn returns, and what the SDK says was said in it, read from whatever `complete()` is given. */
import { isObject, type ModelMessage } from "./sdk.js";

export interface Answer {
  readonly output: unknown;
  /** The messages that the SDK's loop has added, as it has them; `undefined` where it was not given its result. */
  readonly messages: readonly ModelMessage[] | undefined;
}

/** Reads a result of the SDK, of either version, streamed or not; anything else is what the turn returns. */
export async function readAnswer(result: unknown): Promise<Answer> {
  if (!isResult(result)) return { output: result, messages: undefined };
  // Those of a stream are promises.
  const response = await result["response"];
  const messages = (await result["responseMessages"]) ?? (isObject(response) ? response["messages"] : undefined);
  const output = "object" in result ? await result["object"] : await result["text"];
  return { output, messages: Array.isArray(messages) ? (messages as ModelMessage[]) : undefined };
}

/** A result of `generateText`, `streamText`, `generateObject`, `streamObject` or an agent. */
function isResult(value: unknown): value is Readonly<Record<string, unknown>> {
  return isObject(value) && "response" in value && "finishReason" in value && ("text" in value || "object" in value);
}
