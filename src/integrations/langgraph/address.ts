/** Where a checkpoint is, as LangGraph says it in the `configurable` part of a config. */
import type { RunnableConfig } from "@langchain/core/runnables";
import { getCheckpointId } from "@langchain/langgraph-checkpoint";
import { SavepointError } from "../../index.js";

/** A namespace of a thread. The namespace of the graph itself is empty; those of subgraphs are not. */
export interface ThreadAddress {
  readonly thread: string;
  readonly namespace: string;
}

/** A checkpoint, or the newest one of its namespace where no id is said. */
export interface CheckpointAddress extends ThreadAddress {
  readonly checkpoint: string | undefined;
}

/** The place that a config names; `undefined` where it names no thread. */
export function parseAddress(config: RunnableConfig | undefined): CheckpointAddress | undefined {
  const { thread_id: thread, checkpoint_ns: namespace } = config?.configurable ?? {};
  if (thread === undefined || thread === null) return undefined;
  return { ...toPlace(thread, namespace ?? ""), checkpoint: checkpointOf(config) };
}

/** The same, for what needs a thread. */
export function requireAddress(config: RunnableConfig | undefined, what: string): CheckpointAddress {
  const place = parseAddress(config);
  if (place) return place;
  throw new SavepointError(
    "INVALID_ARGUMENT",
    `${what} cannot be saved without a thread. Pass one: graph.invoke(input, { configurable: { thread_id: "…" } }).`,
  );
}

export function checkThreadId(thread: unknown): string {
  // Numbers are what many examples use; SQLite and PostgreSQL make texts of them as well.
  const id = typeof thread === "number" ? String(thread) : thread;
  if (typeof id === "string" && id !== "") return id;
  throw new SavepointError(
    "INVALID_ARGUMENT",
    `A thread_id is a text, not ${id === "" ? "an empty one" : `of type ${typeof id}`}. Pass { configurable: { thread_id: "…" } }.`,
  );
}

/** The config that names a checkpoint, and nothing else. */
export function configOf({ thread, namespace }: ThreadAddress, checkpoint: string): RunnableConfig {
  return { configurable: { thread_id: thread, checkpoint_ns: namespace, checkpoint_id: checkpoint } };
}

/** What a checkpoint is called in its session: namespaces may have the same ids. */
export function storedId({ namespace }: ThreadAddress, checkpoint: string): string {
  return namespace === "" ? checkpoint : `${namespace}/${checkpoint}`;
}

/** What LangGraph calls a checkpoint of a namespace. */
export function checkpointId({ namespace }: ThreadAddress, stored: string): string {
  return namespace === "" ? stored : stored.slice(namespace.length + 1);
}

/** The branch whose head is the newest checkpoint of a namespace. */
export function branchOf({ namespace }: ThreadAddress): string {
  return namespace === "" ? "main" : `/${namespace}`;
}

function toPlace(thread: unknown, namespace: unknown): ThreadAddress {
  if (typeof namespace === "string") return { thread: checkThreadId(thread), namespace };
  throw new SavepointError("INVALID_ARGUMENT", `A checkpoint_ns is a text, not of type ${typeof namespace}.`);
}

function checkpointOf(config: RunnableConfig | undefined): string | undefined {
  const id: unknown = config && getCheckpointId(config);
  if (id === "" || id === undefined) return undefined;
  if (typeof id === "string") return id;
  throw new SavepointError("INVALID_ARGUMENT", `A checkpoint_id is a text, not of type ${typeof id}.`);
}
