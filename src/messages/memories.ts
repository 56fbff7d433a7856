/** The items of LangGraph's long-term memory in a state, for search and display. */
import { briefJson } from "./brief-json.js";
import { isFields } from "./fields.js";

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

/** Finds the items in a state that `SavepointStore` has saved: `{ namespace, pages: [[{ key, value, updatedAt }]] }`. Never throws. */
export function findMemories(state: unknown): StateMemory[] {
  if (!isFields(state) || Array.isArray(state)) return [];
  const { namespace, pages } = state;
  if (!Array.isArray(namespace) || !Array.isArray(pages)) return [];
  return pages.flatMap((page: unknown, number) =>
    Array.isArray(page) ? page.flatMap((item: unknown, at) => toMemory(item, `/pages/${number}/${at}`) ?? []) : [],
  );
}

function toMemory(item: unknown, path: string): StateMemory | undefined {
  if (!isFields(item)) return undefined;
  const { key, value, updatedAt } = item;
  if (typeof key !== "string" || !isFields(value) || typeof updatedAt !== "number") return undefined;
  return { role: undefined, text: `${key}\n${briefJson(value)}`, id: key, timestamp: updatedAt, path };
}
