/** The items of LangGraph's long-term memory in a state: what search and display need of them. */
import { briefJson } from "./brief-json.js";
import { type Fields, isFields } from "./fields.js";

/** An item of a memory. It has no role, because it is not a message. */
export interface StateMemory {
  readonly role: undefined;
  /** Its key, and its value as JSON. */
  readonly text: string;
  readonly id: string;
  /** When it was last written, in milliseconds since 1970. */
  readonly timestamp: number;
  /** The JSON pointer to it. */
  readonly path: string;
}

/** Finds the items in a state that `SavepointStore` has saved: `{ namespace, items: { [key]: { value, updatedAt } } }`. Never throws. */
export function findMemories(state: unknown): StateMemory[] {
  if (!isFields(state) || Array.isArray(state)) return [];
  const { namespace, items } = state;
  if (!Array.isArray(namespace) || !isFields(items) || Array.isArray(items)) return [];
  return Object.entries(items).flatMap(([key, item]) => {
    if (!isFields(item)) return [];
    const { value, updatedAt } = item as Fields;
    if (!isFields(value) || typeof updatedAt !== "number") return [];
    const path = `/items/${key.replaceAll("~", "~0").replaceAll("/", "~1")}`;
    return [{ role: undefined, text: `${key}\n${briefJson(value)}`, id: key, timestamp: updatedAt, path }];
  });
}
