/** The nodes that ran between two checkpoints, which LangGraph does not pass to a checkpointer. */
import { TASKS } from "@langchain/langgraph-checkpoint";
import type { StoredCheckpoint } from "./stored.js";

/** The names that are stored with a checkpoint, at most. */
const MAX_NODES = 16;

/**
 * The names of the nodes that ran since the parent. A node has run if it has seen other versions of its channels than at the
 * parent, or if the parent contains a `Send` to it. LangGraph's internal nodes are left out.
 *
 * @param parent `undefined` if nothing ran before
 */
export function findNodes(
  { versions_seen: seen = {} }: Partial<Pick<StoredCheckpoint, "versions_seen">>,
  parent: StoredCheckpoint | undefined,
): string[] {
  const before = parent?.versions_seen ?? {};
  const names = Object.keys(seen).filter((node) => JSON.stringify(seen[node]) !== JSON.stringify(before[node]));
  const sent = sendsOf(parent?.channel_values[TASKS]).filter((node) => Object.hasOwn(seen, node));
  const nodes = [...new Set([...names, ...sent])].filter((name) => !name.startsWith("__"));
  return nodes.slice(0, MAX_NODES);
}

/** The nodes of the sends in a channel. Earlier versions of LangGraph stored two lists. */
function sendsOf(value: unknown): string[] {
  return [value].flat(2).flatMap((send) => {
    const { node } = (send ?? {}) as { readonly node?: unknown };
    return typeof node === "string" ? [node] : [];
  });
}
