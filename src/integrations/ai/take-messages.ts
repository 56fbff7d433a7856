/** What is said in a turn, as messages. */
import { invalidArgument } from "./invalid.js";
import { isObject, type ModelMessage } from "./sdk.js";

const ROLES: readonly unknown[] = ["user", "assistant", "tool", "system"];

export function parseMessages(input: string | ModelMessage | readonly ModelMessage[]): ModelMessage[] {
  if (typeof input === "string") return [{ role: "user", content: input }];
  const list: readonly unknown[] = Array.isArray(input) ? input : [input];
  return list.map((each) => {
    if (isObject(each) && ROLES.includes(each["role"]) && "content" in each) return each as ModelMessage;
    const advice =
      "parts" in Object(each) ? " Turn messages of a user interface into such with convertToModelMessages()." : "";
    throw invalidArgument(`run.messages() takes a text, or messages with a role and a content.${advice}`, {
      given: each,
    });
  });
}
